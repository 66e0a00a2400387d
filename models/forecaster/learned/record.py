"""The minutes that a served model looks back on, and the series that they make.

Minutes are numbered by their end, in minutes after the service's tick 0, so that numbers continue
when the forecaster is rebuilt.
"""

from collections.abc import Sequence
from functools import cache
from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F32, F64, I32
from models.cluster.calendar import DAY_MINUTES, Announcement
from models.cluster.description import PRIORITIES, Cluster, load_cluster
from models.forecaster.learned.encode import DAYS_BACK, HISTORY_MIN, SMOOTH_MIN
from models.forecaster.learned.inputs import AHEAD_MIN
from models.forecaster.learned.window_means import SKILL_MIN
from models.forecaster.series import UNKNOWN, Announced, Series

WIDTH: Final = HISTORY_MIN + 1
"""Minutes in a record: an origin, and all minutes that its inputs can depend on."""
_AFTER_MIN: Final = max(AHEAD_MIN) + SMOOTH_MIN + 1
"""Minutes after the origin's time of day that are read of each earlier day."""
# An event matters from 60 minutes before its start, for origins up to 30 minutes earlier, and means
# reach 4 minutes further back; after its end, for 180 minutes and means of 2 more.
_BEFORE_EVENT_MIN: Final = 100
_AFTER_EVENT_MIN: Final = 190
"""Minutes before the start and after the end of an earlier event that are read as a precedent."""
_THURSDAY_MIN: Final = 3 * DAY_MINUTES
"""From the Monday of a week to the weekday of 1970-01-01, a Thursday."""
_DIGITS: Final = str.maketrans("", "", "0123456789")


class Record(NamedTuple):
    """R rows."""

    newest: int
    """Number of the last minute."""
    rps: F32
    """[R, WIDTH] requests per second; NaN where unknown."""


class Row(NamedTuple):
    """What the model gets of a row besides its traffic."""

    priority: int
    domain: int
    """Index into the domains that the model was trained on."""
    calendar: tuple[Announced, ...]
    """In minutes since tick 0."""


def record_of(history: F32, newest: int) -> Record:
    """From minutes [R, M] that end with number `newest`; invalid rates become NaN."""
    recent = history[:, -WIDTH:]
    valid = np.isfinite(recent) & (recent >= 0)
    rps = np.full((recent.shape[0], WIDTH), np.nan, np.float32)
    rps[:, WIDTH - recent.shape[1] :] = np.where(valid, recent, np.float32(np.nan))
    return Record(newest, rps)


def with_minute(record: Record, minute: int, actual: F64) -> Record:
    """Append a minute; skipped minutes become NaN."""
    passed = min(minute - record.newest, WIDTH)
    rps = np.full_like(record.rps, np.nan)
    rps[:, : WIDTH - passed] = record.rps[:, passed:]
    rps[:, -1] = actual
    return Record(minute, rps)


def history_minutes(record: Record) -> I32:
    """[R] minutes since the first one with a value."""
    valid = ~np.isnan(record.rps)
    length: I32 = np.where(valid.any(axis=1), WIDTH - valid.argmax(axis=1), 0).astype(np.int32)
    return length


def series_of(record: Record, rows: Sequence[Row], first: int, minute_of_week: int) -> list[Series]:
    """A series per row that ends with the newest minute; rows repeat for each environment.

    Tick 0 is at the end of minute `first`, and at `minute_of_week` since Monday 00:00.
    """
    passed = record.newest - first
    series = []
    for index, size in enumerate(history_minutes(record).tolist()):
        # At least one minute, so that rows without any value can be encoded with the others.
        row, length = rows[index % len(rows)], max(size, 1)
        shift = length - passed
        series.append(
            Series(
                name="",
                origin_min=minute_of_week - _THURSDAY_MIN - shift,
                step_min=1,
                rps=record.rps[index, WIDTH - length :].astype(np.float64),
                calendar=tuple(_moved(entry, shift) for entry in row.calendar),
                priority=row.priority,
                domain=row.domain,
            )
        )
    return series


def rows_of(
    cluster: Cluster, announcements: Sequence[Announcement], per_minute: int
) -> tuple[Row, ...]:
    """The domains of a cluster with the events announced for each, in minutes since tick 0."""
    return tuple(
        Row(
            priority=PRIORITIES.index(domain.priority),
            domain=_trained_on().get(domain.name, UNKNOWN),
            calendar=tuple(_in_minutes(a, per_minute) for a in announcements if index in a.domains),
        )
        for index, domain in enumerate(cluster.domains)
    )


def minutes_read(rows: Sequence[Row], before_min: int, last_min: int) -> I32:
    """The minutes before tick 0 that the inputs of origins can depend on.

    Origins run from `before_min` before tick 0 to minute `last_min` after it. A simulated world
    computes only these minutes, because computing all of them takes longer than anything else.
    """
    wanted = np.zeros(WIDTH, np.bool_)
    # The length of the history is an input too.
    _mark(wanted, -WIDTH, last_min + 1 - WIDTH)
    # Rules are compared over the last hours, one of them with the day before.
    _mark(wanted, -before_min - DAY_MINUTES - SKILL_MIN, 0)
    for day in range(DAY_MINUTES, DAYS_BACK * DAY_MINUTES + 1, DAY_MINUTES):
        _mark(wanted, -before_min - SMOOTH_MIN - day, last_min + _AFTER_MIN - day)
    entries = [entry for row in rows for entry in row.calendar]
    # A precedent is read for as long as the current event lasts, which may be longer than it did.
    longest = max((entry.end_min - entry.start_min for entry in entries), default=0)
    for entry in entries:
        last = entry.start_min + longest + _AFTER_EVENT_MIN
        _mark(wanted, entry.start_min - _BEFORE_EVENT_MIN, last)
    minutes: I32 = (np.flatnonzero(wanted) - WIDTH).astype(np.int32)
    return minutes


@cache
def _trained_on() -> dict[str, int]:
    """Indices of the example cluster's domains, on whose simulated months the model was trained."""
    return {name: index for index, name in enumerate(load_cluster().domain_names)}


def _mark(wanted: np.ndarray[tuple[int], np.dtype[np.bool_]], first: int, end: int) -> None:
    wanted[max(0, first + WIDTH) : max(0, min(WIDTH, end + WIDTH))] = True


def _moved(entry: Announced, minutes: int) -> Announced:
    # The time of the announcement is not moved: entries of a row count as always announced.
    start, end = entry.start_min + minutes, entry.end_min + minutes
    return entry._replace(start_min=start, end_min=end)


def _in_minutes(announcement: Announcement, per_minute: int) -> Announced:
    """Events whose names differ in digits only are of one kind."""
    return Announced(
        start_min=announcement.start_tick // per_minute,
        end_min=-(-announcement.end_tick // per_minute),
        factor=announcement.expected_factor,
        kind=announcement.name.translate(_DIGITS).strip("-."),
    )
