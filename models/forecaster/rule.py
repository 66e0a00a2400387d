"""The rule that all forecasters from the past share: a shape, at the level seen recently.

`shape` is what a minute usually looks like; the level is what was observed over what is usual,
in the last minutes. With a flat shape and the last minute as level, now continues; with the
same minute of the days before, it is seasonal. How far the rule was off on each of those days
is how far it may be off today.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from models.cluster.arrays import F32, F64
from models.forecaster.past import LEAD_MIN, Past
from models.forecaster.port import HIGH, HORIZONS_MIN, LOW, MEDIAN, QUANTILES

AHEAD_MIN: Final = max(HORIZONS_MIN)
_PEAK_QUANTILE: Final = QUANTILES[HIGH]
_LEAST: Final = np.float32(1e-6)
"""Requests per second; keeps a domain without traffic from dividing by zero."""


class Spread(NamedTuple):
    """Factors on what the rule says, from its past errors."""

    value: F32
    """[E, D, H, Q]; the median's is 1."""
    peak: F32
    """[E, D, H]."""


class Rule(NamedTuple):
    """E environments, D domains, M minutes from LEAD_MIN before tick 0 on."""

    shape: F32
    """[E, D, M]."""
    window_min: int
    """Minutes that make the level."""
    spread: Spread


def flat_rule(past: Past, window_min: int) -> Rule:
    """Now continues."""
    shape = np.ones((*past.days.shape[:2], past.axis.size), np.float32)
    days = _comparable(past)
    return Rule(shape, window_min, _errors(days, np.ones_like(days), window_min))


def seasonal_rule(past: Past, window_min: int) -> Rule:
    """The mean of the days of the same kind (weekday or weekend) at the same minute."""
    days = _comparable(past)
    # A day must not be compared with a mean that it is part of.
    others = (days.sum(axis=2, keepdims=True) - days) / max(1, days.shape[2] - 1)
    return Rule(_season(past), window_min, _errors(days, others, window_min))


def usual(rule: Rule, first_minute: int, count: int) -> F32:
    """[E, D, count] the shape from a minute on; beyond the end the last minute stays."""
    places = np.arange(first_minute, first_minute + count) + LEAD_MIN
    return rule.shape[:, :, np.clip(places, 0, rule.shape.shape[2] - 1)]


def level(rule: Rule, observed: F32, minute: int, window_min: int, ago_min: int = 0) -> F32:
    """[E, D] observed over usual in a window that ended `ago_min` before `minute` began."""
    end = observed.shape[2] - ago_min
    seen = observed[:, :, end - window_min : end].mean(axis=2)
    normal = usual(rule, minute - ago_min - window_min, window_min).mean(axis=2)
    ratio: F32 = seen / np.maximum(normal, _LEAST)
    return ratio


def spell_out(spread: Spread, likely: F32, low: F32, high: F32) -> tuple[F32, F32]:
    """Values [E, D, H, Q] and peaks [E, D, H] of three courses [E, D, AHEAD_MIN] of minutes.

    `low` and `high` are the courses on which the outer quantiles stand.
    """
    at = np.array(HORIZONS_MIN) - 1
    courses = np.stack([course[:, :, at] for course in (low, likely, high)], axis=-1)
    values: F32 = (courses * spread.value).astype(np.float32)
    highest = np.maximum.accumulate(high, axis=2)[:, :, at] * spread.peak
    # The highest minute until then is not below the minute itself, nor below an earlier one.
    peaks = np.maximum.accumulate(np.maximum(highest, values[..., HIGH]), axis=2)
    return values, peaks.astype(np.float32)


def _season(past: Past) -> F32:
    """[E, D, M] mean of the recorded days of the kind that each minute has."""
    weekend = past.weekends(past.recorded())
    by_kind = [_mean_where(past.days, weekend == kind) for kind in (False, True)]
    columns, is_weekend = past.columns(past.axis), past.weekends(past.axis)
    season: F32 = np.where(is_weekend, by_kind[True][:, :, columns], by_kind[False][:, :, columns])
    return season.astype(np.float32)


def _mean_where(days: F32, chosen: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> F32:
    count = np.maximum(1, chosen.sum(axis=0))
    mean: F32 = (days * chosen).sum(axis=2) / count
    return mean


def _comparable(past: Past) -> F32:
    """[E, D, days, W] the recorded days of the kind of today."""
    weekend = past.weekends(past.recorded()[:, LEAD_MIN])
    today = past.weekends(np.zeros(1, np.int32))[0]
    return past.days[:, :, weekend == today]


def _errors(days: F32, shape: F32, window_min: int) -> Spread:
    """Apply the rule at every minute of every day and see what came."""
    ratio = _rolling_mean(days, window_min) / np.maximum(_rolling_mean(shape, window_min), _LEAST)
    ratio = ratio[..., : 1 - AHEAD_MIN]
    values, peaks = [], []
    for horizon in HORIZONS_MIN:
        came, said = (_following(series, window_min, horizon) for series in (days, shape))
        values.append(_quantiles(came[..., -1] / np.maximum(said[..., -1] * ratio, _LEAST)))
        highest = came.max(axis=-1) / np.maximum(said.max(axis=-1) * ratio, _LEAST)
        peaks.append(_quantiles(highest)[..., HIGH])
    value = np.stack(values, axis=2)
    value[..., MEDIAN] = 1.0
    value[..., LOW] = np.minimum(value[..., LOW], 1.0)
    value[..., HIGH] = np.maximum(value[..., HIGH], 1.0)
    return Spread(value.astype(np.float32), np.stack(peaks, axis=2).astype(np.float32))


def _rolling_mean(series: F32, window: int) -> F32:
    """Means of the windows, by the minute after each."""
    mean: F32 = sliding_window_view(series, window, axis=-1).mean(axis=-1)
    return mean[..., :-1]


def _following(series: F32, first: int, horizon: int) -> F32:
    """[..., minutes, horizon] the minutes until the horizon, from each minute on."""
    last = series.shape[-1] - AHEAD_MIN + horizon - 1
    return sliding_window_view(series[..., first : last + 1], horizon, axis=-1)


def _quantiles(errors: F32 | F64) -> F32:
    """[E, D, Q] over days and minutes."""
    flat = errors.reshape(*errors.shape[:2], -1)
    return np.moveaxis(np.quantile(flat, QUANTILES, axis=-1), 0, -1).astype(np.float32)
