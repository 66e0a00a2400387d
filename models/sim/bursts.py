"""CPU above the request: pods may go up to their limit on cores that others leave idle.

Requests come first: what an app uses up to its requests nobody can take from it. What apps want
beyond that, up to their limits, is added up per pool and compared with the pool's idle cores;
where these do not suffice, everybody there gets the same share of the wish. Pods of an app share
its load evenly, so the fullest of the pools that they are in decides for all of them. With that
a pool never uses more than its ready nodes have.
"""

import numpy as np

from models.jit import kernel
from models.sim.apps import F32, I32
from models.sim.layout import Rules
from models.sim.service_rows import Traits
from models.sim.state import BACKLOG, BOUND, PAYLOAD, State

_MILLI = np.float32(1000.0)
_ZERO, _ONE = np.float32(0.0), np.float32(1.0)
_ROUND_UP = np.float32(0.999)

BEYOND, USE, MORE, SHARE = range(4)
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
    seconds = rules.physics[0].tick_s
    backlog, beyond, share = st.flow[e, BACKLOG], rows[BEYOND], rows[SHARE]
    wishes = _wish(demand, backlog, service, servers, traits.limit_ratio, _ONE / seconds, beyond)
    share[:] = _ONE
    if wishes > 0:
        _use_per_pod(
            demand, backlog, service, servers, beyond, st.flow[e, PAYLOAD], traits.cpu_seconds,
            st.hidden[e, BOUND], _ONE / seconds, rows[USE], rows[MORE],
        )  # fmt: skip
        _share_pools(st, e, rules, rows[USE], rows[MORE], share)
    _extend(servers, traits.limit_ratio, beyond, share)


@kernel
def _wish(
    demand: F32,
    backlog: F32,
    service: F32,
    servers: F32,
    limit_ratio: F32,
    per_second: np.float32,
    beyond: F32,
) -> int:
    """Servers that apps would keep busy beyond their requests; returns how many apps would."""
    wishes = 0
    for app in range(beyond.size):
        busy = (demand[app] + backlog[app]) * service[app] * per_second
        more = min(busy, servers[app] * limit_ratio[app]) - servers[app]
        beyond[app] = max(_ZERO, more)
        wishes += 1 if more > _ZERO else 0
    return wishes


@kernel
def _use_per_pod(
    demand: F32,
    backlog: F32,
    service: F32,
    servers: F32,
    beyond: F32,
    payload: F32,
    cpu_seconds: F32,
    bound: I32,
    per_second: np.float32,
    use: F32,
    more: F32,
) -> None:
    """Millicores of each pod up to its request, and wanted beyond it."""
    for app in range(use.size):
        busy = (demand[app] + backlog[app]) * service[app] * per_second
        of_server = _MILLI * payload[app] * cpu_seconds[app] / service[app]
        of_pod = of_server / np.float32(max(np.int32(1), bound[app]))
        use[app] = min(busy, servers[app]) * of_pod
        more[app] = beyond[app] * of_pod


@kernel
def _share_pools(st: State, e: int, rules: Rules, use: F32, more: F32, share: F32) -> None:
    """Lower the share of the apps with pods in pools whose idle cores do not suffice."""
    for pool in range(rules.pools.size):
        placed = st.placed[e, pool]
        wanted = _millicores(placed, more)
        there = int(st.pool[e, pool].ready) * int(rules.pools[pool].cpu)
        idle = max(0, there - _millicores(placed, use))
        if wanted > idle:
            _narrow(placed, np.float32(idle / wanted), share)


@kernel
def _millicores(placed: I32, per_pod: F32) -> int:
    """Whole millicores of a pool, rounded up app by app: a sum of integers has no order."""
    total = 0
    for app in range(placed.size):
        total += int(np.float32(placed[app]) * per_pod[app] + _ROUND_UP)
    return total


@kernel
def _narrow(placed: I32, granted: np.float32, share: F32) -> None:
    for app in range(share.size):
        share[app] = min(share[app], granted if placed[app] > 0 else _ONE)


@kernel
def _extend(servers: F32, limit_ratio: F32, beyond: F32, share: F32) -> None:
    """All of the limit where cores are left over, else a share of what is wanted."""
    for app in range(servers.size):
        scarce = servers[app] + share[app] * beyond[app]
        servers[app] = scarce if share[app] < _ONE else servers[app] * limit_ratio[app]
