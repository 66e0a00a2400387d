"""Coverage, width and worst hour of intervals, by horizon.

Forecasts [T, H, Q] of consecutive minutes and actual traffic [T]; a forecast counts at the minute
it is about, if that has a value.
"""

from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64
from models.forecaster.port import HIGH, HORIZONS_MIN, LOW

_HOUR_MIN: Final = 60
_LEAST_MIN: Final = 30
"""Outcomes without which an hour is not judged."""


class Coverage(NamedTuple):
    """H horizons; NaN where no outcome is known."""

    share: F64
    """[H] share of outcomes within the interval."""
    mean_width: F64
    """[H] over the mean traffic; NaN without traffic."""
    most_width: F64
    """[H] the same of the widest interval."""
    worst_hour: F64
    """[H] share of outcomes within the interval in the worst hour."""


def coverage(predicted: F64, actual: F64, first: int = 0) -> Coverage:
    """Statistics of the intervals about minute `first` and later."""
    inside = covered(predicted, actual)[first:]
    width = _about(predicted[..., HIGH] - predicted[..., LOW])[first:]
    level = _mean(actual[first:, None])
    width = np.where(np.isnan(inside), np.nan, width) / np.where(level > 0.0, level, np.nan)
    return Coverage(_mean(inside), _mean(width), _largest(width), _worst_hour(inside))


def covered(predicted: F64, actual: F64) -> F64:
    """[T, H] 1 where the interval about that minute held, 0 where not, NaN where none is known."""
    low, high = _about(predicted[..., LOW]), _about(predicted[..., HIGH])
    known = ~(np.isnan(low) | np.isnan(actual)[:, None])
    return np.where(known, (low <= actual[:, None]) & (actual[:, None] <= high), np.nan)


def _about(made: F64) -> F64:
    """[T, H] by the minute a forecast is about instead of the one it was made in."""
    about = np.full(made.shape, np.nan)
    for at, horizon in enumerate(HORIZONS_MIN):
        about[horizon:, at] = made[: made.shape[0] - horizon, at]
    return about


def _mean(values: F64) -> F64:
    """Over known values along the first axis; NaN where there are none."""
    known = ~np.isnan(values)
    count = known.sum(axis=0)
    mean: F64 = np.where(known, values, 0.0).sum(axis=0) / np.where(count > 0, count, np.nan)
    return mean


def _largest(values: F64) -> F64:
    largest: F64 = np.where(np.isnan(values), -np.inf, values).max(axis=0, initial=-np.inf)
    return np.where(np.isinf(largest), np.nan, largest)


def _worst_hour(inside: F64) -> F64:
    hours = inside[: inside.shape[0] // _HOUR_MIN * _HOUR_MIN].reshape(
        -1, _HOUR_MIN, inside.shape[1]
    )
    shares = _mean(hours.swapaxes(0, 1))
    judged = (~np.isnan(hours)).sum(axis=1) >= _LEAST_MIN
    return -_largest(np.where(judged, -shares, np.nan))
