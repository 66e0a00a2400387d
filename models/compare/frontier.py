"""Violations of HPA at equal cost, interpolated between its targets.

One controller with more nodes and fewer violations than another is neither better nor worse.
An HPA trades one for the other by its target, so every controller is compared with the point
of that trade-off at its own node-hours.
"""

from collections.abc import Sequence

import numpy as np


def at_equal_cost(
    node_hours: Sequence[float], violations: Sequence[float], cost: float
) -> float | None:
    """Violations on the line at `cost` node-hours; None where the line does not reach.

    An interpolation, piecewise linear in (node-hours, log(violations + 1)): between two targets
    violations fall by a factor rather than by an amount. Where a target costs as much as another
    or more and violates more, the better one counts: a full cluster makes generous targets
    worse. There is no extrapolation.
    """
    hours, index = np.unique(np.asarray(node_hours, np.float64), return_inverse=True)
    if hours.size == 0 or not hours[0] <= cost <= hours[-1]:
        return None
    # Of several targets at equal cost the best one counts, then of all that cost at most as much.
    levels = np.full(hours.size, np.inf)
    np.minimum.at(levels, index, np.log1p(violations))
    return float(np.expm1(np.interp(cost, hours, np.minimum.accumulate(levels))))
