"""The trained network at work: inputs in, quantiles out, by onnxruntime. No torch."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from models.forecaster.data.series import Series
from models.forecaster.learned.encode import encode
from models.forecaster.learned.inputs import AHEAD_MIN, Inputs, from_log
from models.forecaster.port import HORIZONS_MIN
from models.sim.apps import F64
from models.sim.describe.errors import InputError

I64 = NDArray[np.int64]

_PLACES: Final = [AHEAD_MIN.index(horizon) for horizon in HORIZONS_MIN]
_PEAK: Final = 3
_AT_ONCE: Final = 2048
"""Rows of one call at most, which bounds memory when months are scored."""


class Said(NamedTuple):
    """B rows, H horizons, Q quantiles, d hidden."""

    values: F64
    """[B, H, Q]; NaN where nothing was seen in the last day."""
    peak: F64
    """[B, H] .9 quantile of the highest minute until then."""
    hidden: F64
    """[B, H, d] what the answer was read from, for the corrector."""


class Session:
    """An ONNX file that is open; one call answers for all rows."""

    def __init__(self, path: Path, threads: int = 1) -> None:
        if not path.exists():
            raise InputError(f"{path}: no such model; name the folder of one, or train it first")
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        self._session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def say(self, inputs: Inputs) -> Said:
        """What is to come at each origin."""
        rows = inputs.scale.size
        pieces = [self._call(inputs, first) for first in range(0, rows, _AT_ONCE)]
        logs = np.concatenate([piece[0] for piece in pieces])[:, _PLACES].astype(np.float64)
        hidden = np.concatenate([piece[1] for piece in pieces])[:, _PLACES]
        values = from_log(inputs, logs)
        return Said(values[..., :_PEAK], values[..., _PEAK], hidden.astype(np.float64))

    def _call(self, inputs: Inputs, first: int) -> list[NDArray[np.float32]]:
        some = slice(first, first + _AT_ONCE)
        feed = {
            "past": inputs.past[some],
            "future": inputs.future[some],
            "static": inputs.static[some],
        }
        answer: list[NDArray[np.float32]] = self._session.run(["quantiles", "hidden"], feed)
        return answer


def now(series: Sequence[Series]) -> Inputs:
    """The inputs at the end of each of some series: a round of a service."""
    parts = [encode(each, np.array([each.rps.size - 1])) for each in series]
    return Inputs(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
