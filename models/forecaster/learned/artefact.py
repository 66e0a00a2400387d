"""A trained model on disk: an artefact of the registry with a card and perhaps a corrector.

It imports onnxruntime, so import it lazily where the network is optional.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from models.cluster.arrays import F32
from models.forecaster.learned import corrector
from models.forecaster.learned.features import reference_of
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
from models.registry.drift import Reference
from models.registry.keys import PINNED, Trust
from models.registry.load import Artefact as VerifiedArtefact
from models.registry.load import Samples, verified, write_samples
from models.registry.manifest import (
    MANIFEST,
    MODEL,
    SAMPLES,
    SIGNATURE,
    Manifest,
    Metric,
    Tensor,
    canonical,
    digest_of,
    name_of,
    sealed,
)
from models.registry.parity import PARITY, difference
from models.registry.store import read_folder

SHIPPED: Final = Path(__file__).parent.parent / "shipped"
NETWORK: Final = MODEL
CARD: Final = "card.json"
CORRECTOR: Final = "corrector.npz"
CURVES: Final = "curves.png"
NAME: Final = "tft"
SHIPPED_VERSION: Final = "4785f03a8924add13e58b1f8e1d45781fe9a1a71191940637526941969a20893"
"""The shipped model has no signature: its digest is pinned here. Whoever could change this file
could change any other code as well. After training it again, put its new version here."""
OF_A_PERSON: Final = Trust(unsigned=True)
"""For a folder that a person names on a command line; a service wants a signature."""
_HORIZONS: Final = [AHEAD_MIN.index(horizon) for horizon in HORIZONS_MIN]
# In the network's output the peak follows the three quantiles.
_PEAK: Final = 3
_OUTPUTS: Final = ("quantiles", "hidden")
_INPUT_SHAPES: Final = {
    "past": (len(PAST_WINDOWS), len(PAST)),
    "future": (len(AHEAD_MIN), len(FUTURE)),
    "static": (len(STATIC),),
}
"""Of one row."""
_SAMPLES: Final = 100
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
    """An open network; predicts for many rows at once."""

    def __init__(self, network: bytes, threads: int = 1) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        self._session = ort.InferenceSession(
            network,
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
        feed = {name: _padded(getattr(inputs, name)[block]) for name in _INPUT_SHAPES}
        return self.outputs(feed)

    def outputs(self, feed: Mapping[str, F32]) -> list[NDArray[np.float32]]:
        """The served outputs for encoded inputs."""
        found: list[NDArray[np.float32]] = self._session.run(list(_OUTPUTS), dict(feed))
        return found


def _padded(values: F32) -> F32:
    missing = _BLOCK - values.shape[0]
    # Full blocks, which are nearly all, are not copied.
    return np.pad(values, [(0, missing), *[(0, 0)] * (values.ndim - 1)]) if missing else values


class Artefact(NamedTuple):
    """A model that is ready to serve."""

    card: Card
    session: Session
    manifest: Manifest
    corrector: corrector.Corrector | None
    reference: Reference | None = None
    """Its features in training; None if training left nothing."""


def load_artefact(folder: Path = SHIPPED, threads: int = 1, trust: Trust = OF_A_PERSON) -> Artefact:
    """Open a model; raises InputError if it is not what it says, or does not fit this version."""
    if not (folder / CARD).exists():
        raise InputError(f"{folder}: holds no {CARD}; train a model with `hirl train forecaster`")
    if folder == SHIPPED:
        trust = Trust(pinned=frozenset({SHIPPED_VERSION}))
    return opened(read_folder(folder), trust, str(folder), threads)


def opened(files: Mapping[str, bytes], trust: Trust, where: str, threads: int = 1) -> Artefact:
    """Open a model from the bytes of its files."""
    return opened_artefact(verified(files, trust, where), where, threads)


def opened_artefact(found: VerifiedArtefact, where: str, threads: int = 1) -> Artefact:
    """Open a verified artefact; raises InputError if it does not fit this version."""
    manifest, files = found.manifest, found.files
    if CARD not in files:
        raise InputError(f"{where}: holds no {CARD}; train a model with `hirl train forecaster`")
    try:
        card = msgspec.json.decode(files[CARD], type=Card)
    except msgspec.MsgspecError as error:
        raise InputError(f"{where}: {CARD}: {error}; train the model again") from error
    # Forecasts carry the name on the card, so it has to be that of the network in use.
    if card.model != identity(found.network):
        raise InputError(f"{where}: {CARD}: describes {card.model}, the network is another one")
    # A network takes its inputs by position; with another order it would answer with nonsense.
    if manifest.features_sha256 != features_sha256() or card.inputs != expected_inputs():
        raise InputError(f"{where}: {card.model} was trained on other inputs; train it again")
    session = Session(found.network, threads)
    # The shipped one was compared when its digest was pinned.
    if found.signed_by != PINNED:
        _check_samples(session, found.samples, where)
    fitted = None
    if CORRECTOR in files:
        fitted = corrector.read(files[CORRECTOR], f"{where}: {CORRECTOR}")
        _check_corrector(fitted, manifest, f"{where}: {CORRECTOR}")
    return Artefact(card, session, manifest, fitted, reference_of(found))


def _check_corrector(found: corrector.Corrector, manifest: Manifest, where: str) -> None:
    """Refuse one that was fitted on the hidden state of another network."""
    width = next(one.shape[-1] for one in manifest.outputs if one.name == "hidden")
    features = width + 2 * corrector.ERRORS if isinstance(width, int) else 0
    shape = len(HORIZONS_MIN), features
    fits = found.mean.shape == found.spread.shape == shape
    if not fits or found.weights.shape != (len(HORIZONS_MIN), features + 1):
        raise InputError(f"{where}: was fitted on another network; fit it anew")


def _check_samples(session: Session, samples: Samples | None, where: str) -> None:
    """Refuse a network that answers here otherwise than where it was exported."""
    if samples is None:
        raise InputError(f"{where}: holds no {SAMPLES}; train a model with `hirl train forecaster`")
    found = dict(zip(_OUTPUTS, session.outputs(samples.inputs), strict=True))
    worst = difference(found, samples.outputs)
    if not worst <= PARITY:
        raise InputError(f"{where}: differs from its samples by {worst:.1e}, over {PARITY:g}")


def model_of(artefact: Artefact) -> Model:
    """What forecasters serve of an artefact."""
    card = artefact.card
    return Model(
        card.model, card.trained_until, artefact.session, artefact.corrector, artefact.reference
    )


@cache
def load_model(folder: Path = SHIPPED) -> Model:
    """Open a model with its corrector, once per process."""
    return model_of(load_artefact(folder))


def seal(folder: Path, code_version: str) -> Manifest:
    """Write samples and the manifest of a trained model; a signature that was there is void."""
    network = (folder / NETWORK).read_bytes()
    card = msgspec.json.decode((folder / CARD).read_bytes(), type=Card)
    samples = _sampled(Session(network))
    (folder / SAMPLES).write_bytes(write_samples(samples))
    (folder / SIGNATURE).unlink(missing_ok=True)
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != MANIFEST}
    ahead, unit = len(AHEAD_MIN), "log of a ratio to the recent level"
    manifest = Manifest(
        kind="forecaster",
        name=name_of(NAME, network),
        inputs=[Tensor(name=name, shape=["rows", *shape]) for name, shape in _INPUT_SHAPES.items()],
        outputs=[
            Tensor(name="quantiles", shape=["rows", ahead, _PEAK + 1], unit=unit),
            Tensor(
                name="hidden", shape=["rows", len(AHEAD_MIN), *samples.outputs["hidden"].shape[2:]]
            ),
            Tensor(
                name="attention", shape=["rows", len(AHEAD_MIN), len(PAST_WINDOWS) + len(AHEAD_MIN)]
            ),
        ],
        features_sha256=features_sha256(),
        files={},
        data=[part.part for part in card.learned],
        command=card.command,
        metrics=[
            Metric(name="validation_loss", value=_loss(card)),
            Metric(name="parity", value=card.parity),
        ],
        code_version=code_version,
    )
    manifest = sealed(manifest, files)
    (folder / MANIFEST).write_bytes(canonical(manifest))
    return manifest


def identity(network: bytes) -> str:
    """The model name that forecasts carry: `tft/` and the start of the network's SHA-256."""
    return name_of(NAME, network)


def features_sha256() -> str:
    """The digest of the inputs that this version encodes."""
    return digest_of(expected_inputs())


def _sampled(session: Session) -> Samples:
    """Random states with the network's answers. Six digits, so that the file stays small."""
    random = np.random.default_rng(0)
    inputs = {
        name: _rounded(random.standard_normal((_SAMPLES, *shape)).astype(np.float32))
        for name, shape in _INPUT_SHAPES.items()
    }
    outputs = map(_rounded, session.outputs(inputs))
    return Samples(inputs, dict(zip(_OUTPUTS, outputs, strict=True)))


def _rounded(values: F32) -> F32:
    digits = [float(f"{value:.6g}") for value in values.ravel().tolist()]
    return np.array(digits, np.float32).reshape(values.shape)


def _loss(card: Card) -> float:
    """Mean over the members of the best validation loss."""
    best = [min(epoch[2] for epoch in curve) for curve in card.curves if curve]
    return float(np.mean(best)) if best else 0.0


def expected_inputs() -> dict[str, list[str]]:
    """The inputs that this version encodes."""
    return {
        "past": list(PAST),
        "windows": [f"{young}-{old}" for young, old in PAST_WINDOWS],
        "future": list(FUTURE),
        "ahead": [str(minutes) for minutes in AHEAD_MIN],
        "static": list(STATIC),
    }
