"""A linear model of the last three hours, after DLinear: trend and remainder apart.

Values are logarithms against their own recent mean, so that one set of weights serves quiet
nights and busy evenings. The weights are a ridge regression per horizon, solved directly.
"""

from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64, I64
from models.cluster.calendar import DAY_MINUTES
from models.forecaster.port import HORIZONS_MIN, LEAST_HISTORY_MIN, QUANTILES
from models.forecaster.score.peers.floors import last_seen
from models.forecaster.score.peers.port import Absent, Fitted, H, Q
from models.forecaster.score.windows import origins, sample, targets
from models.forecaster.series import Series

LOOKBACK_MIN: Final = 180
TRAINING_DAYS: Final = 21
"""Older days are of another size, and how noisy traffic is depends on its size."""
_TREND_MIN: Final = 25
"""Length of the moving average, as in DLinear."""
_MOST_ROWS: Final = 20_000
_LEAST_ROWS: Final = 60
_RIDGE: Final = 1.0
_UNIT: Final = 0.1
"""Of the median traffic: logarithms are of what is above it, below it they are nearly linear."""
_HOLDBACK: Final = 0.2
"""The last part of the rows is not fitted: how wrong the weights are is measured there."""


class FittedLinear(NamedTuple):
    """F inputs, H horizons."""

    unit: float
    weights: F64
    """[F, H]."""
    residual: F64
    """[H, Q] quantiles of what was left over, in logarithms."""

    def predict(self, series: Series, at: I64) -> F64:
        """[B, H, Q]."""
        inputs, level = _inputs(series, at, self.unit)
        said = (inputs @ self.weights + level[:, None])[:, :, None] + self.residual
        forecast: F64 = self.unit * np.expm1(said.clip(0))
        return forecast


class Linear(NamedTuple):
    """The peer."""

    name: str = "linear"
    most_origins: int | None = None

    def fit(self, series: Series, until_min: int) -> Fitted | Absent:
        """Solve for the weights on what is before `until_min`."""
        past = series.until(until_min)
        positive = past.rps[past.rps > 0]
        if positive.size == 0:
            return Absent("there is no traffic before the test")
        first = max(LEAST_HISTORY_MIN - 1, until_min - TRAINING_DAYS * DAY_MINUTES)
        at = origins(past, first, until_min - max(HORIZONS_MIN))
        came = targets(past, at)
        whole = np.flatnonzero(~np.isnan(came[:, _scored(series)]).any(axis=1))
        if whole.size < _LEAST_ROWS:
            return Absent(f"{whole.size} windows before the test, expected {_LEAST_ROWS}")
        rows = whole[sample(whole, _MOST_ROWS)]
        unit = _UNIT * float(np.median(positive))
        return _solved(past, at[rows], np.nan_to_num(came[rows]), unit)


def _scored(series: Series) -> list[int]:
    """Places of the horizons that are at least a step."""
    return [place for place, horizon in enumerate(HORIZONS_MIN) if horizon >= series.step_min]


def _solved(past: Series, at: I64, came: F64, unit: float) -> FittedLinear:
    inputs, level = _inputs(past, at, unit)
    wanted = np.log1p(came / unit) - level[:, None]
    busy = np.expm1(level)
    kept = round(at.size * (1 - _HOLDBACK))
    left = wanted[kept:] - inputs[kept:] @ _ridge(inputs[:kept], wanted[:kept], busy[:kept])
    residual = np.quantile(left, QUANTILES, axis=0).T.reshape(H, Q)
    return FittedLinear(unit, _ridge(inputs, wanted, busy), residual)


def _ridge(inputs: F64, wanted: F64, busy: F64) -> F64:
    """[F, H] weights; a row counts by its traffic, as it does in the error that is scored."""
    counted = inputs.T * (busy / max(float(busy.mean()), 1e-9))
    gram = counted @ inputs + _RIDGE * np.eye(inputs.shape[1])
    weights: F64 = np.linalg.solve(gram, counted @ wanted).astype(np.float64)
    return weights


def _inputs(series: Series, at: I64, unit: float) -> tuple[F64, F64]:
    """[B, F] trend, remainder and a constant, and [B] the level they are measured from."""
    step = series.step_min
    back = at[:, None] - np.arange(0, LOOKBACK_MIN, step)[::-1]
    values = np.log1p(_filled(series.rps)[back.clip(0)] / unit)
    level = values.mean(axis=1)
    relative = values - level[:, None]
    trend = _moving_average(relative, max(1, _TREND_MIN // step))
    constant = np.ones((at.size, 1))
    return np.concatenate([trend, relative - trend, constant], axis=1), level


def _filled(rps: F64) -> F64:
    """Gaps hold the last value; before the first value there was nothing."""
    return np.nan_to_num(last_seen(rps))


def _moving_average(values: F64, length: int) -> F64:
    """Centred, the ends repeated: all of it lies before the origin."""
    before = (length - 1) // 2
    padded = np.pad(values, ((0, 0), (before, length - 1 - before)), mode="edge")
    sums = np.cumsum(np.pad(padded, ((0, 0), (1, 0))), axis=1)
    means: F64 = (sums[:, length:] - sums[:, :-length]) / length
    return means
