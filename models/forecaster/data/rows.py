"""Tables with one row per series and its minutes beside each other."""

import re
from typing import Final

import numpy as np

from models.cluster.arrays import F64
from models.forecaster.data.axes import parsed_seconds
from models.forecaster.data.streams import UNDATED_ORIGIN, Stamped, Stream
from models.forecaster.data.tables import Table
from models.inputs.errors import input_error

_MINUTE_COLUMN: Final = re.compile(r"(m|minute_)?(\d+)")


def minute_columns(table: Table) -> list[str]:
    """Columns that count the minutes of a day, in order; empty if the table has none.

    Consecutive, because sensors have numbers as names too.
    """
    found = [name for name in table.columns if _MINUTE_COLUMN.fullmatch(name)]
    places = [_minute_number(name) for name in found]
    consecutive = len(places) > 1 and places == list(range(places[0], places[0] + len(places)))
    return found if consecutive and places[-1] <= 24 * 60 else []


def _minute_number(name: str) -> int:
    match = _MINUTE_COLUMN.fullmatch(name)
    return int(match[2]) if match else -1


def first_minute(name: str) -> int:
    """Columns m0000.. count from zero, minute_1.. and 1.. from one."""
    return _minute_number(name) - (1 if name.isdigit() or name.startswith("minute_") else 0)


def minute_values(table: Table, names: list[str]) -> F64:
    """[rows, minutes]."""
    unmasked = np.zeros(table.rows, np.bool_)
    return np.stack([table.numbers(name, unmasked) for name in names], axis=1)


def row_each(table: Table, values: F64, first_minute: int) -> list[Stream]:
    """One series per row; nothing says which day it was."""
    start = parsed_seconds(UNDATED_ORIGIN, "") + first_minute * 60
    seconds = start + 60 * np.arange(values.shape[1])
    names = _row_names(table)
    return [
        Stream(str(name), Stamped(seconds, row), step_min=1)
        for name, row in zip(names, values, strict=True)
    ]


def _row_names(table: Table) -> list[str]:
    """The first column of words in which no two rows are alike."""
    texts = [name for name in table.columns if table.is_text(name)]
    for column in texts:
        names = [str(word) for word in table.words(column)]
        if len(set(names)) == len(names):
            return names
    if texts:
        raise input_error(table.file, texts[0], "two rows have this name, expected one row each")
    return [table.row(place) for place in range(table.rows)]
