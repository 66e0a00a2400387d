"""Pods in flight (starting or without a node) by how long they have been.

Which pod became ready is not observed, only how many are in flight. So an increase is a cohort
of new pods, and a decrease takes the oldest: they are the likeliest to be through.
"""

import math
from typing import Final

import numpy as np

from models.cluster.arrays import I32
from models.jit import kernel

_BOUNDS_S: Final = (30, 60, 120, 300)
_MOST: Final = np.int32(1_000_000)
"""Pods of one app; a larger count is broken and would overflow sums."""
_NONE: Final = np.int32(0)


def window_ticks(tick_s: int) -> int:
    """Ticks that cohorts and restarts are told apart."""
    return math.ceil(_BOUNDS_S[-1] / tick_s)


def age_edges(tick_s: int) -> I32:
    """Age in ticks at which a pod leaves each bucket for the next."""
    return np.array([math.ceil(bound / tick_s) for bound in _BOUNDS_S], np.int32)


@kernel
def advance_flight(cohort: I32, flight: I32, edges: I32, last: int, elapsed: int) -> None:
    """Let the cohorts grow older; one that leaves the last bound is no longer told apart."""
    slots = cohort.shape[0]
    for step in range(1, min(elapsed, slots) + 1):
        for bucket in range(edges.size):
            aged = cohort[(last + step - edges[bucket]) % slots]
            _move(aged, flight[bucket], flight[bucket + 1])
        _clear(cohort[(last + step - edges[-1]) % slots])


@kernel
def _move(aged: I32, younger: I32, older: I32) -> None:
    for app in range(aged.size):
        younger[app] -= aged[app]
        older[app] += aged[app]


@kernel
def _clear(row: I32) -> None:
    for app in range(row.size):
        row[app] = _NONE


@kernel
def count_flight(
    starting: I32, pending: I32, cohort: I32, flight: I32, total: I32, edges: I32, tick: int
) -> None:
    """Bring the cohorts from `total` to what is in flight now."""
    newcomers, youngest = cohort[tick % cohort.shape[0]], flight[0]
    for app in range(total.size):
        now = min(max(starting[app], _NONE), _MOST) + min(max(pending[app], _NONE), _MOST)
        more = now - total[app]
        if more == 0:
            continue
        total[app] = now
        if more > 0:
            newcomers[app] += more
            youngest[app] += more
        else:
            _drain(cohort, flight, edges, tick, app, -more)


@kernel
def _drain(cohort: I32, flight: I32, edges: I32, tick: int, app: int, leaving: int) -> None:
    """Take `leaving` pods of an app out, the oldest first."""
    older = edges.size
    gone = min(leaving, flight[older, app])
    flight[older, app] -= gone
    leaving -= gone
    for bucket in range(older - 1, -1, -1):
        youngest = edges[bucket - 1] if bucket > 0 else 0
        for age in range(edges[bucket] - 1, youngest - 1, -1):
            # Most buckets of most apps are empty, and a look at each cohort is a cache miss.
            if leaving == 0 or flight[bucket, app] == 0:
                break
            slot = (tick - age) % cohort.shape[0]
            gone = min(leaving, cohort[slot, app])
            cohort[slot, app] -= gone
            flight[bucket, app] -= gone
            leaving -= gone
