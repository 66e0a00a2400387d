"""Simple rules without training; a model is worth serving only if it beats the best of them.

The median is the rule itself. The outer quantiles are the rule times quantiles of the actual value
over the rule, in the three weeks before the test.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64, I64
from models.cluster.calendar import DAY_MINUTES, WEEK_MINUTES
from models.forecaster.port import HIGH, HORIZONS_MIN, LEAST_HISTORY_MIN, LOW, MEDIAN, QUANTILES
from models.forecaster.score.evaluation import Absent, Fitted, H, Q
from models.forecaster.score.windows import origins, targets
from models.forecaster.series import Series

RESIDUAL_DAYS: Final = 21
"""Days before the test whose errors become the outer quantiles."""
_LEAST_RESIDUALS: Final = 10

Rule = Callable[[Series, I64, int], F64]
"""[B] value expected h minutes after the origins."""


class Spread(NamedTuple):
    """Actual values relative to a rule, per horizon."""

    ratio: F64
    """[H, Q] quantiles of value over rule; 1 at the median, because the rule is the median."""
    after_zero: F64
    """[H, Q] quantiles of values where the rule is zero, which no ratio can widen."""


class FittedFloor(NamedTuple):
    """A rule with its past spread."""

    rule: Rule
    spread: Spread

    def predict(self, series: Series, at: I64) -> F64:
        """[B, H, Q]."""
        forecast = np.empty((at.size, H, Q))
        for index, horizon in enumerate(HORIZONS_MIN):
            point = self.rule(series, at, horizon)[:, None]
            wide = point * self.spread.ratio[index]
            # No ratio widens a forecast of zero.
            forecast[:, index] = np.where(point == 0, self.spread.after_zero[index], wide)
        return forecast


class Floor(NamedTuple):
    """A rule and how far back it looks."""

    name: str
    rule: Rule
    lookback_min: int = 0
    most_origins: int | None = None

    def fit(self, series: Series, until_min: int) -> Fitted | Absent:
        """Measure the spread on the minutes before `until_min`."""
        if until_min < self.lookback_min + LEAST_HISTORY_MIN:
            return Absent(
                f"{until_min} minutes of history, expected {self.lookback_min + LEAST_HISTORY_MIN}"
            )
        past = series.until(until_min)
        first = max(self.lookback_min, until_min - RESIDUAL_DAYS * DAY_MINUTES)
        at = origins(past, first, until_min)
        actual = targets(past, at)
        if np.isnan(actual).all():
            return Absent("no values before the test to measure its spread on")
        return FittedFloor(self.rule, _spread(self.rule, past, at, actual))


def forward_filled(rps: F64) -> F64:
    """[N] each minute's value; gaps repeat the value before them."""
    # Gaps point to minute 0 until a value is passed, so leading gaps stay NaN.
    indices = np.where(np.isnan(rps), 0, np.arange(rps.size))
    filled: F64 = rps[np.maximum.accumulate(indices)]
    return filled


def mean_of_last(rps: F64, at: I64, minutes: int) -> F64:
    """[B] means of the values of the last minutes; NaN where there is none."""
    back = at[:, None] - np.arange(minutes)
    values = np.where(back >= 0, rps[back.clip(0)], np.nan)
    valid = ~np.isnan(values)
    counts = valid.sum(axis=1)
    means = np.full(at.size, np.nan)
    np.divide(np.where(valid, values, 0).sum(axis=1), counts, out=means, where=counts > 0)
    return means


def _last(series: Series, at: I64, _: int) -> F64:
    return forward_filled(series.rps)[at]


def _mean(minutes: int) -> Rule:
    def rule(series: Series, at: I64, horizon: int) -> F64:
        means = mean_of_last(series.rps, at, minutes)
        return np.where(np.isnan(means), _last(series, at, horizon), means)

    return rule


def _same_minute(period: int) -> Rule:
    """The value a period ago; if it is missing, two periods ago, else the last value."""

    def rule(series: Series, at: I64, horizon: int) -> F64:
        found = np.full(at.size, np.nan)
        for back in (1, 2):
            there = at + horizon - back * period
            earlier = np.where(there >= 0, series.rps[there.clip(0)], np.nan)
            # A gap of yesterday must not become a gap of the forecast.
            found = np.where(np.isnan(found), earlier, found)
        return np.where(np.isnan(found), _last(series, at, horizon), found)

    return rule


FLOORS: Final = (
    Floor("last", _last),
    Floor("mean5", _mean(5)),
    Floor("mean15", _mean(15)),
    Floor("day", _same_minute(DAY_MINUTES), DAY_MINUTES),
    Floor("week", _same_minute(WEEK_MINUTES), WEEK_MINUTES),
)


def _spread(rule: Rule, past: Series, at: I64, actual: F64) -> Spread:
    ratio, after_zero = np.ones((H, Q)), np.zeros((H, Q))
    for index, horizon in enumerate(HORIZONS_MIN):
        expected = rule(past, at, horizon)
        valid = ~np.isnan(actual[:, index]) & ~np.isnan(expected)
        value, point = actual[valid, index], expected[valid]
        moving = point > 0
        # Quantiles of a handful of values would be luck; the rule then stays without a spread.
        if moving.sum() >= _LEAST_RESIDUALS:
            ratio[index] = _quantiles(value[moving] / point[moving], 1.0)
        if (~moving).sum() >= _LEAST_RESIDUALS:
            after_zero[index] = _quantiles(value[~moving], 0.0)
    return Spread(ratio, after_zero)


def _quantiles(values: F64, middle: float) -> F64:
    """[Q] quantiles around a fixed median, so that they never cross."""
    quantiles = np.quantile(values, QUANTILES)
    quantiles[MEDIAN] = middle
    quantiles[LOW] = min(quantiles[LOW], middle)
    quantiles[HIGH] = max(quantiles[HIGH], middle)
    return quantiles
