"""Means of any windows of a series, by cumulative sums."""

import numpy as np

from models.cluster.arrays import F64, I64
from models.jit import kernel


class WindowMeans:
    """Of values [R, N]; what is missing is left out, a window without a value is NaN.

    The first value is of the minute `since`. Windows have an axis of R rows first, or of any
    length where there is but one row.
    """

    def __init__(self, values: F64, since: int = 0) -> None:
        rows, size = values.shape
        self._since = since
        self._total = np.zeros((rows, size + 1))
        self._count = np.zeros((rows, size + 1), np.int64)
        _add_up(values, self._total, self._count)

    def between(self, first: I64, end: I64) -> F64:
        """Of the minutes `first` to `end` - 1."""
        row, first, end = self._places(first, end)
        count = self._count[row, end] - self._count[row, first]
        total = self._total[row, end] - self._total[row, first]
        # Sums of many are a little off; a mean of rates is not negative.
        means: F64 = np.where(count > 0, np.maximum(total, 0.0) / np.maximum(count, 1), np.nan)
        return means

    def before(self, at: I64, minutes: int) -> F64:
        """Of the `minutes` that end with minute `at`."""
        return self.between(at + 1 - minutes, at + 1)

    def known_before(self, at: I64, minutes: int) -> F64:
        """Share of these minutes, as far as there are any, that have a value."""
        row, first, end = self._places(at + 1 - minutes, at + 1)
        share: F64 = (self._count[row, end] - self._count[row, first]) / np.maximum(end - first, 1)
        return share

    def _places(self, first: I64, end: I64) -> tuple[I64, I64, I64]:
        """Rows of the sums, and where windows begin and end in them."""
        rows, last = self._total.shape[0], self._total.shape[1] - 1
        row = np.arange(rows).reshape(-1, *(1,) * (first.ndim - 1))
        return row, np.clip(first - self._since, 0, last), np.clip(end - self._since, 0, last)


@kernel
def _add_up(values: F64, total: F64, count: I64) -> None:
    """One pass: a service does this for every row each minute."""
    for row in range(values.shape[0]):
        for place in range(values.shape[1]):
            known = values[row, place] == values[row, place]
            total[row, place + 1] = total[row, place] + (values[row, place] if known else 0.0)
            count[row, place + 1] = count[row, place] + (1 if known else 0)
