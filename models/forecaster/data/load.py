"""Files of recorded traffic become series on an axis of minutes.

Values stay in the unit they were recorded in: a count of five minutes is that number in each
of its minutes. Scores have no scale, and so it is the same as dividing by five.
"""

from collections.abc import Callable
from pathlib import Path

from models.cluster.arrays import F64
from models.forecaster.data.axes import Axis, axis_of, on_axis
from models.forecaster.data.calendars import Entry, announced, read_calendar
from models.forecaster.data.layouts import streams
from models.forecaster.data.streams import UNDATED_ORIGIN, Options, Stamped, Stream
from models.forecaster.data.tables import read_table
from models.forecaster.port import HORIZONS_MIN
from models.forecaster.series import Series
from models.inputs.errors import InputError, closest

Note = Callable[[str], None]
"""Takes one line about something in a file that was mended."""


def ignore(_: str) -> None:
    """For those who do not want to know."""


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
    """The series of a CSV, CSV.gz or Parquet file, with what a calendar file announces for them.

    `columns` chooses values, `step_min` and `start` stand in for a column of times, and `signed`
    admits values below zero, which no traffic has.
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
    axis = axis_of(stream.rps.seconds, where, stream.step_min or step_min)
    rps, shared = on_axis(axis, *stream.rps)
    if shared:
        note(f"{where}: {shared} values share a step with another, their mean is taken")
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
    """An entry for a series that nobody has would be lost without a word."""
    names = {each.name for each in series}
    stranger = next(
        (entry.series for entry in entries if entry.series and entry.series not in names), None
    )
    if stranger is not None:
        close = closest(stranger, sorted(names)) or min(names)
        raise InputError(f"{calendar}: no series is named {stranger!r}; there is {close!r}")


def _with_calendar(
    series: Series, entries: tuple[Entry, ...], calendar: Path, note: Note
) -> Series:
    mine = announced(entries, series.origin_min, series.name)
    # What begins soon after the end is what a forecast is asked for.
    end = series.rps.size + max(HORIZONS_MIN)
    if not any(entry.end_min > 0 and entry.start_min < end for entry in mine):
        note(f"{calendar}: nothing is announced for the time of {series.name}")
    return series._replace(calendar=mine)
