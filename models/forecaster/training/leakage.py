"""The leakage gate: finds inputs that use information from after their origin.

Inputs are encoded for many origins at once from the whole series, as training does, and one by one
from the series cut at each origin. An input that differs has looked ahead.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.cluster.arrays import I64
from models.forecaster.learned.inputs import FUTURE, PAST, STATIC, NetworkInputs, joined
from models.forecaster.series import Series

Numbers = NDArray[np.float32] | NDArray[np.float64]
Encode = Callable[[Series, I64], NetworkInputs]


class Leak(NamedTuple):
    """An input that changes when the future is cut off."""

    variable: str
    origins: int
    """Number of origins at which it changes."""
    largest: float
    """Largest relative difference."""


def leaks(encode: Encode, series: Series, at: I64, tolerance: float = 1e-5) -> list[Leak]:
    """Inputs that differ between encoding at once and as of each origin, the worst first."""
    whole = encode(series, at)
    # Announcements are cut too: `until` drops those made later.
    single = [encode(series.until(int(origin) + 1), at[i : i + 1]) for i, origin in enumerate(at)]
    as_of = joined(single)
    found = [
        *_differing("past", PAST, whole.past, as_of.past, tolerance),
        *_differing("future", FUTURE, whole.future, as_of.future, tolerance),
        *_differing("static", STATIC, whole.static, as_of.static, tolerance),
        *_differing("level", ("scale",), whole.scale[:, None], as_of.scale[:, None], tolerance),
        *_differing("level", ("offset",), whole.offset[:, None], as_of.offset[:, None], tolerance),
    ]
    return sorted(found, key=lambda leak: -leak.largest)


def _differing(
    group: str,
    names: tuple[str, ...],
    whole: Numbers,
    as_of: Numbers,
    tolerance: float,
) -> list[Leak]:
    found = []
    for index, name in enumerate(names):
        one, other = whole[..., index], as_of[..., index]
        gap = np.abs(one - other) / np.maximum(1.0, np.abs(other))
        # Missing in both is no difference; missing in one only is a leak.
        gap = np.where(np.isnan(one) & np.isnan(other), 0.0, np.nan_to_num(gap, nan=np.inf))
        worst = gap.reshape(gap.shape[0], -1).max(axis=1)
        if (worst > tolerance).any():
            found.append(
                Leak(f"{group}.{name}", int((worst > tolerance).sum()), float(worst.max()))
            )
    return found
