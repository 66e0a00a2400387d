"""Forecasts by rule: a shape of the day, at the level that was observed recently.

The shape is what each minute usually looks like; the level is observed over usual traffic of the
last minutes. With a flat shape the present continues (`persistence`); with the mean of the same
minute on earlier days the forecast is `seasonal`. How wrong a rule was on each of those days gives
its quantiles for today.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from models.cluster.arrays import F32, F64, Mask
from models.cluster.observation import Observation
from models.forecaster.minutes import MinuteMeans, add_tick, start_minutes
from models.forecaster.past import LEAD_MIN, Past
from models.forecaster.port import (
    HIGH,
    HORIZONS_MIN,
    LOW,
    MEDIAN,
    QUANTILES,
    Forecast,
    issue_forecast,
    ticks_per_minute,
)

AHEAD_MIN: Final = max(HORIZONS_MIN)
_PERSISTENCE_WINDOW_MIN: Final = 2
"""One minute carries its noise into every horizon; more minutes lag behind."""
_SEASONAL_WINDOW_MIN: Final = 3
"""15 minutes would err up to a tenth less on ordinary days, but notice a changed level later."""
_LEAST: Final = np.float32(1e-6)
"""Requests per second; avoids a division by zero for domains without traffic."""


class Spread(NamedTuple):
    """Factors on the rule's forecast, from its errors in the past."""

    value: F32
    """[E, D, H, Q]; 1 for the median."""
    peak: F32
    """[E, D, H]."""


class Rule(NamedTuple):
    """E environments, D domains, M minutes from LEAD_MIN before tick 0 on."""

    shape: F32
    """[E, D, M]."""
    window_min: int
    """Minutes that the level is a mean of."""
    spread: Spread


class RuleState(NamedTuple):
    """State between ticks; `minutes` is updated in place."""

    minutes: MinuteMeans
    forecast: Forecast | None
    """None before the first step."""


class RuleForecaster:
    """Forecasts the rule's shape at the level of the last minutes."""

    def __init__(self, name: str, rule: Rule, recent: F32, tick_s: int) -> None:
        self.name = name
        self._rule = rule
        self._recent = recent
        self._per_minute = ticks_per_minute(tick_s)

    def start(self, observation: Observation) -> RuleState:
        """Start from the minutes that were recorded before tick 0."""
        return RuleState(start_minutes(observation, self._recent), None)

    def step(self, observation: Observation, state: RuleState) -> tuple[Forecast, RuleState]:
        """Add a tick; make a new forecast when it closes a minute."""
        closed = add_tick(observation, state.minutes, self._per_minute)
        forecast = state.forecast
        if closed or forecast is None:
            forecast = self._forecast(observation, state.minutes)
        return forecast, RuleState(state.minutes, forecast)

    def _forecast(self, observation: Observation, minutes: MinuteMeans) -> Forecast:
        rule, minute = self._rule, int(observation.tick[0]) // self._per_minute
        now = level(rule, minutes.domain, minute, rule.window_min)
        course = shape_from(rule, minute, AHEAD_MIN) * now[..., None]
        return issue_forecast(
            self.name,
            observation,
            self._per_minute,
            values_and_peaks(rule.spread, course, course, course),
        )


def persistence(past: Past, tick_s: int) -> RuleForecaster:
    """The present continues: the baseline that every other forecaster has to beat."""
    shape = np.ones((*past.days.shape[:2], past.axis.size), np.float32)
    days = _days_like_today(past)
    # With a flat shape the errors are those of the last minutes' mean itself.
    spread = _spread(days, np.ones_like(days), _PERSISTENCE_WINDOW_MIN)
    rule = Rule(shape, _PERSISTENCE_WINDOW_MIN, spread)
    return RuleForecaster("persistence", rule, past.recent, tick_s)


def seasonal(past: Past, tick_s: int) -> RuleForecaster:
    """The same minute of earlier days, at today's level."""
    return RuleForecaster("seasonal", seasonal_rule(past), past.recent, tick_s)


def seasonal_rule(past: Past) -> Rule:
    """The mean of earlier days of the same kind (weekday or weekend) at the same minute."""
    days = _days_like_today(past)
    # Leave one out: a day must not be compared with a mean that contains it.
    others = (days.sum(axis=2, keepdims=True) - days) / max(1, days.shape[2] - 1)
    spread = _spread(days, others, _SEASONAL_WINDOW_MIN)
    return Rule(_seasonal_shape(past), _SEASONAL_WINDOW_MIN, spread)


def shape_from(rule: Rule, first_minute: int, count: int) -> F32:
    """[E, D, count] the shape from a minute on; beyond its end the last minute is repeated."""
    indices = np.arange(first_minute, first_minute + count) + LEAD_MIN
    return rule.shape[:, :, np.clip(indices, 0, rule.shape.shape[2] - 1)]


def level(rule: Rule, observed: F32, minute: int, window_min: int, ago_min: int = 0) -> F32:
    """[E, D] observed over usual traffic in a window that ends `ago_min` before `minute`."""
    end = observed.shape[2] - ago_min
    recent = observed[:, :, end - window_min : end].mean(axis=2)
    # `minute` begins now, so the window of the shape ends just before it, like the observed one.
    usual = shape_from(rule, minute - ago_min - window_min, window_min).mean(axis=2)
    ratio: F32 = recent / np.maximum(usual, _LEAST)
    return ratio


def values_and_peaks(spread: Spread, likely: F32, low: F32, high: F32) -> tuple[F32, F32]:
    """Values [E, D, H, Q] and peaks [E, D, H] from three courses [E, D, AHEAD_MIN].

    The outer quantiles are spread around the courses `low` and `high`.
    """
    at = np.array(HORIZONS_MIN) - 1
    # In the order of QUANTILES: low, median, high.
    courses = np.stack([course[:, :, at] for course in (low, likely, high)], axis=-1)
    values: F32 = (courses * spread.value).astype(np.float32)
    highest = np.maximum.accumulate(high, axis=2)[:, :, at] * spread.peak
    # A peak is at least the value of its own minute, and at least the peak of earlier horizons.
    peaks = np.maximum.accumulate(np.maximum(highest, values[..., HIGH]), axis=2)
    return values, peaks.astype(np.float32)


def _seasonal_shape(past: Past) -> F32:
    """[E, D, M] mean of the recorded days of the same kind as each minute's own day."""
    weekend = past.weekends(past.recorded())
    by_kind = [_mean_where(past.days, weekend == kind) for kind in (False, True)]
    columns, is_weekend = past.columns(past.axis), past.weekends(past.axis)
    shape: F32 = np.where(is_weekend, by_kind[True][:, :, columns], by_kind[False][:, :, columns])
    return shape.astype(np.float32)


def _mean_where(days: F32, chosen: Mask) -> F32:
    count = np.maximum(1, chosen.sum(axis=0))
    mean: F32 = (days * chosen).sum(axis=2) / count
    return mean


def _days_like_today(past: Past) -> F32:
    """[E, D, days, W] recorded weekdays if tick 0 is on a weekday, else recorded weekends."""
    weekend = past.weekends(past.recorded()[:, LEAD_MIN])
    today = past.weekends(np.zeros(1, np.int32))[0]
    return past.days[:, :, weekend == today]


def _spread(days: F32, shape: F32, window_min: int) -> Spread:
    """Errors of the rule, had it been applied at every minute of every recorded day."""
    ratio = _rolling_mean(days, window_min) / np.maximum(_rolling_mean(shape, window_min), _LEAST)
    # Only minutes whose longest horizon is still recorded, so that all horizons have the same
    # minutes.
    ratio = ratio[..., : 1 - AHEAD_MIN]
    values, peaks = [], []
    for horizon in HORIZONS_MIN:
        actual, usual = (_following(series, window_min, horizon) for series in (days, shape))
        values.append(_quantiles(actual[..., -1] / np.maximum(usual[..., -1] * ratio, _LEAST)))
        highest = actual.max(axis=-1) / np.maximum(usual.max(axis=-1) * ratio, _LEAST)
        peaks.append(_quantiles(highest)[..., HIGH])
    value = np.stack(values, axis=2)
    # The rule itself is the median; the outer quantiles stay on their side of it.
    value[..., MEDIAN] = 1.0
    value[..., LOW] = np.minimum(value[..., LOW], 1.0)
    value[..., HIGH] = np.maximum(value[..., HIGH], 1.0)
    return Spread(value.astype(np.float32), np.stack(peaks, axis=2).astype(np.float32))


def _rolling_mean(series: F32, window: int) -> F32:
    """Mean of the `window` minutes before each minute."""
    mean: F32 = sliding_window_view(series, window, axis=-1).mean(axis=-1)
    # The last mean has no minute after it to forecast.
    return mean[..., :-1]


def _following(series: F32, first: int, horizon: int) -> F32:
    """[..., minutes, horizon] from each minute on, the minutes until the horizon."""
    last = series.shape[-1] - AHEAD_MIN + horizon - 1
    return sliding_window_view(series[..., first : last + 1], horizon, axis=-1)


def _quantiles(errors: F32 | F64) -> F32:
    """[E, D, Q] over days and minutes."""
    flat = errors.reshape(*errors.shape[:2], -1)
    return np.moveaxis(np.quantile(flat, QUANTILES, axis=-1), 0, -1).astype(np.float32)
