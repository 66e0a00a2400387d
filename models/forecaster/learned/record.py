"""The minutes that a served model can look back on, and the series that they make.

A minute is named by its number: it ends that many minutes after tick 0 of whoever counts, so
that numbers go on when a forecaster is made anew.
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
from models.forecaster.learned.skills import SKILL_MIN
from models.forecaster.series import UNKNOWN, Announced, Series

WIDTH: Final = HISTORY_MIN + 1
"""Minutes that are kept: an origin, and all that can have an influence on its inputs."""
_AFTER_MIN: Final = max(AHEAD_MIN) + SMOOTH_MIN + 1
"""Minutes after an origin that are read of each day before."""
_NEAR_MIN: Final = 100
_FELT_MIN: Final = 190
"""Minutes before an announced start and after its end that are read for its like."""
_THURSDAY_MIN: Final = 3 * DAY_MINUTES
"""From the Monday of a week to the weekday of 1970-01-01."""
_DIGITS: Final = str.maketrans("", "", "0123456789")


class Record(NamedTuple):
    """R rows."""

    newest: int
    """Number of the last minute."""
    rps: F32
    """[R, WIDTH] requests per second; NaN where nothing is known."""


class Row(NamedTuple):
    """What is known of a row beside its traffic."""

    priority: int
    domain: int
    """Place among the domains that the model was trained on."""
    calendar: tuple[Announced, ...]
    """In minutes since tick 0."""


def record_of(history: F32, newest: int) -> Record:
    """From minutes [R, M] that end with number `newest`; what is no rate counts as unknown."""
    kept = history[:, -WIDTH:]
    sound = np.isfinite(kept) & (kept >= 0)
    rps = np.full((kept.shape[0], WIDTH), np.nan, np.float32)
    rps[:, WIDTH - kept.shape[1] :] = np.where(sound, kept, np.float32(np.nan))
    return Record(newest, rps)


def with_minute(record: Record, minute: int, came: F64) -> Record:
    """One more minute; those that were skipped are unknown."""
    passed = min(minute - record.newest, WIDTH)
    rps = np.full_like(record.rps, np.nan)
    rps[:, : WIDTH - passed] = record.rps[:, passed:]
    rps[:, -1] = came
    return Record(minute, rps)


def known_minutes(record: Record) -> I32:
    """[R] minutes since the first that is known."""
    known = ~np.isnan(record.rps)
    since: I32 = np.where(known.any(axis=1), WIDTH - known.argmax(axis=1), 0).astype(np.int32)
    return since


def series_of(record: Record, rows: Sequence[Row], first: int, minute_of_week: int) -> list[Series]:
    """A series per row that ends with the newest minute; rows repeat for each environment.

    Tick 0 is at the end of the minute `first`, at a minute of the week since Monday.
    """
    passed = record.newest - first
    series = []
    for place, size in enumerate(known_minutes(record).tolist()):
        row, length = rows[place % len(rows)], max(size, 1)
        shift = length - passed
        series.append(
            Series(
                name="",
                origin_min=minute_of_week - _THURSDAY_MIN - shift,
                step_min=1,
                rps=record.rps[place, WIDTH - length :].astype(np.float64),
                calendar=tuple(_moved(entry, shift) for entry in row.calendar),
                priority=row.priority,
                domain=row.domain,
            )
        )
    return series


def rows_of(
    cluster: Cluster, announcements: Sequence[Announcement], per_minute: int
) -> tuple[Row, ...]:
    """The domains of a cluster with what was announced for each, from ticks to minutes."""
    return tuple(
        Row(
            priority=PRIORITIES.index(domain.priority),
            domain=_trained_on().get(domain.name, UNKNOWN),
            calendar=tuple(_said(a, per_minute) for a in announcements if place in a.domains),
        )
        for place, domain in enumerate(cluster.domains)
    )


def readable(rows: Sequence[Row], before_min: int, last_min: int) -> I32:
    """The minutes before tick 0 that are read by origins from `before_min` before it on.

    The last origin is minute `last_min` after it. All others would take longer to record than
    anything else does.
    """
    wanted = np.zeros(WIDTH, np.bool_)
    # How long a row has been known is an input too.
    _mark(wanted, -WIDTH, last_min + 1 - WIDTH)
    # Rules are judged by the last hours, that of yesterday too.
    _mark(wanted, -before_min - DAY_MINUTES - SKILL_MIN, 0)
    for day in range(DAY_MINUTES, DAYS_BACK * DAY_MINUTES + 1, DAY_MINUTES):
        _mark(wanted, -before_min - SMOOTH_MIN - day, last_min + _AFTER_MIN - day)
    entries = [entry for row in rows for entry in row.calendar]
    longest = max((entry.end_min - entry.start_min for entry in entries), default=0)
    for entry in entries:
        _mark(wanted, entry.start_min - _NEAR_MIN, entry.start_min + longest + _FELT_MIN)
    minutes: I32 = (np.flatnonzero(wanted) - WIDTH).astype(np.int32)
    return minutes


@cache
def _trained_on() -> dict[str, int]:
    """Places of the domains of the example cluster, whose months the model has seen."""
    return {name: place for place, name in enumerate(load_cluster().domain_names)}


def _mark(wanted: np.ndarray[tuple[int], np.dtype[np.bool_]], first: int, end: int) -> None:
    wanted[max(0, first + WIDTH) : max(0, min(WIDTH, end + WIDTH))] = True


def _moved(entry: Announced, minutes: int) -> Announced:
    start, end = entry.start_min + minutes, entry.end_min + minutes
    return entry._replace(start_min=start, end_min=end)


def _said(announcement: Announcement, per_minute: int) -> Announced:
    """Events that differ in a number only are of one kind."""
    return Announced(
        start_min=announcement.start_tick // per_minute,
        end_min=-(-announcement.end_tick // per_minute),
        factor=announcement.expected_factor,
        kind=announcement.name.translate(_DIGITS).strip("-."),
    )
