"""What the columns of a table mean: who the series are, when their values were taken.

Recognised as they are: one series or several in a long table, one column per series, one row
per series with a column per minute or a list, and long tables of several metrics.
"""

from typing import Final

import numpy as np

from models.cluster.arrays import F64, I64
from models.forecaster.data.axes import checked_step, parsed_seconds
from models.forecaster.data.rows import first_minute, minute_columns, minute_values, row_each
from models.forecaster.data.streams import UNDATED_ORIGIN, Options, Stamped, Stream
from models.forecaster.data.tables import TIME_NAMES, Table
from models.forecaster.series import Mask
from models.inputs.errors import InputError, input_error

_KEYS: Final = ("series", "service", "fn", "app", "domain", "name", "unique_id", "item_id")
_VALUES: Final = ("value", "rps", "requests", "invocations", "count", "y")
_IGNORED: Final = frozenset({"missing", "anomaly", "label", "day", "minute_of_day"})
_MINUTE_INDEX: Final = "minute"
_REQUESTS: Final = ("requests", "Sum")
_AVAILABILITY: Final = ("availability", "Average")
_LATENCY: Final = ("latency", "Average")


def streams(table: Table, options: Options) -> list[Stream]:
    """The series of a table."""
    _check_columns(table, options)
    minutes = minute_columns(table)
    lists = [name for name in table.columns if table.is_list(name)]
    if minutes:
        return row_each(table, minute_values(table, minutes), first_minute(minutes[0]))
    if lists:
        return row_each(table, table.lists(lists[0]), 0)
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
    """Services with requests and, where they are there, availability in % and latency."""
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
    """The share of requests that failed, from a percentage that did not."""
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
    if _MINUTE_INDEX in table.columns and table.is_number(_MINUTE_INDEX):
        return _MINUTE_INDEX
    _complain_about_times(table)
    return None


def _required_time(table: Table) -> str:
    time = _time_column(table)
    if time is None:
        raise input_error(table.file, "", "expected a column `timestamp`")
    return time


def _complain_about_times(table: Table) -> None:
    """A column that is named like a time but is none has a row that nobody could read."""
    for name in table.columns:
        if table.is_text(name) and name.split("_")[0].lower() in TIME_NAMES:
            for place, word in enumerate(table.words(name)):
                parsed_seconds(str(word), f"{table.file}: {table.row(place)}: {name}")
            raise input_error(table.file, name, "the times are not all written in one way")


def _stamps(table: Table, time: str) -> I64:
    if table.is_time(time):
        return table.seconds(time)
    minutes = table.numbers(time, np.zeros(table.rows, np.bool_))
    if np.isnan(minutes).any():
        place = int(np.flatnonzero(np.isnan(minutes))[0])
        raise input_error(table.file, table.row(place), f"{time} is empty, give it a number")
    stamps: I64 = parsed_seconds(UNDATED_ORIGIN, "") + 60 * minutes.astype(np.int64)
    return stamps


def _key_column(table: Table, time: str) -> str | None:
    """The column that names the series of each row: by its name, or the only one of words."""
    for name in _KEYS:
        if name in table.columns and (table.is_text(name) or "value" in table.columns):
            return name
    texts = [name for name in table.columns if name != time and _is_words(table, name)]
    return texts[0] if len(texts) == 1 else None


def _is_words(table: Table, name: str) -> bool:
    """Whether a column of text is no column of numbers with an odd cell in it."""
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
    """One series per column of values; a single one is named after the file."""
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
            table.file, "", "no column says when; name it `timestamp` or give the step in minutes"
        )
    step = checked_step(options.step_min, str(table.file))
    start = parsed_seconds(options.start, "start")
    seconds = start + 60 * step * np.arange(table.rows)
    return _columns(table, "", seconds, step, options)


def _value_columns(table: Table, used: tuple[str, ...]) -> list[str]:
    """Columns of numbers; one of words is taken along, to name the row that is wrong."""
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
    raise InputError(f"{table.file}: which column holds the values: {', '.join(found)}?")


def stem(table: Table) -> str:
    """The name of a table's file without what says how it is written."""
    return table.file.name.split(".")[0]
