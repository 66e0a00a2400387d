"""Structured arrays: many properties of one thing side by side, in one array.

Kernels take a handful of them instead of a hundred plain arrays, which would make every call
expensive to compile and to run. Fields are four or eight bytes wide, so that all are aligned.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Records = NDArray[np.void]
Record = Any
"""One element of a structured array; kernels read its fields as attributes."""

INT = np.int32
FLOAT = np.float32
LONG = np.int64
DOUBLE = np.float64


def record_type(**fields: type[np.generic]) -> np.dtype[np.void]:
    """A record type with the wide fields first."""
    ordered = sorted(fields.items(), key=lambda field: -np.dtype(field[1]).itemsize)
    return np.dtype([(name, kind) for name, kind in ordered], align=True)


def records(columns: Mapping[str, ArrayLike], shape: tuple[int, ...]) -> Records:
    """Columns of any shape that broadcasts to `shape`, as one structured array."""
    arrays: dict[str, NDArray[Any]] = {name: np.asarray(col) for name, col in columns.items()}
    kind = record_type(
        **{name: FLOAT if array.dtype.kind == "f" else INT for name, array in arrays.items()}
    )
    table = np.zeros(shape, kind)
    for name, array in arrays.items():
        table[name] = array
    return table
