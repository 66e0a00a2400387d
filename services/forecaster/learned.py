"""The trained network in the forecaster: how it is opened, and what a restart needs of it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.cluster.arrays import F32
from models.forecaster.learned import conformal, memory, scores
from models.forecaster.learned.answer import Model
from models.forecaster.learned.memory import Memory
from models.forecaster.learned.record import WIDTH
from models.forecaster.port import HORIZONS_MIN, QUANTILES
from models.inputs.errors import InputError
from services._kit.handler import Refused
from services._kit.snapshot import flatten, rebuild

_ORDERED: Final = "calibration.ordered"
"""Scores by size: a third of all that is remembered, and made from the others at once."""


class Learning(NamedTuple):
    """How a trained network is served."""

    folder: Path | None = None
    """None: the one that is shipped."""
    settings: memory.Settings = memory.DEFAULTS


SHIPPED: Final = Learning()


def opened(learning: Learning) -> Model:
    """The network; InputError says what to do where there is none."""
    try:
        # It loads onnxruntime, which the other models do without.
        from models.forecaster.learned.shipped import model_of  # noqa: PLC0415
    except ImportError as error:
        raise InputError(f"model: tft: {error}; install the extra `serve`") from error
    return model_of() if learning.folder is None else model_of(learning.folder)


def compile_kernels() -> None:
    """Without rows it takes as long as with them."""
    horizons = len(HORIZONS_MIN)
    said, peak = np.zeros((0, horizons, len(QUANTILES))), np.zeros((0, horizons))
    conformal.step(scores.start(0), said, peak, np.zeros(0), 0)


def unfilled(rows: Sequence[Sequence[float | None]]) -> F32:
    """[D, WIDTH] recorded minutes per domain, the newest last; NaN where there are gaps."""
    history = np.full((len(rows), WIDTH), np.nan, np.float32)
    for place, row in enumerate(rows):
        values = np.array(row[-WIDTH:], np.float32)
        history[place, WIDTH - values.size :] = values
    return history


def kept(remembered: Memory) -> dict[str, NDArray[Any]]:
    """What is saved."""
    return {name: array for name, array in flatten(remembered).items() if name != _ORDERED}


def restored(arrays: Mapping[str, NDArray[Any]], rows: int) -> Memory:
    """The reverse; Refused if it is of another form."""
    like = memory.start(rows)
    form = flatten(like)
    ordered = form[_ORDERED].copy()
    found = rebuild(like, {**arrays, _ORDERED: ordered}, frozenset(form))
    _sort(found.calibration)
    return found


def _sort(state: scores.State) -> None:
    for place in np.ndindex(state.kept.shape):
        count = min(int(state.kept[place]), scores.SCORES)
        state.ordered[place][:count] = np.sort(state.recent[place][:count])


def fits(arrays: Mapping[str, NDArray[Any]] | None, rows: int) -> bool:
    """Whether what was saved can be taken up again; another number of domains cannot."""
    try:
        restored(arrays or {}, rows)
    except Refused:
        return False
    return True
