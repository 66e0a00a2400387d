"""Calendar files: announced events, with their times and series."""

from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64
from models.forecaster.data.axes import parsed_seconds
from models.forecaster.data.tables import Table, read_table
from models.forecaster.series import ALWAYS, Announced
from models.inputs.errors import input_error

DEFAULT_LENGTH_MIN: Final = 120
_STARTS: Final = ("starts_at", "start", "kickoff_utc")
_ENDS: Final = ("ends_at", "end")
_LENGTHS: Final = ("length_minutes",)
_FACTORS: Final = ("factor", "expected_factor")
_KINDS: Final = ("kind", "stage", "name")
_ANNOUNCED: Final = ("announced_at",)
_SERIES: Final = ("series", "domain")


class Entry(NamedTuple):
    """A row of a calendar file, in the file's local time."""

    start_s: int
    end_s: int
    factor: float
    kind: str
    announced_s: int | None
    series: str
    """The series it is announced for; empty for all."""


def read_calendar(path: Path) -> tuple[Entry, ...]:
    """All entries of a calendar file."""
    table = read_table(path)
    start = _start_column(table)
    starts = _times(table, start)
    ends = _ends(table, starts)
    factors, kinds = _factors(table), _words(table, _KINDS)
    announced_s, series = _announcement_times(table), _words(table, _SERIES)
    # Reported by row here, because later an entry no longer knows where it came from.
    for index, (begin, end) in enumerate(zip(starts, ends, strict=True)):
        if end <= begin:
            raise input_error(path, table.row(index), "the event ends before it starts")
    return tuple(
        Entry(*fields)
        for fields in zip(starts, ends, factors, kinds, announced_s, series, strict=True)
    )


def announced(
    entries: tuple[Entry, ...], series_origin: int, series_name: str = ""
) -> tuple[Announced, ...]:
    """The announcements for a series whose minute 0 is `series_origin`, on its axis, by start."""
    # An entry without a series is for all of them.
    mine = (entry for entry in entries if entry.series in {"", series_name})
    return tuple(sorted(_on_axis(entry, series_origin) for entry in mine))


def _on_axis(entry: Entry, origin: int) -> Announced:
    # Rounded outwards: a minute that is partly covered belongs to the event. An announcement counts
    # from the next whole minute, never too early.
    return Announced(
        start_min=entry.start_s // 60 - origin,
        end_min=-(-entry.end_s // 60) - origin,
        factor=entry.factor,
        kind=entry.kind,
        announced_from_min=ALWAYS
        if entry.announced_s is None
        else -(-entry.announced_s // 60) - origin,
    )


def _start_column(table: Table) -> str:
    named = _named(table, _STARTS)
    # Any other column of times may be traffic, which would announce an event in every minute.
    if named is None:
        found = ", ".join(table.columns)
        raise input_error(table.file, "", f"no column `starts_at`, only {found}")
    return named


def _ends(table: Table, starts: list[int]) -> list[int]:
    end, length = _named(table, _ENDS), _named(table, _LENGTHS)
    if end is not None:
        return _times(table, end)
    if length is None:
        return [start + DEFAULT_LENGTH_MIN * 60 for start in starts]
    minutes = _numbers(table, length, DEFAULT_LENGTH_MIN)
    return [start + round(60 * each) for start, each in zip(starts, minutes, strict=True)]


def _factors(table: Table) -> list[float]:
    name = _named(table, _FACTORS)
    if name is None:
        return [1.0] * table.rows
    return [float(factor) for factor in _numbers(table, name, 1.0)]


def _announcement_times(table: Table) -> list[int | None]:
    """None for entries without one; they count as announced from the beginning."""
    name = _named(table, _ANNOUNCED)
    if name is None:
        return [None] * table.rows
    words = table.words(name)
    return [
        parsed_seconds(str(word), f"{table.file}: {table.row(index)}: {name}") if word else None
        for index, word in enumerate(words)
    ]


def _times(table: Table, name: str) -> list[int]:
    if table.is_time(name):
        return [int(second) for second in table.seconds(name)]
    return [
        parsed_seconds(str(word), f"{table.file}: {table.row(index)}: {name}")
        for index, word in enumerate(table.words(name))
    ]


def _numbers(table: Table, name: str, default: float) -> F64:
    values = table.numbers(name, np.zeros(table.rows, np.bool_))
    return np.where(np.isnan(values), default, values)


def _words(table: Table, names: tuple[str, ...]) -> list[str]:
    name = _named(table, names)
    return [""] * table.rows if name is None else [str(word) for word in table.words(name)]


def _named(table: Table, names: tuple[str, ...]) -> str | None:
    return next((name for name in names if name in table.columns), None)
