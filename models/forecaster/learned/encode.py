"""From what was known at a minute to the inputs of the learned forecaster.

One function for training, scoring and serving. It is as-of by construction: every window it
reads ends at the origin or before, and an announcement counts from the minute it was made.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64, I64
from models.cluster.calendar import DAY_MINUTES, WEEK_MINUTES
from models.forecaster.learned.inputs import (
    AHEAD_MIN,
    FUTURE,
    PAST,
    PAST_WINDOWS,
    STATIC,
    Inputs,
    joined,
)
from models.forecaster.learned.occasions import Occasions, occasions_of
from models.forecaster.learned.ratios import LEAST, bounded, known, mean_of_known
from models.forecaster.learned.skills import SKILL_MIN, Skills
from models.forecaster.learned.window_means import WindowMeans
from models.forecaster.series import Series

HISTORY_MIN: Final = 8 * DAY_MINUTES
"""Minutes before an origin that can have an influence on its inputs, announcements apart."""
_RECENT_MIN: Final = 15
_QUIET_MIN: Final = (30, 60)
"""Ages of the minutes that an announced change is held against: events come half an hour early."""
_NEWEST_MIN: Final = 3
_HALF_HOUR_MIN: Final = 30
_HOUR_MIN: Final = 60
_HOURS_BACK: Final = _HOUR_MIN * np.arange(1, 13)
"""Whose same minutes are looked at: what a timer starts, it starts again."""
_AROUND_MIN: Final = 7
"""Minutes around the same time of an earlier day: a single minute is mostly noise."""
SMOOTH_MIN: Final = 45
"""The same for all days together: what noise is left in a quarter of an hour is more than many a
day's course."""
_OFFSET: Final = 0.02
"""Of the day's mean; so that no traffic is a number and little traffic is not all noise."""
DAYS_BACK: Final = 7
"""Earlier days whose same time is looked at."""
_DAYS_BACK_MIN: Final = DAY_MINUTES * np.arange(1, DAYS_BACK + 1)
_THURSDAY: Final = 3
"""The weekday of 1970-01-01, Monday being 0."""
_DAYS_OFF: Final = 5
_CHUNK: Final = 8192
"""Origins at a time, which bounds memory."""
_ROWS: Final = 32
"""Series at a time, likewise."""


class _Level(NamedTuple):
    """The terms in which everything at an origin is expressed."""

    scale: F64
    """[B]."""
    offset: F64
    """[B]."""

    def log(self, values: F64) -> F64:
        """Over the recent level; 0 where unknown."""
        shape = (-1,) + (1,) * (values.ndim - 1)
        offset, scale = self.offset.reshape(shape), self.scale.reshape(shape)
        return bounded(np.log((values + offset) / (scale + offset)))

    def change(self, after: F64, before: F64) -> F64:
        """From one value to another; 0 where one of them is unknown."""
        shape = (-1,) + (1,) * (after.ndim - 1)
        offset = self.offset.reshape(shape)
        return bounded(np.log((after + offset) / (before + offset)))


def encode(series: Series, at: I64) -> Inputs:
    """The inputs at some origins; an origin is the last minute that is known."""
    reader = _Reader([series])
    return joined([reader.read(at[i : i + _CHUNK]) for i in range(0, max(1, at.size), _CHUNK)])


def encode_last(series: Sequence[Series]) -> Inputs:
    """The inputs at the end of each of some series; those that are alike are read at once."""
    alike: dict[tuple[Any, int], list[int]] = {}
    for place, each in enumerate(series):
        alike.setdefault((each.calendar, each.rps.size), []).append(place)
    groups = [p[i : i + _ROWS] for p in alike.values() for i in range(0, len(p), _ROWS)]
    found = joined([_last([series[place] for place in group]) for group in groups])
    order = np.argsort(np.concatenate(groups))
    return Inputs._make(column[order] for column in found)


def _last(series: Sequence[Series]) -> Inputs:
    at = series[0].rps.size - 1
    since, judged_since = max(0, at - DAY_MINUTES), max(0, at - SKILL_MIN)
    return _Reader(series, since, judged_since).read(np.full(len(series), at))


class _Reader:
    """Cumulative sums, made once for many origins of one series.

    Or of R series of one calendar and length, for one origin of each.
    """

    def __init__(self, series: Sequence[Series], since: int = 0, judged_since: int = 0) -> None:
        # Nothing but the rates themselves is read before the minute `since`, and no rule is judged
        # by what came before `judged_since`.
        self._series = series
        rps = np.stack([each.rps for each in series])
        lately = rps[:, since:]
        errors = np.stack([_or_unknown(each.errors, each.rps)[since:] for each in series])
        latency = np.stack([_or_unknown(each.latency, each.rps)[since:] for each in series])
        self._rps = WindowMeans(rps)
        self._skills = Skills(series, self._rps, judged_since)
        self._wild = WindowMeans(np.abs(np.diff(lately, prepend=np.nan)), since)
        self._idle = WindowMeans(np.where(np.isnan(lately), np.nan, lately == 0.0), since)
        self._errors = WindowMeans(errors, since)
        self._latency = WindowMeans(latency, since)
        self._calendar = occasions_of(series[0].calendar)

    def read(self, at: I64) -> Inputs:
        level = self._level(at)
        occasions = self._calendar.known(at)
        return Inputs(
            past=self._past(at, level, occasions).astype(np.float32),
            future=self._future(at, level, occasions).astype(np.float32),
            static=self._static(at, level, occasions).astype(np.float32),
            scale=level.scale,
            offset=level.offset,
        )

    def _level(self, at: I64) -> _Level:
        day = self._rps.before(at, DAY_MINUTES)
        scale = day
        for minutes in (180, 60, _RECENT_MIN):
            recent = self._rps.before(at, minutes)
            scale = np.where(np.isnan(recent), scale, recent)
        return _Level(scale, _OFFSET * day + LEAST)

    def _past(self, at: I64, level: _Level, occasions: Occasions) -> F64:
        young, old = np.array(PAST_WINDOWS).T
        first, end = at[:, None] + 1 - old, at[:, None] + 1 - young
        rates, errors = self._rps.between(first, end), self._errors.between(first, end)
        latency = self._latency.between(first, end) / self._latency.before(at, 60)[:, None]
        active, promised = occasions.during(first, end)
        columns: dict[str, F64] = {
            "level": level.log(rates),
            "seen": known(rates),
            "errors": np.nan_to_num(errors),
            "latency": bounded(np.log(np.maximum(latency, LEAST))),
            "judged": known(errors + latency),
            "under_way": active,
            "promised": promised,
        }
        return np.stack([columns[name] for name in PAST], axis=-1)

    def _future(self, at: I64, level: _Level, occasions: Occasions) -> F64:
        then = at[:, None] + np.array(AHEAD_MIN)
        earlier = self._around(then[..., None] - _DAYS_BACK_MIN, _AROUND_MIN)
        before = self._rps.before(at[:, None] - _DAYS_BACK_MIN, _RECENT_MIN)[:, None]
        hours = mean_of_known(self._minute(then[..., None] - _HOURS_BACK))
        changes = level.change(earlier, before + 0.0 * earlier)
        seen = known(earlier + before)
        precedent, weight = occasions.precedents(then, self._rps, level.offset)
        active, promised = occasions.during(then, then + 1)
        columns = self._clock(then, occasions) | {
            "yesterday_change": changes[..., 0],
            "last_week_change": changes[..., -1],
            "usual_change": changes.sum(axis=-1) / np.maximum(seen.sum(axis=-1), 1.0),
            "smooth_change": self._smooth_change(at, then, level),
            "yesterday_level": level.log(earlier[..., 0]),
            "last_week_level": level.log(earlier[..., -1]),
            "has_yesterday": seen[..., 0],
            "has_last_week": seen[..., -1],
            "half_hour_ago": level.log(self._minute(then - _HALF_HOUR_MIN)),
            "hour_ago": level.log(self._minute(then - _HOUR_MIN)),
            "hours_ago": level.log(hours),
            "hours_change": self._hours_change(at, hours, level),
            "until_next": occasions.until_next(then),
            "since_last": occasions.since_last(then),
            "under_way": active,
            "promised": promised,
            "promised_change": bounded(self._promised_change(at, level, occasions, promised)),
            "precedent_change": bounded(precedent),
            "precedents": weight,
        }
        return np.stack([columns[name] for name in FUTURE], axis=-1)

    def _promised_change(self, at: I64, level: _Level, occasions: Occasions, promised: F64) -> F64:
        """What is left of the announced change since things were quiet, by what was seen of it.

        Never more than was announced, since then or since now.
        """
        now = at[:, None]
        first, end = now + 1 - _QUIET_MIN[1], now + 1 - _QUIET_MIN[0]
        since_quiet = promised - occasions.during(first, end)[1]
        since_now = promised - occasions.during(now, now + 1)[1]
        newest = self._rps.before(at, _NEWEST_MIN)[:, None]
        left = since_quiet - level.change(newest, self._rps.between(first, end))
        least = np.minimum(np.minimum(since_quiet, since_now), 0.0)
        return np.clip(left, least, np.maximum(np.maximum(since_quiet, since_now), 0.0))

    def _hours_change(self, at: I64, after: F64, level: _Level) -> F64:
        """To these minutes of the hour, in the hours before."""
        before = mean_of_known(self._rps.before(at[:, None] - _HOURS_BACK, _RECENT_MIN))
        return level.change(after, before[:, None] + 0.0 * after)

    def _minute(self, minutes: I64) -> F64:
        return self._rps.between(minutes, minutes + 1)

    def _smooth_change(self, at: I64, then: I64, level: _Level) -> F64:
        """The course of the days before, all of them together."""
        after = self._around(then[..., None] - _DAYS_BACK_MIN, SMOOTH_MIN)
        before = self._around(at[:, None] - _DAYS_BACK_MIN, SMOOTH_MIN)[:, None]
        both = 0.0 * (after + before)
        return level.change(mean_of_known(after + both), mean_of_known(before + both))

    def _around(self, minutes: I64, reach: int) -> F64:
        return self._rps.between(minutes - reach, minutes + reach + 1)

    def _clock(self, then: I64, occasions: Occasions) -> dict[str, F64]:
        origin = np.array([each.origin_min for each in self._series])[:, None]
        minute = then + origin + _THURSDAY * DAY_MINUTES
        day, week = 2 * np.pi * minute / DAY_MINUTES, 2 * np.pi * minute / WEEK_MINUTES
        weekend = (minute // DAY_MINUTES) % 7 >= _DAYS_OFF
        return {
            "day_sin": np.sin(day),
            "day_cos": np.cos(day),
            "half_day_sin": np.sin(2 * day),
            "half_day_cos": np.cos(2 * day),
            "week_sin": np.sin(week),
            "week_cos": np.cos(week),
            "day_off": (weekend | occasions.holiday(then)).astype(np.float64),
        }

    def _static(self, at: I64, level: _Level, occasions: Occasions) -> F64:
        series, size = self._series, at.size
        columns: dict[str, F64] = {
            "day_level": level.log(self._rps.before(at, DAY_MINUTES)),
            "hour_level": level.log(self._rps.before(at, 60)),
            "roughness": bounded(
                np.log(self._wild.before(at, 180) / (level.scale + level.offset) + 0.01)
            ),
            "idle": np.nan_to_num(self._idle.before(at, DAY_MINUTES)),
            "step": np.zeros(size) + np.log([each.step_min for each in series]),
            "history": np.asarray(np.log1p(np.minimum(at, HISTORY_MIN) / DAY_MINUTES)),
            "last_skill": self._skills.of("last", at, level.offset),
            "hour_skill": self._skills.of("hour", at, level.offset),
            "day_skill": self._skills.of("day", at, level.offset),
            "announces": np.asarray(occasions.visible.any(axis=1), np.float64),
        }
        columns |= _one_hot("priority", [each.priority for each in series], 4, size)
        columns |= _one_hot("domain", [each.domain for each in series], 5, size)
        return np.stack([columns[name] for name in STATIC], axis=-1)


def _or_unknown(values: F64 | None, like: F64) -> F64:
    return np.full_like(like, np.nan) if values is None else values


def _one_hot(name: str, chosen: Sequence[int], count: int, size: int) -> dict[str, F64]:
    places = np.zeros(size, np.int64) + np.array(chosen)
    return {f"{name}_{i}": (places == i).astype(np.float64) for i in range(count)}
