"""Fit what a domain wants into what it may hold, of CPU and of memory.

Scarcity is shared by load: every app of the domain is raised to the same utilisation, so that
none is served whole while another stands in its queue. Nothing is taken from an app here.
"""

import math
from typing import Final

import numpy as np

from models.cluster.arrays import F32, F64, I32
from models.jit import kernel

MILLICORES, MEBIBYTES = range(2)
"""Rows of whatever is counted in both: sizes, limits, holdings."""
RESOURCES: Final = 2
_STEPS: Final = 12
"""Halvings of the interval of utilisation: a part in four thousand of it."""
_MOST: Final = np.float32(8.0)
"""Where not even this utilisation fits, nothing is added at all."""


@kernel
def hold_of(replicas: I32, size: I32, domain: I32, held: F64) -> None:
    """[D] sums of replicas x size [A]."""
    for place in range(held.size):
        held[place] = 0.0
    for app in range(replicas.size):
        held[domain[app]] += np.float64(replicas[app]) * np.float64(size[app])


@kernel
def hold_all(replicas: I32, size: I32, domain: I32, held: F64) -> None:
    """[2, D] the same of both resources, with sizes [2, A]."""
    for resource in range(RESOURCES):
        hold_of(replicas, size[resource], domain, held[resource])


@kernel
def _is_beyond(held: F64, limit: F64, place: int) -> bool:
    """Whether a domain holds more than its limit of either resource: the scarcer one binds."""
    cpu = held[MILLICORES, place] > limit[MILLICORES, place]
    return bool(cpu | (held[MEBIBYTES, place] > limit[MEBIBYTES, place]))


@kernel
def project(
    wanted: I32,
    current: I32,
    load: F32,
    size: I32,
    domain: I32,
    limit: F64,
    held: F64,
    low: F32,
    high: F32,
) -> None:
    """Cut the increases of each domain so that it holds no more than `limit` [2, D].

    A wish is raised from `current` towards `wanted` until its utilisation load / replicas falls
    to a level that is common to the domain; the lowest level that fits is found by bisection.
    `size` is [2, A]; `held` [2, D], `low` and `high` [D] are scratch.
    """
    hold_all(wanted, size, domain, held)
    short = False
    for place in range(low.size):
        beyond = _is_beyond(held, limit, place)
        low[place] = np.float32(0.0)
        high[place] = _MOST if beyond else np.float32(0.0)
        short |= beyond
    if not short:
        return
    for _ in range(_STEPS):
        _hold_at(wanted, current, load, size, domain, low, high, held)
        for place in range(low.size):
            middle = np.float32(0.5) * (low[place] + high[place])
            if _is_beyond(held, limit, place):
                low[place] = middle
            else:
                high[place] = middle
    for app in range(wanted.size):
        level = high[domain[app]]
        if level > 0.0:
            wanted[app] = _at_level(wanted[app], current[app], load[app], level)


@kernel
def _hold_at(
    wanted: I32, current: I32, load: F32, size: I32, domain: I32, low: F32, high: F32, held: F64
) -> None:
    for place in range(low.size):
        held[MILLICORES, place] = held[MEBIBYTES, place] = 0.0
    for app in range(wanted.size):
        place = domain[app]
        level = np.float32(0.5) * (low[place] + high[place])
        replicas = np.float64(_at_level(wanted[app], current[app], load[app], level))
        held[MILLICORES, place] += replicas * np.float64(size[MILLICORES, app])
        held[MEBIBYTES, place] += replicas * np.float64(size[MEBIBYTES, app])


@kernel
def _at_level(wanted: int, current: int, load: np.float32, level: np.float32) -> int:
    """Replicas at which the app runs at `level`, between what it has and what it wants."""
    if wanted <= current or level >= _MOST:
        return min(wanted, current)
    enough = math.floor(load / max(level, np.float32(1e-6)))
    return min(wanted, max(current, enough))
