"""CPU above the request: pods may go up to their limit on cores that others leave idle.

Requests come first: what an app uses up to its requests nobody can take from it. A pool's idle
cores then go to what apps want beyond their requests, the same share to each, and what is left
of them stands ready, again in equal shares, for what limits allow beyond that. What all pods of
a pool may use together is therefore never more than its ready nodes have. Load goes where the
capacity is: pods in a full pool burst less than pods of the same app elsewhere.
"""

import numpy as np

from models.cluster.arrays import F32, I32
from models.jit import kernel
from models.sim.layout import Rules
from models.sim.service_rows import Traits
from models.sim.state import BACKLOG, BOUND, PAYLOAD, State

_CENTI = np.float32(100.0)
_MILLI_PER_CENTI = 10
_ZERO, _ONE = np.float32(0.0), np.float32(1.0)
_ROUND_UP = np.float32(0.999)
_TINY = np.float32(1e-12)

USE, WISH, SPARE, GAINED = range(4)
BURST_ROWS = 4
"""Rows of scratch memory."""


@kernel
def burst(
    st: State,
    e: int,
    traits: Traits,
    rules: Rules,
    demand: F32,
    service: F32,
    servers: F32,
    rows: F32,
) -> None:
    """Add to the servers that requests guarantee those that run on idle cores."""
    flow, use, wish, spare = st.flow[e], rows[USE], rows[WISH], rows[SPARE]
    gained = rows[GAINED]
    _look_at_pods(
        demand, flow[BACKLOG], service, servers, traits.limit_ratio, flow[PAYLOAD],
        traits.cpu_seconds, st.hidden[e, BOUND], _ONE / rules.physics[0].tick_s,
        use, wish, spare, gained,
    )  # fmt: skip
    for pool in range(rules.pools.size):
        # Most pools are those of one domain, whose apps stand side by side.
        apps = slice(st.pool[e, pool].first_app, st.pool[e, pool].end_app)
        placed = st.placed[e, pool, apps]
        used, wishes, limits = _sum_pool(placed, use[apps], wish[apps], spare[apps])
        if limits + wishes > 0:
            there = int(st.pool[e, pool].ready) * int(rules.pools[pool].cpu) // _MILLI_PER_CENTI
            idle = max(0, there - used)
            granted = min(1.0, idle / max(1, wishes))
            left = min(1.0, max(0, idle - wishes) / max(1, limits))
            shares = np.float32(granted), np.float32(left)
            _gain(placed, wish[apps], spare[apps], shares, gained[apps])
    _extend(service, flow[PAYLOAD], traits.cpu_seconds, gained, servers)


@kernel
def _look_at_pods(
    demand: F32,
    backlog: F32,
    service: F32,
    servers: F32,
    limit_ratio: F32,
    payload: F32,
    cpu_seconds: F32,
    bound: I32,
    per_second: np.float32,
    use: F32,
    wish: F32,
    spare: F32,
    gained: F32,
) -> None:
    """A pod's use of its request, its wish beyond it and the rest of its limit, in 1/100 core."""
    for app in range(use.size):
        busy = (demand[app] + backlog[app]) * service[app] * per_second
        of_server = _CENTI * payload[app] * cpu_seconds[app] / service[app]
        of_pod = of_server / np.float32(max(np.int32(1), bound[app]))
        beyond = servers[app] * (limit_ratio[app] - _ONE)
        wanted = min(max(busy - servers[app], _ZERO), beyond)
        use[app] = min(busy, servers[app]) * of_pod
        wish[app] = wanted * of_pod
        spare[app] = (beyond - wanted) * of_pod
        gained[app] = _ZERO


@kernel
def _sum_pool(placed: I32, use: F32, wish: F32, spare: F32) -> tuple[int, int, int]:
    """Hundredths of a core in a pool, rounded up app by app.

    Integers, because a sum of them is the same in any order and can be vectorised; 32 bits wide
    for the same reason, which hundredths of a core do not overflow.
    """
    used, wishes, limits = np.int32(0), np.int32(0), np.int32(0)
    for app in range(placed.size):
        pods = np.float32(placed[app])
        used = np.int32(used + np.int32(pods * use[app] + _ROUND_UP))
        wishes = np.int32(wishes + np.int32(pods * wish[app] + _ROUND_UP))
        limits = np.int32(limits + np.int32(pods * spare[app] + _ROUND_UP))
    return int(used), int(wishes), int(limits)


@kernel
def _gain(
    placed: I32, wish: F32, spare: F32, shares: tuple[np.float32, np.float32], gained: F32
) -> None:
    granted, left = shares
    for app in range(gained.size):
        of_pod = wish[app] * granted + spare[app] * left
        gained[app] += np.float32(placed[app]) * of_pod


@kernel
def _extend(service: F32, payload: F32, cpu_seconds: F32, gained: F32, servers: F32) -> None:
    """From cores back to servers."""
    for app in range(servers.size):
        work = _CENTI * payload[app] * cpu_seconds[app]
        servers[app] += gained[app] * service[app] / max(work, _TINY)
