"""Loads files of recorded traffic as series on an axis of minutes.

Values stay in their recorded unit: a five-minute count is repeated in each of its minutes, not
divided by five. Scores are free of scale, so this makes no difference.
"""

from collections.abc import Callable
from pathlib import Path

from models.cluster.arrays import F64
from models.forecaster.data.axes import Axis, axis_of, on_axis
from models.forecaster.data.calendars import Entry, announced, read_calendar
from models.forecaster.data.layouts import UNDATED_ORIGIN, Options, Stamped, Stream, streams
from models.forecaster.data.tables import read_table
from models.forecaster.port import HORIZONS_MIN
from models.forecaster.series import Series
from models.inputs.errors import InputError, closest

Note = Callable[[str], None]
"""Receives one line about something in a file that was repaired."""


def ignore(_: str) -> None:
    """Ignore notes."""


def load(
    path: Path,
    calendar: Path | None = None,
    *,
    columns: tuple[str, ...] = (),
    step_min: int | None = None,
    start: str = UNDATED_ORIGIN,
    signed: bool = False,
    note: Note = ignore,
) -> list[Series]:
    """The series of a CSV, CSV.gz or Parquet file, with the announcements of a calendar file.

    `columns` selects values, `step_min` and `start` replace a column of times, and `signed` allows
    values below zero, which traffic never has.
    """
    found = streams(read_table(path), Options(columns, step_min, start, signed))
    series = [_series(stream, path, step_min, note) for stream in found]
    if calendar is None:
        return series
    entries = read_calendar(calendar)
    _check_names(entries, series, calendar)
    return [_with_calendar(each, entries, calendar, note) for each in series]


def _series(stream: Stream, path: Path, step_min: int | None, note: Note) -> Series:
    where = f"{path}: {stream.name}"
    # Errors and latency are put on the axis of the traffic, whatever their own times are.
    axis = axis_of(stream.rps.seconds, where, stream.step_min or step_min)
    rps, shared = on_axis(axis, *stream.rps)
    if shared:
        note(f"{where}: {shared} values share a step with another, using their mean")
    return Series(
        name=stream.name,
        origin_min=axis.origin_min,
        step_min=axis.step_min,
        rps=rps,
        errors=_beside(axis, stream.errors),
        latency=_beside(axis, stream.latency),
    )


def _beside(axis: Axis, stamped: Stamped | None) -> F64 | None:
    return None if stamped is None else on_axis(axis, *stamped)[0]


def _check_names(entries: tuple[Entry, ...], series: list[Series], calendar: Path) -> None:
    """An entry for an unknown series would be dropped silently."""
    names = {each.name for each in series}
    unknown = next(
        (entry.series for entry in entries if entry.series and entry.series not in names), None
    )
    if unknown is not None:
        close = closest(unknown, sorted(names)) or min(names)
        raise InputError(f"{calendar}: no series is named {unknown!r}; did you mean {close!r}?")


def _with_calendar(
    series: Series, entries: tuple[Entry, ...], calendar: Path, note: Note
) -> Series:
    mine = announced(entries, series.origin_min, series.name)
    # Events soon after the end count: forecasts are about that time.
    end = series.rps.size + max(HORIZONS_MIN)
    if not any(entry.end_min > 0 and entry.start_min < end for entry in mine):
        note(f"{calendar}: no event is announced during {series.name}")
    return series._replace(calendar=mine)
