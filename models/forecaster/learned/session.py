"""The trained network at work: inputs in, quantiles out, by onnxruntime. No torch."""

from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from models.cluster.arrays import F32, F64
from models.forecaster.learned.inputs import AHEAD_MIN, Inputs, from_log
from models.forecaster.port import HORIZONS_MIN
from models.inputs.errors import InputError

_PLACES: Final = [AHEAD_MIN.index(horizon) for horizon in HORIZONS_MIN]
_PEAK: Final = 3
_FED: Final = ("past", "future", "static")
_BLOCK: Final = 32
"""Rows of each call, padded: what is said of a row must not depend on who else is asked about.

Products of other sizes are rounded in other ways, in the last bits.
"""


class Said(NamedTuple):
    """B rows, H horizons, Q quantiles, d hidden."""

    values: F64
    """[B, H, Q]; NaN where nothing was seen in the last day."""
    peak: F64
    """[B, H] .9 quantile of the highest minute until then."""
    hidden: F64
    """[B, H, d] what the answer was read from, for the corrector."""


class Session:
    """An ONNX file that is open; it answers for many rows at once."""

    def __init__(self, path: Path, threads: int = 1) -> None:
        if not path.exists():
            raise InputError(f"{path}: no such model; name the folder of one, or train it first")
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        self._session = ort.InferenceSession(
            path,
            options,
            providers=["CPUExecutionProvider"],
            # What it fuses takes a fifth more time here than the parts do.
            disabled_optimizers=["SkipLayerNormFusion"],
        )

    def predict(self, inputs: Inputs) -> Said:
        """What is to come at each origin."""
        rows = inputs.scale.size
        pieces = [self._call(inputs, first) for first in range(0, max(rows, 1), _BLOCK)]
        logs = np.concatenate([piece[0] for piece in pieces])[:rows, _PLACES].astype(np.float64)
        hidden = np.concatenate([piece[1] for piece in pieces])[:rows, _PLACES]
        values = from_log(inputs, logs)
        return Said(values[..., :_PEAK], values[..., _PEAK], hidden.astype(np.float64))

    def _call(self, inputs: Inputs, first: int) -> list[NDArray[np.float32]]:
        some = slice(first, first + _BLOCK)
        feed = {name: _padded(getattr(inputs, name)[some]) for name in _FED}
        answer: list[NDArray[np.float32]] = self._session.run(["quantiles", "hidden"], feed)
        return answer


def _padded(values: F32) -> F32:
    missing = _BLOCK - values.shape[0]
    # Whole blocks, nearly all, are not copied.
    return np.pad(values, [(0, missing), *[(0, 0)] * (values.ndim - 1)]) if missing else values
