"""What a sync has to go by: a recommendation, or why there is none.

A recommendation is not negative, so the reasons are negative numbers in its place.
"""

from typing import Final

import numpy as np

from models.jit import kernel

NO_METRIC: Final = np.int32(-1)
"""The metric failed, or there are no replicas to measure: hold, and remember nothing."""
OUTSIDE: Final = np.int32(-2)
"""More replicas than the maximum or fewer than the minimum: no metric is asked for."""
NOT_DUE: Final = np.int32(-3)
ABSENT: Final = np.int32(-4)
"""There is no such HPA now; what it remembered is forgotten."""


Whole = int | np.int32


@kernel
def gate(recommended: Whole, current: int, least: int, most: int, scalable: bool) -> Whole:
    """What the checks before the metric leave of it; without replicas an HPA is switched off."""
    allowed = recommended if least <= current <= most else OUTSIDE
    return allowed if scalable else NO_METRIC


@kernel
def is_sync(wanted: int) -> bool:
    """Whether the HPA was looked at, whatever came of it."""
    return bool(wanted >= OUTSIDE)


@kernel
def bounded(current: int, least: int, most: int) -> int:
    """The nearest number that is allowed."""
    return min(max(current, least), most)
