"""Fit what a domain wants into what it may hold, of CPU and of memory.

Scarcity is shared by load: every app of the domain is raised to the same utilisation, so that no
app gets all it wants while another one's queue grows. The projection cuts increases only.
"""

import math
from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F32, F64, I32
from models.jit import kernel

MILLICORES, MEBIBYTES = range(2)
"""Rows of everything that counts both resources: sizes, limits, holdings."""
RESOURCES: Final = 2
_STEPS: Final = 12
"""Bisection steps: the level is found to one part in four thousand of the interval, which is 0.002
of a full pod's load."""
_HIGHEST_LEVEL: Final = np.float32(8.0)
"""Load per pod above which the projection adds nothing: the domain has no room at all. At this
level pods get eight times what fills them."""


class Bisection(NamedTuple):
    """Scratch of `project`. D domains."""

    held: F64
    """[2, D] at the level that is tried; in the end, what is wanted after the projection."""
    low: F32
    """[D] load per pod that is too low to fit."""
    high: F32
    """[D] load per pod that fits; 0 where nothing has to be cut."""


def bisection_scratch(domains: int) -> Bisection:
    """Zeros; `project` writes before it reads."""
    level = np.zeros(domains, np.float32)
    return Bisection(np.zeros((RESOURCES, domains)), level, level.copy())


@kernel
def sum_held(replicas: I32, size: I32, domain: I32, held: F64) -> None:
    """Write replicas x size [2, A] to `held` [2, D], summed by domain."""
    for d in range(held.shape[1]):
        held[MILLICORES, d] = held[MEBIBYTES, d] = 0.0
    # Apps of a domain are neighbours. Sums that stay in registers as long as the domain is the same
    # take a third of the time. Whole numbers below 2**53 are exact, so the order does not matter.
    last, cpu, memory = 0, 0.0, 0.0
    for app in range(replicas.size):
        d, pods = domain[app], np.float64(replicas[app])
        if d != last:
            held[MILLICORES, last] += cpu
            held[MEBIBYTES, last] += memory
            last, cpu, memory = d, 0.0, 0.0
        cpu += pods * np.float64(size[MILLICORES, app])
        memory += pods * np.float64(size[MEBIBYTES, app])
    if replicas.size > 0:
        held[MILLICORES, last] += cpu
        held[MEBIBYTES, last] += memory


@kernel
def exceeds(held: F64, limit: F64, d: int) -> bool:
    """Whether a domain holds more than its limit of either resource: the scarcer one binds."""
    cpu = held[MILLICORES, d] > limit[MILLICORES, d]
    return bool(cpu | (held[MEBIBYTES, d] > limit[MEBIBYTES, d]))


@kernel
def project(
    wanted: I32,
    current: I32,
    load: F32,
    size: I32,
    domain: I32,
    limit: F64,
    scratch: Bisection,
) -> bool:
    """Cut the increases of each domain so that it holds no more than `limit` [2, D].

    Returns whether anything had to be cut.

    An app is raised from `current` towards `wanted` until its utilisation load / replicas falls
    to a level that its whole domain shares. A bisection finds the lowest level that fits.
    """
    held, low, high = scratch.held, scratch.low, scratch.high
    sum_held(wanted, size, domain, held)
    short = False
    for d in range(low.size):
        scarce = exceeds(held, limit, d)
        low[d] = np.float32(0.0)
        high[d] = _HIGHEST_LEVEL if scarce else np.float32(0.0)
        short |= scarce
    # Most ticks end here: nothing is scarce.
    if not short:
        return False
    # All domains at once, each with its own interval: one pass over the apps per step.
    for _ in range(_STEPS):
        _hold_at_middle(wanted, current, load, size, domain, scratch)
        for d in range(low.size):
            middle = np.float32(0.5) * (low[d] + high[d])
            if exceeds(held, limit, d):
                low[d] = middle
            else:
                high[d] = middle
    for app in range(wanted.size):
        # `high` is the end of the interval that is known to fit (invariant 2).
        level = high[domain[app]]
        if level > 0.0:
            wanted[app] = _replicas_at(wanted[app], current[app], load[app], level)
    sum_held(wanted, size, domain, held)
    return True


@kernel
def _hold_at_middle(
    wanted: I32, current: I32, load: F32, size: I32, domain: I32, scratch: Bisection
) -> None:
    """What each domain would hold at the middle of its interval of levels."""
    held, low, high = scratch.held, scratch.low, scratch.high
    for d in range(low.size):
        held[MILLICORES, d] = held[MEBIBYTES, d] = 0.0
    for app in range(wanted.size):
        d = domain[app]
        level = np.float32(0.5) * (low[d] + high[d])
        replicas = np.float64(_replicas_at(wanted[app], current[app], load[app], level))
        held[MILLICORES, d] += replicas * np.float64(size[MILLICORES, app])
        held[MEBIBYTES, d] += replicas * np.float64(size[MEBIBYTES, app])


@kernel
def _replicas_at(wanted: int, current: int, load: np.float32, level: np.float32) -> int:
    """Replicas at which the app runs at `level`, between what it has and what it wants."""
    # Decreases pass uncut. Where even the highest level did not fit, nothing grows.
    if wanted <= current or level >= _HIGHEST_LEVEL:
        return min(wanted, current)
    enough = math.floor(load / max(level, np.float32(1e-6)))
    return min(wanted, max(current, enough))
