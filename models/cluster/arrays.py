"""Array aliases, units and structured arrays that every model uses.

CPU requests are millicores and memory requests MiB, as in Kubernetes: integers, so that sums are
exact. Measurements are cores and GiB.

A structured array holds many properties of one thing. Kernels take a few of them instead of a
hundred plain arrays, which would make every call slow to compile and to run. Fields are four or
eight bytes wide, so that all are aligned.
"""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
I8 = NDArray[np.int8]
I16 = NDArray[np.int16]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
Mask = NDArray[np.bool_]

MILLI: Final = 1000
"""Millicores per core."""
MIB_PER_GIB: Final = 1024


Records = NDArray[np.void]
Record = Any
"""One element of a structured array; kernels read its fields as attributes."""

INT = np.int32
FLOAT = np.float32
LONG = np.int64


def record_type(**fields: type[np.generic]) -> np.dtype[np.void]:
    """A record type with the wide fields first."""
    # A narrow field before a wide one would leave a gap, because fields are aligned.
    ordered = sorted(fields.items(), key=lambda field: -np.dtype(field[1]).itemsize)
    return np.dtype([(name, kind) for name, kind in ordered], align=True)


def records(columns: Mapping[str, ArrayLike], shape: tuple[int, ...]) -> Records:
    """One structured array of `shape`; each column broadcasts to it."""
    arrays: dict[str, NDArray[Any]] = {name: np.asarray(col) for name, col in columns.items()}
    kind = record_type(
        **{name: FLOAT if array.dtype.kind == "f" else INT for name, array in arrays.items()}
    )
    table = np.zeros(shape, kind)
    for name, array in arrays.items():
        table[name] = array
    return table
