"""Reads CSV (plain or gzip) and Parquet files by column.

Errors name the file and the row, because that is where the user has to look.
"""

from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.cluster.arrays import F64, I64, Mask
from models.inputs.errors import InputError, input_error

TIME_NAMES: Final = frozenset({"timestamp", "time", "date", "datetime", "ds", "ts", "t"})
_MISSING: Final = "missing"
_EPOCH_MILLISECONDS: Final = 10**11
"""Larger epochs are in milliseconds: in seconds they would be after the year 5138."""
_LONGEST_REASON: Final = 120


class Table(NamedTuple):
    """A file's columns, not yet interpreted."""

    file: Path
    columns: dict[str, Any]
    """Arrow arrays by name, in the file's order."""
    rows: int

    def row(self, index: int) -> str:
        """Row number as an editor shows it: the first row of a CSV file is its header."""
        return f"row {index + (1 if self.file.suffix == '.parquet' else 2)}"

    def is_number(self, name: str) -> bool:
        """Whether a column holds numbers; an empty column may have held any."""
        types = _arrow("pyarrow.types")
        kind = self.columns[name].type
        return bool(
            types.is_integer(kind)
            or types.is_floating(kind)
            or types.is_decimal(kind)
            or types.is_null(kind)
        )

    def is_text(self, name: str) -> bool:
        """Whether a column holds text."""
        types = _arrow("pyarrow.types")
        kind = self.columns[name].type
        # pandas' categories are stored as dictionaries of text.
        if types.is_dictionary(kind):
            kind = kind.value_type
        return bool(types.is_string(kind) or types.is_large_string(kind))

    def is_list(self, name: str) -> bool:
        """Whether the cells of a column are lists."""
        types = _arrow("pyarrow.types")
        kind = self.columns[name].type
        return bool(
            types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
        )

    def is_time(self, name: str) -> bool:
        """Whether a column holds times: dates, or seconds or milliseconds since 1970."""
        types = _arrow("pyarrow.types")
        kind = self.columns[name].type
        if types.is_timestamp(kind) or types.is_date(kind):
            return True
        return bool(types.is_integer(kind)) and _is_named_like_time(name)

    def words(self, name: str) -> NDArray[np.str_]:
        """A column as text; empty cells become empty strings."""
        cells = self.columns[name].to_pylist()
        return np.array(["" if cell is None else str(cell) for cell in cells], dtype=np.str_)

    def seconds(self, name: str) -> I64:
        """A column of times as seconds since 1970.

        Times without a zone are taken as they are, those with one are converted to UTC.
        """
        column = self.columns[name]
        if column.null_count:
            index = int(np.flatnonzero(np.asarray(column.is_null()))[0])
            raise input_error(self.file, self.row(index), f"{name} is empty, give it a time")
        arrow = _arrow("pyarrow")
        if arrow.types.is_integer(column.type):
            stamps = np.asarray(column, np.int64)
            # By the largest value, because early times in milliseconds look like seconds.
            in_milliseconds = stamps.size > 0 and int(stamps.max()) > _EPOCH_MILLISECONDS
            return stamps // 1000 if in_milliseconds else stamps
        # safe=False: nanoseconds are cut off instead of refused.
        stamps = np.asarray(column.cast(arrow.timestamp("us"), safe=False), "datetime64[us]")
        return stamps.astype(np.int64) // 1_000_000

    def missing(self) -> Mask:
        """[rows] that the file's `missing` column marks."""
        if _MISSING not in self.columns:
            return np.zeros(self.rows, np.bool_)
        flags = np.array([str(cell).lower() for cell in self.columns[_MISSING].to_pylist()])
        # pandas writes flags with gaps as floats.
        masked: Mask = np.isin(flags, ("1", "1.0", "true", "yes"))
        return masked

    def numbers(self, name: str, masked: Mask, *, signed: bool = False) -> F64:
        """A column of values: NaN where masked or empty; raises InputError for invalid traffic."""
        if self.is_number(name):
            values = np.array(self.columns[name].to_numpy(zero_copy_only=False), np.float64)
        else:
            values = self._parsed(name, masked)
        # Before the check, because a marked cell may hold anything.
        values[masked] = np.nan
        self._check(name, values, signed=signed)
        return values

    def lists(self, name: str) -> F64:
        """[rows, n] a column whose cells are lists of one length."""
        column = self.columns[name]
        lengths = _arrow("pyarrow.compute").list_value_length(column).unique().to_pylist()
        if len(lengths) != 1 or not lengths[0]:
            raise input_error(self.file, name, "expected lists of one length in all rows")
        values = np.asarray(column.flatten(), np.float64).reshape(self.rows, lengths[0])
        self._check(name, values, signed=False)
        return values

    def _check(self, name: str, values: F64, *, signed: bool) -> None:
        wrong = np.isinf(values) if signed else np.isinf(values) | (values < 0)
        if wrong.any():
            index = int(np.argwhere(wrong)[0][0])
            raise self._invalid(index, name, str(values[wrong].flat[0]))

    def _parsed(self, name: str, masked: Mask) -> F64:
        """Text as numbers, because one unreadable cell turns its whole column into text."""
        values = np.full(self.rows, np.nan)
        for index in np.flatnonzero(~masked):
            cell = self.columns[name][int(index)].as_py()
            if cell is None or (isinstance(cell, str) and not cell.strip()):
                continue
            try:
                values[index] = float(cell)
            except (TypeError, ValueError):
                raise self._invalid(int(index), name, repr(cell)) from None
        return values

    def _invalid(self, index: int, name: str, value: str) -> InputError:
        return input_error(
            self.file,
            self.row(index),
            f"{name} is {value}, expected a number of at least 0; "
            "leave the cell empty if it is not known",
        )


def read_table(file: Path) -> Table:
    """Read a CSV, CSV.gz or Parquet file."""
    table = _read(file)
    names = list(table.column_names)
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise input_error(file, twice, "two columns have this name; rename one")
    if table.num_rows == 0:
        raise input_error(file, "", "the table has no rows")
    columns = {name: table[name].combine_chunks() for name in names}
    return Table(file, columns, int(table.num_rows))


def _read(file: Path) -> Any:
    arrow = _arrow("pyarrow")
    if not file.exists():
        raise input_error(file, "", "no such file")
    if file.is_dir():
        raise input_error(file, "", "is a folder, expected a file .csv, .csv.gz or .parquet")
    try:
        if file.suffix == ".parquet":
            return _arrow("pyarrow.parquet").read_table(file)
        return _arrow("pyarrow.csv").read_csv(file)
    # For example a broken gzip file.
    except OSError:
        raise input_error(file, "", "cannot be read, expected .csv, .csv.gz or .parquet") from None
    except arrow.ArrowInvalid as error:
        # The message may quote a line of the file, and that of a binary file can be very long.
        reason = str(error).splitlines()[0][:_LONGEST_REASON]
        raise input_error(file, "", f"not a table: {reason}") from None


def _arrow(module: str) -> Any:
    """Import pyarrow lazily: services and the simulator run without it."""
    try:
        return import_module(module)
    except ImportError:
        raise InputError("reading tables needs pyarrow: pip install 'hirl-scale[fit]'") from None


def _is_named_like_time(name: str) -> bool:
    low = name.lower()
    return low in TIME_NAMES or "unix" in low or "epoch" in low
