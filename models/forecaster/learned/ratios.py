"""Logarithms of ratios of which a part may be unknown."""

from typing import Final

import numpy as np

from models.cluster.arrays import F64

LEAST: Final = 1e-9
_LARGEST: Final = 5.0
"""Of any logarithm; beyond it a ratio says no more."""


def bounded(logs: F64) -> F64:
    """0 where unknown."""
    return np.clip(np.nan_to_num(logs, nan=0.0), -_LARGEST, _LARGEST)


def known(values: F64) -> F64:
    """1 where there is a value, else 0."""
    return (~np.isnan(values)).astype(np.float64)


def mean_of_known(values: F64) -> F64:
    """Along the last axis; NaN where nothing is known."""
    there = ~np.isnan(values)
    count = there.sum(axis=-1)
    mean: F64 = np.where(there, values, 0.0).sum(axis=-1) / np.where(count > 0, count, np.nan)
    return mean
