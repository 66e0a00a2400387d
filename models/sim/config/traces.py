"""Read recorded traffic from CSV and cut the part that a scenario replays.

In a trace, a collector that was down looks like a service without users. So gaps have to be marked
(1 in a `missing` column) and are then interpolated; an unmarked gap or anything that is not a
number is an error.
"""

import csv
import gzip
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple, NoReturn, TextIO, cast

import numpy as np

from models.cluster.arrays import F32, F64, Mask
from models.cluster.calendar import DAY_MINUTES, HISTORY_MINUTES
from models.inputs.errors import input_error
from models.sim.config.events import Replay
from models.sim.config.timeline import Timeline

MISSING_COLUMN: Final = "missing"
_FLAGS: Final = {"0": False, "1": True}
_MARK_GAPS = f"add the absent rows with 1 in a `{MISSING_COLUMN}` column, or leave that part out"
_MARK_VALUE = f"put 1 in a `{MISSING_COLUMN}` column where there was no sample"


class Trace(NamedTuple):
    """A series per minute, in the unit of its column."""

    column: str
    values: F32
    """[minutes], gaps interpolated linearly."""
    missing: Mask
    """[minutes] True where a gap was interpolated."""


class _Columns(NamedTuple):
    """Indices of the columns, and how many there are."""

    time: int
    value: int
    missing: int | None
    width: int


def load_trace(file: Path, column: str | None = None, time_column: str | None = None) -> Trace:
    """Read `file` (CSV or CSV.gz): a time column, a traffic column, optionally `missing`.

    Time is a timestamp (ISO 8601) or a whole number of minutes, in a regular step of 1 to
    60 minutes. Coarser steps are interpolated to minutes.
    """
    header, rows = _read(file)
    columns = _find_columns(file, header, column, time_column)
    for line, row in enumerate(rows, start=2):
        if len(row) != columns.width:
            _refuse(file, line, f"expected {columns.width} cells, got {len(row)}")
    step = _check_grid(file, [row[columns.time] for row in rows])
    missing = _missing(file, rows, columns.missing)
    values = _values(file, [row[columns.value] for row in rows], missing)
    if missing.all():
        raise input_error(file, header[columns.value], "expected at least one sample")
    return _per_minute(header[columns.value], values, missing, step)


def _read(file: Path) -> tuple[list[str], list[list[str]]]:
    try:
        with _open(file) as text:
            lines = list(csv.reader(text))
    except (OSError, EOFError) as error:
        reason = getattr(error, "strerror", None) or "truncated gzip file"
        raise input_error(file, "", f"cannot be read ({reason})") from None
    except (UnicodeDecodeError, csv.Error):
        raise input_error(file, "", "expected CSV in UTF-8") from None
    # Two rows are the least that has a step.
    if len(lines) < 3:
        raise input_error(file, "", "expected a header and at least two rows")
    return [name.strip() for name in lines[0]], lines[1:]


def _open(file: Path) -> TextIO:
    # utf-8-sig: spreadsheets put a byte-order mark in front of the header.
    if file.suffix == ".gz":
        return cast(TextIO, gzip.open(file, "rt", encoding="utf-8-sig", newline=""))
    return file.open(encoding="utf-8-sig", newline="")


def _find_columns(
    file: Path, header: Sequence[str], column: str | None, time_column: str | None
) -> _Columns:
    time = _index(file, header, time_column) if time_column else 0
    missing = header.index(MISSING_COLUMN) if MISSING_COLUMN in header else None
    choice = [name for index, name in enumerate(header) if index not in {time, missing}]
    if column is None and len(choice) != 1:
        raise input_error(file, "column", f"choose one of {', '.join(choice)}")
    value = _index(file, header, column or choice[0])
    return _Columns(time=time, value=value, missing=missing, width=len(header))


def _index(file: Path, header: Sequence[str], name: str) -> int:
    if name not in header:
        raise input_error(file, "column", f"expected one of {', '.join(header)}, got {name}")
    return header.index(name)


def _check_grid(file: Path, cells: Sequence[str]) -> int:
    """Seconds between rows. The most frequent distance is the step; others are errors."""
    seconds = np.array([_second(file, line, cell) for line, cell in enumerate(cells, start=2)])
    distances = np.diff(seconds)
    found, counts = np.unique(distances, return_counts=True)
    step = int(found[np.argmax(counts)])
    if not 60 <= step <= 3600:
        raise input_error(file, "", f"expected a step of 1 to 60 minutes, got {step} s")
    off = np.flatnonzero(distances != step)
    if len(off):
        # Row 0 is line 2, and a distance belongs to its second row.
        _refuse_distance(file, int(off[0]) + 3, int(distances[off[0]]), step)
    return step


def _second(file: Path, line: int, cell: str) -> int:
    if cell.strip().isdecimal():
        return int(cell) * 60
    try:
        moment = datetime.fromisoformat(cell.strip())
    except ValueError:
        _refuse(file, line, f'expected a timestamp or a whole minute, got "{cell}"')
    # Timestamps without zone are UTC: in local time, clock changes would be gaps or repeats.
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())


def _refuse_distance(file: Path, line: int, distance: int, step: int) -> NoReturn:
    every = f"expected a row every {step / 60:g} min"
    if distance > step:
        _refuse(file, line, f"unmarked gap of {distance / 60:g} min, {every}: {_MARK_GAPS}")
    _refuse(file, line, f"{distance / 60:g} min after the row before, {every}")


def _missing(file: Path, rows: Sequence[Sequence[str]], column: int | None) -> Mask:
    flags = np.zeros(len(rows), dtype=np.bool_)
    if column is None:
        return flags
    for index, row in enumerate(rows):
        flag = row[column].strip()
        if flag not in _FLAGS:
            _refuse(file, index + 2, f'expected 0 or 1 in `{MISSING_COLUMN}`, got "{flag}"')
        flags[index] = _FLAGS[flag]
    return flags


def _values(file: Path, cells: Sequence[str], missing: Mask) -> F64:
    values = np.zeros(len(cells))
    for index, cell in enumerate(cells):
        if not missing[index]:
            values[index] = _value(file, index + 2, cell)
    return values


def _value(file: Path, line: int, cell: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    # `float` also accepts "nan" and "inf".
    if not (math.isfinite(value) and value >= 0):
        _refuse(file, line, f'expected a number of at least 0, got "{cell}": {_MARK_VALUE}')
    return value


def _per_minute(column: str, values: F64, missing: Mask, step: int) -> Trace:
    at = np.arange(len(values)) * (step / 60)
    minutes = np.arange(math.floor(len(values) * step / 60))
    # Minutes between two rows are missing if the earlier row is.
    row = np.minimum((minutes * 60) // step, len(values) - 1)
    return Trace(
        column=column,
        values=np.interp(minutes, at[~missing], values[~missing]).astype(np.float32),
        missing=missing[row],
    )


def _refuse(file: Path, line: int, expected: str) -> NoReturn:
    raise input_error(file, f"line {line}", expected)


def replay_minutes(times: Timeline) -> int:
    """Length of a replayed series: the history before tick 0, and the scenario.

    One more, because traffic within the last minute is interpolated towards the next.
    """
    return HISTORY_MINUTES + times.total_minutes + 1


def replay_series(entry: Replay, times: Timeline) -> F32:
    """Traffic per minute over the mean of the replayed part, from 14 days before tick 0.

    A trace that is too short for history and scenario is repeated by whole days, so that the time
    of day stays right; minutes after its last whole day are dropped.
    """
    file = Path(entry.file)
    trace = load_trace(file, entry.column, entry.time_column)
    needed = replay_minutes(times)
    before = HISTORY_MINUTES + times.warmup_minutes
    first = 0 if entry.start_minute is None else entry.start_minute - before
    # A trace that is long enough has real history; only short ones are repeated.
    if len(trace.values) >= needed:
        played = _cut(file, trace.values, first, needed, before)
    else:
        played = _repeat(file, trace.values, first, needed)
    mean = float(played.mean(dtype=np.float64))
    if mean <= 0:
        raise input_error(file, trace.column, "expected some traffic above zero")
    return np.asarray(played / mean, dtype=np.float32)


def _cut(file: Path, values: F32, first: int, needed: int, before: int) -> F32:
    """A long trace is not repeated, because its end must not appear in its own history."""
    last = len(values) - needed
    if not 0 <= first <= last:
        raise input_error(
            file,
            "start_minute",
            f"expected from {before} (14 days of history and the warm-up)"
            f" to {before + last} (the whole scenario), got {before + first}",
        )
    return values[first : first + needed]


def _repeat(file: Path, values: F32, first: int, needed: int) -> F32:
    whole = len(values) // DAY_MINUTES * DAY_MINUTES
    if not whole:
        raise input_error(file, "", f"expected at least one whole day, got {len(values)} minutes")
    return values[(first + np.arange(needed)) % whole]
