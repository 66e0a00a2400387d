"""A trained model on disk: a folder with the network (ONNX), its card and perhaps a corrector.

The only serving module that imports onnxruntime: import it lazily where the network is optional.
"""

import hashlib
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from models.cluster.arrays import F32
from models.forecaster.learned import corrector
from models.forecaster.learned.inputs import (
    AHEAD_MIN,
    FUTURE,
    PAST,
    PAST_WINDOWS,
    STATIC,
    NetworkInputs,
    from_log,
)
from models.forecaster.learned.serving import Model, NetworkOutput
from models.forecaster.port import HORIZONS_MIN
from models.inputs.errors import InputError

SHIPPED: Final = Path(__file__).parent.parent / "shipped"
NETWORK: Final = "network.onnx"
CARD: Final = "card.json"
CORRECTOR: Final = "corrector.npz"
CURVES: Final = "curves.png"
NAME: Final = "tft"
_HORIZONS: Final = [AHEAD_MIN.index(horizon) for horizon in HORIZONS_MIN]
# In the network's output the peak follows the three quantiles.
_PEAK: Final = 3
_INPUTS: Final = ("past", "future", "static")
_BLOCK: Final = 32
"""Rows per call, padded. Matrix products of another size are rounded differently in the last bits,
and the forecast of a row must not depend on which other rows are forecast with it."""


class TrainedPart(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a model's training data."""

    part: str
    series: int
    minutes: int
    windows: int
    share: float
    """Share of the windows of an epoch."""


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """What a user of the model should know before trusting it. Field names are those on disk."""

    model: str
    """Name and the first digits of the network's SHA-256."""
    command: str
    """The command that reproduces it."""
    trained_until: str
    """Time of the newest recorded minute in the training data; simulated ones don't count."""
    learned: list[TrainedPart]
    kept_out: list[str]
    """Kinds of simulated events that are not in the training data."""
    args: dict[str, Any]
    curves: list[list[tuple[int, float, float]]]
    """Per member: epoch, training loss and validation loss."""
    parity: float
    """Largest relative difference between the network and its export."""
    minutes: float
    """Duration of the training."""
    parameters: int
    inputs: dict[str, list[str]]
    """Inputs that the network expects; a model with other inputs is refused."""
    notes: list[str] = []


class Session:
    """An open ONNX file; predicts for many rows at once."""

    def __init__(self, path: Path, threads: int = 1) -> None:
        if not path.exists():
            raise InputError(f"{path}: no such model; name the folder of one, or train it first")
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        self._session = ort.InferenceSession(
            path,
            options,
            providers=["CPUExecutionProvider"],
            # The fused operator takes a fifth longer here than its parts.
            disabled_optimizers=["SkipLayerNormFusion"],
        )

    def predict(self, inputs: NetworkInputs) -> NetworkOutput:
        """Forecast from each origin."""
        rows = inputs.scale.size
        # At least one call: without rows there would be nothing to concatenate.
        blocks = [self._call(inputs, first) for first in range(0, max(rows, 1), _BLOCK)]
        logs = np.concatenate([block[0] for block in blocks])[:rows, _HORIZONS].astype(np.float64)
        hidden = np.concatenate([block[1] for block in blocks])[:rows, _HORIZONS]
        values = from_log(inputs, logs)
        return NetworkOutput(values[..., :_PEAK], values[..., _PEAK], hidden.astype(np.float64))

    def _call(self, inputs: NetworkInputs, first: int) -> list[NDArray[np.float32]]:
        block = slice(first, first + _BLOCK)
        feed = {name: _padded(getattr(inputs, name)[block]) for name in _INPUTS}
        outputs: list[NDArray[np.float32]] = self._session.run(["quantiles", "hidden"], feed)
        return outputs


def _padded(values: F32) -> F32:
    missing = _BLOCK - values.shape[0]
    # Full blocks, which are nearly all, are not copied.
    return np.pad(values, [(0, missing), *[(0, 0)] * (values.ndim - 1)]) if missing else values


class Artefact(NamedTuple):
    """A model that is ready to serve."""

    card: Card
    session: Session
    folder: Path


def load_artefact(folder: Path = SHIPPED, threads: int = 1) -> Artefact:
    """Open a model; raises InputError if it does not fit this version."""
    path = folder / CARD
    try:
        card = msgspec.json.decode(path.read_bytes(), type=Card)
    except FileNotFoundError:
        raise InputError(
            f"{folder}: holds no {CARD}; train a model with `hirl train forecaster`"
        ) from None
    except msgspec.MsgspecError as error:
        raise InputError(f"{path}: {error}; train the model again") from error
    # Forecasts carry the name on the card, so it has to be that of the network in use.
    if card.model != identity(folder / NETWORK):
        raise InputError(f"{path}: describes {card.model}, the network beside it is another one")
    # A network takes its inputs by position; with another order it would answer with nonsense.
    if card.inputs != expected_inputs():
        raise InputError(f"{path}: {card.model} was trained on other inputs; train it again")
    return Artefact(card, Session(folder / NETWORK, threads), folder)


@cache
def load_model(folder: Path = SHIPPED) -> Model:
    """Open a model with its corrector, once per process."""
    artefact = load_artefact(folder)
    file = folder / CORRECTOR
    return Model(
        name=artefact.card.model,
        trained_until=artefact.card.trained_until,
        network=artefact.session,
        corrector=corrector.load(file) if file.exists() else None,
    )


def identity(network: Path) -> str:
    """The model name that forecasts carry: `tft/` and the start of the file's SHA-256."""
    if not network.exists():
        raise InputError(f"{network}: no such file; train a model with `hirl train forecaster`")
    return f"{NAME}/{hashlib.sha256(network.read_bytes()).hexdigest()[:8]}"


def expected_inputs() -> dict[str, list[str]]:
    """The inputs that this version encodes."""
    return {
        "past": list(PAST),
        "windows": [f"{young}-{old}" for young, old in PAST_WINDOWS],
        "future": list(FUTURE),
        "ahead": [str(minutes) for minutes in AHEAD_MIN],
        "static": list(STATIC),
    }
