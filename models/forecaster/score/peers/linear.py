"""A linear model of the last three hours, after DLinear: trend and remainder separately.

Values are logarithms relative to their recent mean, so that the same weights fit quiet nights and
busy evenings. A ridge regression per horizon, solved directly, gives the weights.
"""

from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64, I64
from models.cluster.calendar import DAY_MINUTES
from models.forecaster.port import HORIZONS_MIN, LEAST_HISTORY_MIN, QUANTILES
from models.forecaster.score.evaluation import Absent, Fitted, H, Q
from models.forecaster.score.peers.floors import forward_filled
from models.forecaster.score.windows import origins, sample, targets
from models.forecaster.series import Series

LOOKBACK_MIN: Final = 180
"""As far back as the past windows of the learned model reach."""
TRAINING_DAYS: Final = 21
"""Older days have another level, and the noise depends on the level."""
_TREND_MIN: Final = 25
"""Length of the moving average, as in DLinear."""
_MOST_ROWS: Final = 20_000
_LEAST_ROWS: Final = 60
_RIDGE: Final = 1.0
"""Not tuned."""
_UNIT: Final = 0.1
"""Share of the median traffic above which the scale is logarithmic; below it is nearly linear."""
_HOLDBACK: Final = 0.2
"""Share of rows at the end that is not fitted: the errors are measured there."""


class FittedLinear(NamedTuple):
    """F inputs, H horizons."""

    unit: float
    weights: F64
    """[F, H]."""
    residual: F64
    """[H, Q] quantiles of the residuals, in logarithms."""

    def predict(self, series: Series, at: I64) -> F64:
        """[B, H, Q]."""
        inputs, level = _inputs(series, at, self.unit)
        logs = (inputs @ self.weights + level[:, None])[:, :, None] + self.residual
        forecast: F64 = self.unit * np.expm1(logs.clip(0))
        return forecast


class Linear(NamedTuple):
    """The peer."""

    name: str = "linear"
    most_origins: int | None = None

    def fit(self, series: Series, until_min: int) -> Fitted | Absent:
        """Solve for the weights on the minutes before `until_min`."""
        past = series.until(until_min)
        positive = past.rps[past.rps > 0]
        if positive.size == 0:
            return Absent("there is no traffic before the test")
        first = max(LEAST_HISTORY_MIN - 1, until_min - TRAINING_DAYS * DAY_MINUTES)
        at = origins(past, first, until_min - max(HORIZONS_MIN))
        actual = targets(past, at)
        # All horizons are solved at once, so a row needs the target of each.
        whole = np.flatnonzero(~np.isnan(actual[:, _scored(series)]).any(axis=1))
        if whole.size < _LEAST_ROWS:
            return Absent(f"{whole.size} windows before the test, expected {_LEAST_ROWS}")
        rows = whole[sample(whole, _MOST_ROWS)]
        unit = _UNIT * float(np.median(positive))
        return _solved(past, at[rows], np.nan_to_num(actual[rows]), unit)


def _scored(series: Series) -> list[int]:
    """Indices of the horizons that are at least a step."""
    return [index for index, horizon in enumerate(HORIZONS_MIN) if horizon >= series.step_min]


def _solved(past: Series, at: I64, actual: F64, unit: float) -> FittedLinear:
    inputs, level = _inputs(past, at, unit)
    wanted = np.log1p(actual / unit) - level[:, None]
    busy = np.expm1(level)
    fitted = round(at.size * (1 - _HOLDBACK))
    weights = _ridge(inputs[:fitted], wanted[:fitted], busy[:fitted])
    residuals = wanted[fitted:] - inputs[fitted:] @ weights
    # On fitted rows the errors would be too small; the final weights use all rows.
    residual = np.quantile(residuals, QUANTILES, axis=0).T.reshape(H, Q)
    return FittedLinear(unit, _ridge(inputs, wanted, busy), residual)


def _ridge(inputs: F64, wanted: F64, busy: F64) -> F64:
    """[F, H] weights; rows are weighted by their traffic, as in the scored error."""
    counted = inputs.T * (busy / max(float(busy.mean()), 1e-9))
    gram = counted @ inputs + _RIDGE * np.eye(inputs.shape[1])
    weights: F64 = np.linalg.solve(gram, counted @ wanted).astype(np.float64)
    return weights


def _inputs(series: Series, at: I64, unit: float) -> tuple[F64, F64]:
    """[B, F] trend, remainder and a constant, and [B] the level they are relative to."""
    step = series.step_min
    back = at[:, None] - np.arange(0, LOOKBACK_MIN, step)[::-1]
    values = np.log1p(_filled(series.rps)[back.clip(0)] / unit)
    level = values.mean(axis=1)
    relative = values - level[:, None]
    trend = _moving_average(relative, max(1, _TREND_MIN // step))
    constant = np.ones((at.size, 1))
    return np.concatenate([trend, relative - trend, constant], axis=1), level


def _filled(rps: F64) -> F64:
    """Gaps repeat the value before them; 0 before the first value."""
    return np.nan_to_num(forward_filled(rps))


def _moving_average(values: F64, length: int) -> F64:
    """Centred, with repeated ends; all of it lies before the origin."""
    before = (length - 1) // 2
    padded = np.pad(values, ((0, 0), (before, length - 1 - before)), mode="edge")
    sums = np.cumsum(np.pad(padded, ((0, 0), (1, 0))), axis=1)
    means: F64 = (sums[:, length:] - sums[:, :-length]) / length
    return means
