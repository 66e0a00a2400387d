"""A trained forecaster as it is shipped: a folder with the network and its card."""

import hashlib
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from models.forecaster.learned.inputs import AHEAD_MIN, FUTURE, PAST, PAST_WINDOWS, STATIC
from models.forecaster.learned.session import Session
from models.inputs.errors import InputError

SHIPPED: Final = Path(__file__).parent.parent / "shipped"
NETWORK: Final = "network.onnx"
CARD: Final = "card.json"
CORRECTOR: Final = "corrector.npz"
CURVES: Final = "curves.png"
NAME: Final = "tft"


class Learned(msgspec.Struct, frozen=True, kw_only=True):
    """A part of what a model was trained on."""

    part: str
    series: int
    minutes: int
    windows: int
    share: float
    """Of the windows of an epoch."""


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """What a user of the model should know before trusting it."""

    model: str
    """Name and the first digits of the network's SHA-256."""
    command: str
    """Which makes it again."""
    trained_until: str
    """The last recorded minute it learned from, simulated ones apart."""
    learned: list[Learned]
    kept_out: list[str]
    """Kinds of simulated events that it never saw."""
    args: dict[str, Any]
    curves: list[list[tuple[int, float, float]]]
    """Of each member: epoch, loss learned and loss judged."""
    parity: float
    """Largest relative difference between the network and its export."""
    minutes: float
    """That the training took."""
    parameters: int
    inputs: dict[str, list[str]]
    """That the network expects; another list is another model."""
    notes: list[str] = []


class Artefact(NamedTuple):
    """A model that is ready to serve."""

    card: Card
    session: Session
    folder: Path


def load_artefact(folder: Path = SHIPPED, threads: int = 1) -> Artefact:
    """Open a model; one that does not fit this version is refused."""
    path = folder / CARD
    try:
        card = msgspec.json.decode(path.read_bytes(), type=Card)
    except FileNotFoundError:
        raise InputError(
            f"{folder}: holds no {CARD}; train a model with `hirl train forecaster`"
        ) from None
    except msgspec.MsgspecError as error:
        raise InputError(f"{path}: {error}; train the model again") from error
    if card.model != identity(folder / NETWORK):
        raise InputError(f"{path}: describes {card.model}, the network beside it is another one")
    if card.inputs != expected_inputs():
        raise InputError(f"{path}: {card.model} was trained on other inputs; train it again")
    return Artefact(card, Session(folder / NETWORK, threads), folder)


def identity(network: Path) -> str:
    """The name that a forecast carries."""
    if not network.exists():
        raise InputError(f"{network}: no such file; train a model with `hirl train forecaster`")
    return f"{NAME}/{hashlib.sha256(network.read_bytes()).hexdigest()[:8]}"


def expected_inputs() -> dict[str, list[str]]:
    """The inputs as this version encodes them."""
    return {
        "past": list(PAST),
        "windows": [f"{young}-{old}" for young, old in PAST_WINDOWS],
        "future": list(FUTURE),
        "ahead": [str(minutes) for minutes in AHEAD_MIN],
        "static": list(STATIC),
    }
