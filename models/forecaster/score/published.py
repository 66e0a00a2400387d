"""Simple models under the published protocols, and the figures that others published.

The models are the last value repeated and a ridge regression after DLinear. Figures are those on
the test rows. Los-loop: Zhao et al., T-GCN, whose epoch was chosen on the test. ETT: as reported
by iTransformer and in the tables of S-Mamba.
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, Protocol

import numpy as np

from models.cluster.arrays import F64
from models.forecaster.score.protocols import Batch, Data, Name, Scores, Tally, windows

_TREND: Final = 25
"""Steps of the moving average, as in DLinear."""
_RIDGE: Final = 1.0


class Model(Protocol):
    """Fitted for some steps ahead."""

    def predict(self, batch: Batch) -> F64:
        """[B, steps, V]."""
        ...


Fit = Callable[[int], Model]
"""Fits a model for a number of steps ahead."""


class Repeat(NamedTuple):
    """The last value repeated."""

    steps: int

    def predict(self, batch: Batch) -> F64:
        """[B, steps, V]."""
        return np.repeat(batch.past[:, -1:], self.steps, axis=1)


class Linear(NamedTuple):
    """Trend and remainder of the past, with separate weights, shared by all variates."""

    weights: F64
    """[2 * past + 1, steps]."""

    def predict(self, batch: Batch) -> F64:
        """[B, steps, V]."""
        inputs, last = _inputs(batch.past)
        forecast = inputs @ self.weights + last[..., None]
        return forecast.swapaxes(1, 2)


def fit_linear(data: Data, steps: int) -> Linear:
    """Solve for the weights on the training rows."""
    size = 2 * data.protocol.past + 1
    gram, moment = _RIDGE * np.eye(size), np.zeros((size, steps))
    for batch in windows(data, range(data.learned), steps):
        inputs, last = _inputs(batch.past)
        # Relative to the last value, so that a changed level needs no weights.
        target = batch.ahead.swapaxes(1, 2) - last[..., None]
        rows = inputs.reshape(-1, size)
        gram += rows.T @ rows
        moment += rows.T @ target.reshape(-1, steps)
    return Linear(np.linalg.solve(gram, moment).astype(np.float64))


def simple_models(data: Data) -> dict[str, Fit]:
    """The models that need no torch, by name."""
    return {"repeat-last": Repeat, "dlinear-like": lambda steps: fit_linear(data, steps)}


def scored(data: Data, name: str, fit: Fit) -> Iterator[Scores]:
    """Score a model at every horizon of the published tables, on every split of the file."""
    for steps in data.protocol.ahead:
        model = fit(steps)
        for split, rows in data.parts.items():
            tally = Tally(data)
            for batch in windows(data, rows, steps):
                tally.add(batch.ahead, model.predict(batch))
            yield tally.scores(name, split, steps)


def _inputs(past: F64) -> tuple[F64, F64]:
    """[B, V, 2 * past + 1] relative to the last value, and the last values [B, V]."""
    values = past.swapaxes(1, 2)
    last = values[..., -1]
    relative = values - last[..., None]
    trend = _moving_average(relative)
    constant = np.ones((*last.shape, 1))
    return np.concatenate([trend, relative - trend, constant], axis=-1), last


def _moving_average(values: F64) -> F64:
    """Centred; the ends are repeated."""
    half = _TREND // 2
    padded = np.pad(values, ((0, 0), (0, 0), (half, half)), mode="edge")
    sums = np.cumsum(np.pad(padded, ((0, 0), (0, 0), (1, 0))), axis=-1)
    means: F64 = (sums[..., _TREND:] - sums[..., :-_TREND]) / _TREND
    return means


class Published(NamedTuple):
    """A figure of a published table; None where the table has none."""

    model: str
    steps: int
    mae: float
    mse: float | None = None
    rmse: float | None = None
    accuracy: float | None = None


def _ett(model: str, *pairs: tuple[float, float]) -> tuple[Published, ...]:
    steps = (96, 192, 336, 720)
    return tuple(
        Published(model, ahead, mae=mae, mse=mse)
        for ahead, (mse, mae) in zip(steps, pairs, strict=True)
    )


PUBLISHED: Final[dict[Name, tuple[Published, ...]]] = {
    "losloop": (Published("T-GCN", 3, mae=3.1802, rmse=5.1264, accuracy=0.9127),),
    "etth1": (
        *_ett("iTransformer", (0.386, 0.405), (0.441, 0.436), (0.487, 0.458), (0.503, 0.491)),
        *_ett("PatchTST", (0.414, 0.419), (0.460, 0.445), (0.501, 0.466), (0.500, 0.488)),
        *_ett("DLinear", (0.386, 0.400), (0.437, 0.432), (0.481, 0.459), (0.519, 0.516)),
        *_ett("RLinear", (0.386, 0.395), (0.437, 0.424), (0.479, 0.446), (0.481, 0.470)),
    ),
    "etth2": (
        *_ett("iTransformer", (0.297, 0.349), (0.380, 0.400), (0.428, 0.432), (0.427, 0.445)),
        *_ett("PatchTST", (0.302, 0.348), (0.388, 0.400), (0.426, 0.433), (0.431, 0.446)),
        *_ett("DLinear", (0.333, 0.387), (0.477, 0.476), (0.594, 0.541), (0.831, 0.657)),
        *_ett("RLinear", (0.288, 0.338), (0.374, 0.390), (0.415, 0.426), (0.420, 0.440)),
    ),
}
