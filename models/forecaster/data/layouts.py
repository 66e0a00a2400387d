"""Recognises the layout of a table: which series it has, and when their values were recorded.

Supported: long tables of one or several series, one column per series, one row per series with a
column per minute or a list, and long tables of several metrics.
"""

import re
from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64, I64, Mask
from models.forecaster.data.axes import checked_step, parsed_seconds
from models.forecaster.data.tables import TIME_NAMES, Table
from models.inputs.errors import InputError, input_error

UNDATED_ORIGIN: Final = "2021-08-02"
"""Start of files that only count minutes. A Monday, but their days and weeks are arbitrary."""
_KEYS: Final = ("series", "service", "fn", "app", "domain", "name", "unique_id", "item_id")
_VALUES: Final = ("value", "rps", "requests", "invocations", "count", "y")
_IGNORED: Final = frozenset({"missing", "anomaly", "label", "day", "minute_of_day"})
_MINUTE_INDEX: Final = "minute"
_REQUESTS: Final = ("requests", "Sum")
_AVAILABILITY: Final = ("availability", "Average")
_LATENCY: Final = ("latency", "Average")
_MINUTE_COLUMN: Final = re.compile(r"(m|minute_)?(\d+)")


class Options(NamedTuple):
    """What a file does not contain."""

    columns: tuple[str, ...] = ()
    """Columns with values; empty to recognise them."""
    step_min: int | None = None
    """Minutes between two values; required without a column of times."""
    start: str = UNDATED_ORIGIN
    """Time of the first value, without a column of times."""
    signed: bool = False
    """Whether values below zero are allowed."""


class Stamped(NamedTuple):
    """Values with the seconds since 1970 at which their steps begin, in any order."""

    seconds: I64
    values: F64


class Stream(NamedTuple):
    """One series as it was recorded, before it is put on an axis of minutes."""

    name: str
    rps: Stamped
    step_min: int | None = None
    """Given by the layout, or None to derive it from the timestamps."""
    errors: Stamped | None = None
    latency: Stamped | None = None


def streams(table: Table, options: Options) -> list[Stream]:
    """The series of a table, in its recognised layout."""
    _check_columns(table, options)
    minutes = minute_columns(table)
    lists = [name for name in table.columns if table.is_list(name)]
    # From the most specific layout to the most general: tables of the first ones also look like a
    # later one.
    if minutes:
        return series_per_row(table, minute_values(table, minutes), first_minute(minutes[0]))
    if lists:
        return series_per_row(table, table.lists(lists[0]), 0)
    if {"metric", "value"} <= table.columns.keys():
        return _metrics(table)
    time = _time_column(table)
    if time is None:
        return _columns_by_row(table, options)
    seconds = _stamps(table, time)
    key = _key_column(table, time)
    if key is None:
        return _columns(table, time, seconds, None, options)
    value = _value_column(table, (time, key), options)
    values = table.numbers(value, table.missing(), signed=options.signed)
    return [Stream(name, rps) for name, rps in _split(table, key, seconds, values)]


def _check_columns(table: Table, options: Options) -> None:
    for name in options.columns:
        if name not in table.columns:
            has = ", ".join(list(table.columns)[:8])
            raise input_error(table.file, name, f"no such column; the first ones are {has}")


def _metrics(table: Table) -> list[Stream]:
    """Services with requests and, if present, availability in % and latency."""
    key = _key_column(table, _required_time(table))
    if key is None:
        raise input_error(table.file, "", "expected a column `service` beside `metric`")
    requests = dict(_of_metric(table, key, _REQUESTS))
    if not requests:
        raise input_error(table.file, "metric", "no rows with the metric `requests`")
    available = dict(_of_metric(table, key, _AVAILABILITY))
    latency = dict(_of_metric(table, key, _LATENCY))
    return [
        Stream(name, rps, None, _failed(available.get(name)), latency.get(name))
        for name, rps in requests.items()
    ]


def _failed(available: Stamped | None) -> Stamped | None:
    """Share of failed requests, from the percentage of successful ones."""
    if available is None:
        return None
    return Stamped(available.seconds, 1 - available.values / 100)


def _of_metric(table: Table, key: str, wanted: tuple[str, str]) -> list[tuple[str, Stamped]]:
    metric, statistic = wanted
    rows = table.words("metric") == metric
    if "statistic" in table.columns:
        rows &= table.words("statistic") == statistic
    seconds = table.seconds(_required_time(table))
    values = table.numbers("value", table.missing())
    return _split(table, key, seconds, values, rows)


def _split(
    table: Table, key: str, seconds: I64, values: F64, rows: Mask | None = None
) -> list[tuple[str, Stamped]]:
    """The chosen rows by the name in the key column, in order of the names."""
    chosen = np.arange(table.rows) if rows is None else np.flatnonzero(rows)
    names, inverse = np.unique(table.words(key)[chosen], return_inverse=True)
    # Stable, so that the rows of a series stay in the order of the file.
    order = chosen[np.argsort(inverse, kind="stable")]
    parts = np.split(order, np.cumsum(np.bincount(inverse, minlength=names.size))[:-1])
    return [
        (str(name), Stamped(seconds[part], values[part]))
        for name, part in zip(names, parts, strict=True)
        if part.size
    ]


def _time_column(table: Table) -> str | None:
    for name in table.columns:
        if table.is_time(name):
            return name
    # After real times: a counted minute has an arbitrary date.
    if _MINUTE_INDEX in table.columns and table.is_number(_MINUTE_INDEX):
        return _MINUTE_INDEX
    _check_times(table)
    return None


def _required_time(table: Table) -> str:
    time = _time_column(table)
    if time is None:
        raise input_error(table.file, "", "expected a column `timestamp`")
    return time


def _check_times(table: Table) -> None:
    """Report the first unreadable cell of a text column that is named like a time."""
    for name in table.columns:
        if table.is_text(name) and name.split("_")[0].lower() in TIME_NAMES:
            for index, word in enumerate(table.words(name)):
                parsed_seconds(str(word), f"{table.file}: {table.row(index)}: {name}")
            # Every cell is a time by itself, but the column was read as text.
            raise input_error(table.file, name, "the times are in several formats")


def _stamps(table: Table, time: str) -> I64:
    if table.is_time(time):
        return table.seconds(time)
    minutes = table.numbers(time, np.zeros(table.rows, np.bool_))
    if np.isnan(minutes).any():
        index = int(np.flatnonzero(np.isnan(minutes))[0])
        raise input_error(table.file, table.row(index), f"{time} is empty, give it a number")
    stamps: I64 = parsed_seconds(UNDATED_ORIGIN, "") + 60 * minutes.astype(np.int64)
    return stamps


def _key_column(table: Table, time: str) -> str | None:
    """The column with the series' names: by its own name, or the only column of text."""
    for name in _KEYS:
        # Numbers are names only beside a `value` column; in a wide table they are a series.
        if name in table.columns and (table.is_text(name) or "value" in table.columns):
            return name
    texts = [name for name in table.columns if name != time and _is_words(table, name)]
    return texts[0] if len(texts) == 1 else None


def _is_words(table: Table, name: str) -> bool:
    """Whether a text column holds words, not numbers with one unreadable cell."""
    if not table.is_text(name) or name in _IGNORED:
        return False
    try:
        float(table.words(name)[0] or "0")
    except ValueError:
        return True
    return False


def _columns(
    table: Table, time: str, seconds: I64, step: int | None, options: Options
) -> list[Stream]:
    """One series per column of values; a single series is named after the file."""
    # Columns that the user names win over recognition.
    names = list(options.columns) or _value_columns(table, (time,))
    masked = table.missing()
    return [
        Stream(
            stem(table) if len(names) == 1 else name,
            Stamped(seconds, table.numbers(name, masked, signed=options.signed)),
            step,
        )
        for name in names
    ]


def _columns_by_row(table: Table, options: Options) -> list[Stream]:
    if options.step_min is None:
        raise input_error(
            table.file, "", "no column of times; name it `timestamp` or pass --step-min"
        )
    step = checked_step(options.step_min, str(table.file))
    start = parsed_seconds(options.start, "start")
    seconds = start + 60 * step * np.arange(table.rows)
    return _columns(table, "", seconds, step, options)


def _value_columns(table: Table, used: tuple[str, ...]) -> list[str]:
    """All columns that are not ignored; text ones too, so that the wrong row can be reported."""
    found = [name for name in table.columns if name not in {*used, *_IGNORED}]
    if not found:
        raise input_error(table.file, "", "no column with values")
    return found


def _value_column(table: Table, used: tuple[str, ...], options: Options) -> str:
    found = list(options.columns) or _value_columns(table, used)
    named = [name for name in found if name in _VALUES]
    if len(found) == 1:
        return found[0]
    if len(named) == 1:
        return named[0]
    raise InputError(
        f"{table.file}: which column holds the values? choose one of {', '.join(found)}"
    )


def stem(table: Table) -> str:
    """The file name without its extensions."""
    return table.file.name.split(".")[0]


def minute_columns(table: Table) -> list[str]:
    """Columns named by the minutes of a day, in order; empty if the table has none.

    They must be consecutive, because sensors can have numbers as names too.
    """
    found = [name for name in table.columns if _MINUTE_COLUMN.fullmatch(name)]
    numbers = [_minute_number(name) for name in found]
    # One numbered column alone may be anything.
    consecutive = len(numbers) > 1 and numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    return found if consecutive and numbers[-1] <= 24 * 60 else []


def _minute_number(name: str) -> int:
    match = _MINUTE_COLUMN.fullmatch(name)
    return int(match[2]) if match else -1


def first_minute(name: str) -> int:
    """Minute of the first column: m0000.. count from 0, minute_1.. and 1.. from 1."""
    return _minute_number(name) - (1 if name.isdigit() or name.startswith("minute_") else 0)


def minute_values(table: Table, names: list[str]) -> F64:
    """[rows, minutes]."""
    unmasked = np.zeros(table.rows, np.bool_)
    return np.stack([table.numbers(name, unmasked) for name in names], axis=1)


def series_per_row(table: Table, values: F64, first_minute: int) -> list[Stream]:
    """One series per row, on an arbitrary day."""
    start = parsed_seconds(UNDATED_ORIGIN, "") + first_minute * 60
    seconds = start + 60 * np.arange(values.shape[1])
    names = _row_names(table)
    return [
        Stream(str(name), Stamped(seconds, row), step_min=1)
        for name, row in zip(names, values, strict=True)
    ]


def _row_names(table: Table) -> list[str]:
    """The first text column without duplicates."""
    texts = [name for name in table.columns if table.is_text(name)]
    # Azure's files have an app and a function column; only the latter is unique.
    for column in texts:
        names = [str(word) for word in table.words(column)]
        if len(set(names)) == len(names):
            return names
    if texts:
        raise input_error(table.file, texts[0], "two rows have this name, expected one row each")
    return [table.row(index) for index in range(table.rows)]
