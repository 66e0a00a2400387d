"""How far a network's answers are from those where it was exported."""

from typing import Final

import numpy as np

from models.registry.load import Arrays

PARITY: Final = 1e-3
"""Largest difference that is accepted, relative to values above 1."""


def difference(found: Arrays, expected: Arrays) -> float:
    """Largest difference, relative to values above 1; inf where shapes or numbers do not match."""
    worst = 0.0
    for name, wanted in expected.items():
        values = found.get(name)
        if values is None or values.shape != wanted.shape:
            return float("inf")
        with np.errstate(invalid="ignore"):
            errors = np.abs(values - wanted) / np.maximum(np.abs(wanted), 1.0)
        largest = float(errors.max(initial=0.0))
        worst = float("inf") if np.isnan(largest) else max(worst, largest)
    return worst
