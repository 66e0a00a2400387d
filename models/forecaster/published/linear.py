"""Models without a network: the last value repeated, and a DLinear-like ridge regression."""

from typing import Final, NamedTuple, Protocol

import numpy as np

from models.cluster.arrays import F64
from models.forecaster.published.protocols import Batch, Data, windows

_TREND: Final = 25
"""Steps of the moving average, as in DLinear."""
_RIDGE: Final = 1.0


class Model(Protocol):
    """Learned for some steps ahead; asked window by window."""

    def say(self, batch: Batch) -> F64:
        """[B, steps, V]."""
        ...


class Repeat(NamedTuple):
    """The last value stays."""

    steps: int

    def say(self, batch: Batch) -> F64:
        """[B, steps, V]."""
        return np.repeat(batch.past[:, -1:], self.steps, axis=1)


class Linear(NamedTuple):
    """Trend and remainder of the past, each with weights of its own, shared by all variates."""

    weights: F64
    """[2 * past + 1, steps]."""

    def say(self, batch: Batch) -> F64:
        """[B, steps, V]."""
        inputs, last = _inputs(batch.past)
        said = inputs @ self.weights + last[..., None]
        return said.swapaxes(1, 2)


def fit_linear(data: Data, steps: int) -> Linear:
    """Solve for the weights on the rows to learn from."""
    size = 2 * data.protocol.past + 1
    gram, moment = _RIDGE * np.eye(size), np.zeros((size, steps))
    for batch in windows(data, range(data.learned), steps):
        inputs, last = _inputs(batch.past)
        wanted = batch.ahead.swapaxes(1, 2) - last[..., None]
        rows = inputs.reshape(-1, size)
        gram += rows.T @ rows
        moment += rows.T @ wanted.reshape(-1, steps)
    return Linear(np.linalg.solve(gram, moment).astype(np.float64))


def _inputs(past: F64) -> tuple[F64, F64]:
    """[B, V, 2 * past + 1] against the last value, which is [B, V]."""
    values = past.swapaxes(1, 2)
    last = values[..., -1]
    relative = values - last[..., None]
    trend = _moving_average(relative)
    constant = np.ones((*last.shape, 1))
    return np.concatenate([trend, relative - trend, constant], axis=-1), last


def _moving_average(values: F64) -> F64:
    """Centred, the ends repeated."""
    half = _TREND // 2
    padded = np.pad(values, ((0, 0), (0, 0), (half, half)), mode="edge")
    sums = np.cumsum(np.pad(padded, ((0, 0), (0, 0), (1, 0))), axis=-1)
    means: F64 = (sums[..., _TREND:] - sums[..., :-_TREND]) / _TREND
    return means
