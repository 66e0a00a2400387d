"""Means of any windows of a series, by cumulative sums."""

import numpy as np
from numpy.typing import NDArray

from models.sim.apps import F64

I64 = NDArray[np.int64]


class WindowMeans:
    """Of values [N]; what is missing is left out, a window without a value is NaN."""

    def __init__(self, values: F64) -> None:
        known = ~np.isnan(values)
        self._total = np.concatenate([[0.0], np.cumsum(np.where(known, values, 0.0))])
        self._count = np.concatenate([[0], np.cumsum(known)])

    def between(self, first: I64, end: I64) -> F64:
        """Of the minutes `first` to `end` - 1."""
        last = self._total.size - 1
        first, end = np.clip(first, 0, last), np.clip(end, 0, last)
        count = self._count[end] - self._count[first]
        total = self._total[end] - self._total[first]
        # Sums of many are a little off; a mean of rates is not negative.
        means: F64 = np.where(count > 0, np.maximum(total, 0.0) / np.maximum(count, 1), np.nan)
        return means

    def before(self, at: I64, minutes: int) -> F64:
        """Of the `minutes` that end with minute `at`."""
        return self.between(at + 1 - minutes, at + 1)
