"""Names for the arrays that every model takes and returns, and the units they count in.

CPU requests are millicores and memory requests MiB, as in Kubernetes: integers, so that sums are
exact. Measurements are cores and GiB.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
I8 = NDArray[np.int8]
I16 = NDArray[np.int16]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]

MILLI: Final = 1000
"""Millicores of a core."""
MIB_PER_GIB: Final = 1024
