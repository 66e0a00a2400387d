"""Tables as they come: CSV (plain or gzip) and Parquet, read column by column.

A cell that is wrong is named by file and row, because the person who reads the message has the
file open and not the program.
"""

from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.cluster.arrays import F64, I64
from models.forecaster.series import Mask
from models.inputs.errors import InputError, input_error

TIME_NAMES: Final = frozenset({"timestamp", "time", "date", "datetime", "ds", "ts", "t"})
_MISSING: Final = "missing"
_EPOCH_MILLISECONDS: Final = 10**11
"""An epoch above this would be the year 5138 in seconds."""


class Table(NamedTuple):
    """A file's columns, not yet understood."""

    file: Path
    columns: dict[str, Any]
    """Arrow arrays by name, in the file's order."""
    rows: int

    def row(self, place: int) -> str:
        """How a person finds the row at a place: a CSV file's first row is its header."""
        return f"row {place + (1 if self.file.suffix == '.parquet' else 2)}"

    def is_number(self, name: str) -> bool:
        """Whether a column holds numbers; one that is empty throughout may have held any."""
        types = _arrow("pyarrow.types")
        kind = self.columns[name].type
        return bool(
            types.is_integer(kind)
            or types.is_floating(kind)
            or types.is_decimal(kind)
            or types.is_null(kind)
        )

    def is_text(self, name: str) -> bool:
        """Whether a column holds words."""
        types = _arrow("pyarrow.types")
        kind = self.columns[name].type
        if types.is_dictionary(kind):
            kind = kind.value_type
        return bool(types.is_string(kind) or types.is_large_string(kind))

    def is_list(self, name: str) -> bool:
        """Whether a cell of the column holds many values."""
        types = _arrow("pyarrow.types")
        kind = self.columns[name].type
        return bool(
            types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
        )

    def is_time(self, name: str) -> bool:
        """Whether a column says when: a date, or seconds or milliseconds since 1970."""
        types = _arrow("pyarrow.types")
        kind = self.columns[name].type
        if types.is_timestamp(kind) or types.is_date(kind):
            return True
        return bool(types.is_integer(kind)) and _says_epoch(name)

    def words(self, name: str) -> NDArray[np.str_]:
        """A column as text; an empty cell is an empty word."""
        cells = self.columns[name].to_pylist()
        return np.array(["" if cell is None else str(cell) for cell in cells], dtype=np.str_)

    def seconds(self, name: str) -> I64:
        """A column of times as seconds since 1970, on the clock it was written in.

        Stamps without a zone are taken as they are, stamps with one are put on UTC.
        """
        column = self.columns[name]
        if column.null_count:
            place = int(np.flatnonzero(np.asarray(column.is_null()))[0])
            raise input_error(self.file, self.row(place), f"{name} is empty, give it a time")
        arrow = _arrow("pyarrow")
        if arrow.types.is_integer(column.type):
            stamps = np.asarray(column, np.int64)
            in_milliseconds = stamps.size > 0 and int(stamps.max()) > _EPOCH_MILLISECONDS
            return stamps // 1000 if in_milliseconds else stamps
        stamps = np.asarray(column.cast(arrow.timestamp("us"), safe=False), "datetime64[us]")
        return stamps.astype(np.int64) // 1_000_000

    def missing(self) -> Mask:
        """[rows] what the file itself marks as missing."""
        if _MISSING not in self.columns:
            return np.zeros(self.rows, np.bool_)
        flags = np.array([str(cell).lower() for cell in self.columns[_MISSING].to_pylist()])
        masked: Mask = np.isin(flags, ("1", "1.0", "true", "yes"))
        return masked

    def numbers(self, name: str, masked: Mask, *, signed: bool = False) -> F64:
        """A column of values: NaN where masked or empty, and an error where it is no traffic."""
        if self.is_number(name):
            values = np.array(self.columns[name].to_numpy(zero_copy_only=False), np.float64)
        else:
            values = self._parsed(name, masked)
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
            place = int(np.argwhere(wrong)[0][0])
            raise self._no_traffic(place, name, str(values[wrong].flat[0]))

    def _parsed(self, name: str, masked: Mask) -> F64:
        """Words as numbers, because one odd cell turns its whole column into words."""
        values = np.full(self.rows, np.nan)
        for place in np.flatnonzero(~masked):
            cell = self.columns[name][int(place)].as_py()
            if cell is None or (isinstance(cell, str) and not cell.strip()):
                continue
            try:
                values[place] = float(cell)
            except (TypeError, ValueError):
                raise self._no_traffic(int(place), name, repr(cell)) from None
        return values

    def _no_traffic(self, place: int, name: str, value: str) -> InputError:
        return input_error(
            self.file,
            self.row(place),
            f"{name} is {value}, expected a number of at least 0; "
            "leave the cell empty if it is not known",
        )


def read_table(file: Path) -> Table:
    """Read a CSV, CSV.gz or Parquet file."""
    table = _read(file)
    names = list(table.column_names)
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise input_error(file, twice, "two columns have this name, rename one")
    if table.num_rows == 0:
        raise input_error(file, "", "the table has no rows")
    columns = {name: table[name].combine_chunks() for name in names}
    return Table(file, columns, int(table.num_rows))


def _read(file: Path) -> Any:
    arrow = _arrow("pyarrow")
    if not file.exists():
        raise input_error(file, "", "no such file")
    try:
        if file.suffix == ".parquet":
            return _arrow("pyarrow.parquet").read_table(file)
        return _arrow("pyarrow.csv").read_csv(file)
    except OSError:
        raise input_error(file, "", "cannot be read, expected .csv, .csv.gz or .parquet") from None
    except arrow.ArrowInvalid as error:
        raise input_error(file, "", f"not a table: {str(error).splitlines()[0]}") from None


def _arrow(module: str) -> Any:
    """Imported here: services and the simulator run without it."""
    try:
        return import_module(module)
    except ImportError:
        raise InputError("reading tables needs pyarrow: pip install 'hirl-scale[fit]'") from None


def _says_epoch(name: str) -> bool:
    low = name.lower()
    return low in TIME_NAMES or "unix" in low or "epoch" in low
