"""Encodes a series, as of a minute, into the inputs of the network.

Training, scoring and serving share it. Inputs cannot contain the future by construction: every
window ends at the origin or before, and an announcement counts from the minute it was made.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64, I64
from models.cluster.calendar import DAY_MINUTES, WEEK_MINUTES
from models.forecaster.learned.announcements import VisibleEvents, event_table
from models.forecaster.learned.inputs import (
    AHEAD_MIN,
    FUTURE,
    PAST,
    PAST_WINDOWS,
    STATIC,
    NetworkInputs,
    joined,
)
from models.forecaster.learned.window_means import (
    LEAST,
    SKILL_MIN,
    RuleSkills,
    WindowMeans,
    bounded,
    mean_of_present,
    present,
)
from models.forecaster.series import Series

# As in `announcements.py`: these numbers are part of a trained network, and its card does not
# notice when they change.
HISTORY_MIN: Final = 8 * DAY_MINUTES
"""Minutes before an origin that its inputs can depend on, apart from announcements."""
_RECENT_MIN: Final = 15
"""Minutes whose mean is the recent level, to which all inputs are relative."""
_QUIET_MIN: Final = (30, 60)
"""Ages of the minutes that an announced change is compared with; events may be 30 minutes early."""
_NEWEST_MIN: Final = 3
"""Minutes whose mean shows how much of an announced change traffic has made already."""
_HALF_HOUR_MIN: Final = 30
_HOUR_MIN: Final = 60
_HOURS_BACK: Final = _HOUR_MIN * np.arange(1, 13)
"""Earlier hours whose same minute is read: timers start jobs at the same minute every hour."""
_AROUND_MIN: Final = 7
"""Minutes around the same time of an earlier day, because a single minute is mostly noise."""
SMOOTH_MIN: Final = 45
"""The same for the mean of all earlier days. Wider, because the noise that is left in 15 minutes
can exceed the change within a day."""
_OFFSET: Final = 0.02
"""Share of the day's mean that is added before taking logarithms, so that zero traffic has one
and low traffic is not all noise."""
DAYS_BACK: Final = 7
"""Earlier days whose same time is read."""
_DAYS_BACK_MIN: Final = DAY_MINUTES * np.arange(1, DAYS_BACK + 1)
_THURSDAY: Final = 3
"""The weekday of 1970-01-01, Monday being 0."""
_DAYS_OFF: Final = 5
"""Weekdays from this one on are off: Saturday and Sunday, Monday being 0."""
_CHUNK: Final = 8192
"""Origins per batch; bounds memory."""
_ROWS: Final = 32
"""Series per batch; bounds memory."""


class _Level(NamedTuple):
    """What the values at each origin are relative to."""

    scale: F64
    """[B]."""
    offset: F64
    """[B]."""

    def log(self, values: F64) -> F64:
        """Logarithm of values over the recent level; 0 where unknown."""
        shape = (-1,) + (1,) * (values.ndim - 1)
        offset, scale = self.offset.reshape(shape), self.scale.reshape(shape)
        return bounded(np.log((values + offset) / (scale + offset)))

    def change(self, after: F64, before: F64) -> F64:
        """Logarithm of the change between values; 0 where one of them is unknown."""
        shape = (-1,) + (1,) * (after.ndim - 1)
        offset = self.offset.reshape(shape)
        return bounded(np.log((after + offset) / (before + offset)))


def encode(series: Series, at: I64) -> NetworkInputs:
    """The inputs at some origins; an origin is the last minute that may be used."""
    reader = _Reader([series])
    # At least one chunk: without origins there would be nothing to join.
    return joined([reader.read(at[i : i + _CHUNK]) for i in range(0, max(1, at.size), _CHUNK)])


def encode_last(series: Sequence[Series]) -> NetworkInputs:
    """The inputs at the end of each series; series of the same calendar and length are batched."""
    batches: dict[tuple[Any, int], list[int]] = {}
    for index, each in enumerate(series):
        batches.setdefault((each.calendar, each.rps.size), []).append(index)
    groups = [p[i : i + _ROWS] for p in batches.values() for i in range(0, len(p), _ROWS)]
    found = joined([_last([series[index] for index in group]) for group in groups])
    # Batches are grouped by calendar and length; restore the order of the series.
    order = np.argsort(np.concatenate(groups))
    return NetworkInputs._make(column[order] for column in found)


def _last(series: Sequence[Series]) -> NetworkInputs:
    at = series[0].rps.size - 1
    # No input but the rates looks back further than a day.
    since, judged_since = max(0, at - DAY_MINUTES), max(0, at - SKILL_MIN)
    return _Reader(series, since, judged_since).read(np.full(len(series), at))


class _Reader:
    """Cumulative sums of one series for many origins.

    Or of R series with the same calendar and length, for one origin each.
    """

    def __init__(self, series: Sequence[Series], since: int = 0, judged_since: int = 0) -> None:
        # Only the rates themselves are read before minute `since`, and rules are compared from
        # minute `judged_since` on: sums over more minutes would cost time at every forecast.
        self._series = series
        rps = np.stack([each.rps for each in series])
        recent = rps[:, since:]
        errors = np.stack([_or_nan(each.errors, each.rps)[since:] for each in series])
        latency = np.stack([_or_nan(each.latency, each.rps)[since:] for each in series])
        self._rps = WindowMeans(rps)
        self._skills = RuleSkills(series, self._rps, judged_since)
        self._jumps = WindowMeans(np.abs(np.diff(recent, prepend=np.nan)), since)
        self._idle = WindowMeans(np.where(np.isnan(recent), np.nan, recent == 0.0), since)
        self._errors = WindowMeans(errors, since)
        self._latency = WindowMeans(latency, since)
        self._events = event_table(series[0].calendar)

    def read(self, at: I64) -> NetworkInputs:
        level = self._level(at)
        events = self._events.visible_at(at)
        return NetworkInputs(
            past=self._past(at, level, events).astype(np.float32),
            future=self._future(at, level, events).astype(np.float32),
            static=self._static(at, level, events).astype(np.float32),
            scale=level.scale,
            offset=level.offset,
        )

    def _level(self, at: I64) -> _Level:
        day = self._rps.before(at, DAY_MINUTES)
        scale = day
        # From the longest window to the shortest: the most recent level that has a value wins.
        for minutes in (180, 60, _RECENT_MIN):
            recent = self._rps.before(at, minutes)
            scale = np.where(np.isnan(recent), scale, recent)
        return _Level(scale, _OFFSET * day + LEAST)

    def _past(self, at: I64, level: _Level, events: VisibleEvents) -> F64:
        young, old = np.array(PAST_WINDOWS).T
        first, end = at[:, None] + 1 - old, at[:, None] + 1 - young
        rates, errors = self._rps.between(first, end), self._errors.between(first, end)
        latency = self._latency.between(first, end) / self._latency.before(at, 60)[:, None]
        active, announced = events.during(first, end)
        columns: dict[str, F64] = {
            "level": level.log(rates),
            "seen": present(rates),
            "errors": np.nan_to_num(errors),
            "latency": bounded(np.log(np.maximum(latency, LEAST))),
            # The sum is NaN where either is missing.
            "judged": present(errors + latency),
            "under_way": active,
            "promised": announced,
        }
        return np.stack([columns[name] for name in PAST], axis=-1)

    def _future(self, at: I64, level: _Level, events: VisibleEvents) -> F64:
        then = at[:, None] + np.array(AHEAD_MIN)
        earlier = self._around(then[..., None] - _DAYS_BACK_MIN, _AROUND_MIN)
        before = self._rps.before(at[:, None] - _DAYS_BACK_MIN, _RECENT_MIN)[:, None]
        hours = mean_of_present(self._minute(then[..., None] - _HOURS_BACK))
        changes = level.change(earlier, before)
        valid = present(earlier + before)
        precedent, weight = events.precedents(then, self._rps, level.offset)
        active, announced = events.during(then, then + 1)
        columns = self._clock(then, events) | {
            "yesterday_change": changes[..., 0],
            "last_week_change": changes[..., -1],
            "usual_change": changes.sum(axis=-1) / np.maximum(valid.sum(axis=-1), 1.0),
            "smooth_change": self._smooth_change(at, then, level),
            "yesterday_level": level.log(earlier[..., 0]),
            "last_week_level": level.log(earlier[..., -1]),
            "has_yesterday": valid[..., 0],
            "has_last_week": valid[..., -1],
            "half_hour_ago": level.log(self._minute(then - _HALF_HOUR_MIN)),
            "hour_ago": level.log(self._minute(then - _HOUR_MIN)),
            "hours_ago": level.log(hours),
            "hours_change": self._hours_change(at, hours, level),
            "until_next": events.until_next(then),
            "since_last": events.since_last(then),
            "under_way": active,
            "promised": announced,
            "promised_change": bounded(self._remaining_change(at, level, events, announced)),
            "precedent_change": bounded(precedent),
            "precedents": weight,
        }
        return np.stack([columns[name] for name in FUTURE], axis=-1)

    def _remaining_change(
        self, at: I64, level: _Level, events: VisibleEvents, announced: F64
    ) -> F64:
        """The part of the announced change that traffic has not made yet.

        Measured from a quiet time before the event, and limited to what was announced since then
        or since now.
        """
        now = at[:, None]
        first, end = now + 1 - _QUIET_MIN[1], now + 1 - _QUIET_MIN[0]
        since_quiet = announced - events.during(first, end)[1]
        since_now = announced - events.during(now, now + 1)[1]
        newest = self._rps.before(at, _NEWEST_MIN)[:, None]
        # Nothing is left of an event that came early: traffic has already made its change.
        left = since_quiet - level.change(newest, self._rps.between(first, end))
        least = np.minimum(np.minimum(since_quiet, since_now), 0.0)
        return np.clip(left, least, np.maximum(np.maximum(since_quiet, since_now), 0.0))

    def _hours_change(self, at: I64, after: F64, level: _Level) -> F64:
        """Change to the same minutes of earlier hours."""
        before = mean_of_present(self._rps.before(at[:, None] - _HOURS_BACK, _RECENT_MIN))
        return level.change(after, before[:, None])

    def _minute(self, minutes: I64) -> F64:
        return self._rps.between(minutes, minutes + 1)

    def _smooth_change(self, at: I64, then: I64, level: _Level) -> F64:
        """Change at this time of the day in the mean of the earlier days."""
        after = self._around(then[..., None] - _DAYS_BACK_MIN, SMOOTH_MIN)
        before = self._around(at[:, None] - _DAYS_BACK_MIN, SMOOTH_MIN)[:, None]
        # NaN where either is missing, so that both means are over the same days.
        both = 0.0 * (after + before)
        return level.change(mean_of_present(after + both), mean_of_present(before + both))

    def _around(self, minutes: I64, reach: int) -> F64:
        return self._rps.between(minutes - reach, minutes + reach + 1)

    def _clock(self, then: I64, events: VisibleEvents) -> dict[str, F64]:
        origin = np.array([each.origin_min for each in self._series])[:, None]
        # Shifted so that weeks start on Monday 00:00.
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
            "day_off": (weekend | events.holiday(then)).astype(np.float64),
        }

    def _static(self, at: I64, level: _Level, events: VisibleEvents) -> F64:
        series, size = self._series, at.size
        columns: dict[str, F64] = {
            "day_level": level.log(self._rps.before(at, DAY_MINUTES)),
            "hour_level": level.log(self._rps.before(at, 60)),
            # 0.01, because traffic that does not change at all has no logarithm.
            "roughness": bounded(
                np.log(self._jumps.before(at, 180) / (level.scale + level.offset) + 0.01)
            ),
            "idle": np.nan_to_num(self._idle.before(at, DAY_MINUTES)),
            "step": np.zeros(size) + np.log([each.step_min for each in series]),
            # Services keep no more than HISTORY_MIN, so training must not see longer histories
            # either.
            "history": np.asarray(np.log1p(np.minimum(at, HISTORY_MIN) / DAY_MINUTES)),
            "last_skill": self._skills.of("last", at, level.offset),
            "hour_skill": self._skills.of("hour", at, level.offset),
            "day_skill": self._skills.of("day", at, level.offset),
            "announces": np.asarray(events.visible.any(axis=1), np.float64),
        }
        columns |= _one_hot("priority", [each.priority for each in series], 4, size)
        columns |= _one_hot("domain", [each.domain for each in series], 5, size)
        return np.stack([columns[name] for name in STATIC], axis=-1)


def _or_nan(values: F64 | None, like: F64) -> F64:
    return np.full_like(like, np.nan) if values is None else values


def _one_hot(name: str, chosen: Sequence[int], count: int, size: int) -> dict[str, F64]:
    indices = np.zeros(size, np.int64) + np.array(chosen)
    return {f"{name}_{i}": (indices == i).astype(np.float64) for i in range(count)}
