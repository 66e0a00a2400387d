"""What a run is judged by, in one place: the same sums for tuning, training and reports.

A request violates when it fails, times out or is slower than its app's target. An app-minute
counts its violating share times the app's traffic over the mean app traffic of its domain, and
stays with the domain in which the app was when the minute ended; PW weighs that by priority, and
J = PW + node-hours. Nodes are billed while they exist, booting
included, and reserved ones whether they exist or not.
"""

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.cluster.arrays import F32, F64, I8, I32, I64
from models.cluster.description import MARKETS
from models.cluster.observation import ACTIVE, CPU, DOMAIN, MEMORY, P99, RPS
from models.cluster.records import INT, Records, record_type
from models.jit import kernel
from models.sim.holding import held_share, held_share_of_pools, ready_capacity
from models.sim.layout import Layout, Rules
from models.sim.state import NONE, SAMPLE_RING, State

ARRIVED, SERVED, FAILED, VIOLATED, UNSCORED = range(5)
BOOKS: Final = 4
FLOWS: Final = 5

REQUESTS, PRESENT = range(2)

HORIZONTAL, CPU_SIZE, MEMORY_SIZE = range(3)
DIMENSIONS: Final = 3
REVERSAL_MINUTES: Final = 5
RESERVED: Final = MARKETS.index("reserved")

(
    TICKS,
    NODE_TICKS,
    MONEY,
    OVERSPEND,
    ACTIONS,
    REVERSALS,
    STARTED,
    STOPPED,
    PENDING_TICKS,
    MAX_PENDING,
    P0_WAIT_TICKS,
    P3_HELD,
    P3_HELD_OF_P0_POOLS,
    CPU_USED,
    CPU_THERE,
    MEMORY_USED,
    MEMORY_THERE,
    MINUTES,
    RESIZED,
    REFUSED,
    PREEMPTED,
    EVICTED,
    CRASHED,
    OOM_KILLED,
) = range(24)
TOTALS: Final = 24
WAIT_BINS: Final = 128
"""Ticks of need-to-ready told apart."""
_LONG_AGO: Final = -(1 << 20)

LAST_CHANGE: Final = record_type(tick=INT, direction=INT)


class Accounts(NamedTuple):
    """Running sums since the warm-up ended."""

    domains: F64
    """[E, D, FLOWS] requests of the closed minutes; UNSCORED is always up to date."""
    books: F32
    """[E, BOOKS, A] ARRIVED, SERVED, FAILED and VIOLATED requests of the current minute."""
    violation_minutes: F64
    """[E, A] traffic-weighted, not priority-weighted."""
    domain_minutes: F64
    """[E, D] the same by the domain in which the app was in that minute."""
    totals: F64
    """[E, TOTALS]."""
    waits: I64
    """[E, D, WAIT_BINS] pods by ticks from need to ready."""
    latency: F64
    """[E, D, 2] sums over minutes of requests x p99 seconds, and of requests."""
    minute: F64
    """[E, D, 2] requests of the last closed minute, and apps that were there."""
    waited_for: I8
    """[E, P] 1 where a P0 pod that waits in this tick could run."""
    last: Records
    """[E, A, DIMENSIONS] tick and direction of the last change."""


def empty_accounts(environments: int, apps: int, layout: Layout) -> Accounts:
    """Accounts with nothing in them."""
    e, d, p = environments, layout.domains, layout.pools
    last = np.zeros((e, apps, DIMENSIONS), LAST_CHANGE)
    last["tick"] = _LONG_AGO
    return Accounts(
        domains=np.zeros((e, d, FLOWS)),
        books=np.zeros((e, BOOKS, apps), np.float32),
        violation_minutes=np.zeros((e, apps)),
        domain_minutes=np.zeros((e, d)),
        totals=np.zeros((e, TOTALS)),
        waits=np.zeros((e, d, WAIT_BINS), np.int64),
        latency=np.zeros((e, d, 2)),
        minute=np.zeros((e, d, 2)),
        waited_for=np.zeros((e, p), np.int8),
        last=last,
    )


def copy_accounts(accounts: Accounts) -> Accounts:
    """An independent copy."""
    return Accounts._make(array.copy() for array in accounts)


def reset_accounts(accounts: Accounts) -> None:
    """Forget the warm-up: sums start at zero, the memory of directions stays."""
    sums: dict[str, NDArray[Any]] = accounts._asdict()
    for name, array in sums.items():
        if name != "last":
            array[...] = 0


@kernel
def count_change(
    acc: Accounts, e: int, app: int, dimension: int, direction: int, tick: int, window: int
) -> None:
    """Count one applied change; turning back within `window` ticks is a reversal."""
    acc.totals[e, ACTIONS] += 1
    last = acc.last[e, app, dimension]
    if tick - last.tick <= window and last.direction == -direction:
        acc.totals[e, REVERSALS] += 1
    last.tick = tick
    last.direction = direction


@kernel
def close_tick(st: State, acc: Accounts, e: int, rules: Rules) -> None:
    """Bill the nodes, look at who waits, and close the minute when it is over."""
    totals = acc.totals[e]
    totals[TICKS] += 1
    _bill(st, e, rules, totals)
    _count_waiting(st, e, rules, acc.waited_for[e], totals)
    if (st.env[e].tick + 1) % rules.physics[0].ticks_per_minute == 0:
        _close_minute(st, acc, e, rules)


@kernel
def _bill(st: State, e: int, rules: Rules, totals: F64) -> None:
    money = 0.0
    nodes = 0
    for pool in range(rules.pools.size):
        for market in range(st.pool_market.shape[2]):
            there = st.pool_market[e, pool, market]
            nodes += there
            paid = max(there, rules.pools[pool].reserved) if market == RESERVED else there
            money += paid * rules.pool_price[pool, market]
    money *= rules.physics[0].tick_s / 3600.0
    totals[NODE_TICKS] += nodes
    totals[MONEY] += money
    totals[OVERSPEND] += max(0.0, money - rules.physics[0].spend_cap_per_tick)


@kernel
def _count_waiting(st: State, e: int, rules: Rules, waited_for: I8, totals: F64) -> None:
    """Pending pods, and what the lowest priority holds while the highest waits."""
    pending = 0
    p0_waits = False
    waited_for[:] = 0
    for entry in range(st.env[e].queue_length):
        count = st.queue[e, entry].count
        pending += count
        domain = st.status[e, DOMAIN, st.queue[e, entry].app]
        # A pod that was asked for in this very tick does not wait yet.
        waits = count > 0 and st.queue[e, entry].since < st.env[e].tick
        if waits and rules.domains[domain].priority == 0:
            p0_waits = True
            _mark_pools(rules.domain_pools[domain], waited_for)
    totals[PENDING_TICKS] += pending
    totals[MAX_PENDING] = max(totals[MAX_PENDING], pending)
    if p0_waits:
        totals[P0_WAIT_TICKS] += 1
        totals[P3_HELD] += held_share(st, e, rules, 3)
        totals[P3_HELD_OF_P0_POOLS] += held_share_of_pools(st, e, rules, 3, waited_for)


@kernel
def _mark_pools(choices: I32, marked: I8) -> None:
    for pool in choices:
        if pool != NONE:
            marked[pool] = 1


@kernel
def _close_minute(st: State, acc: Accounts, e: int, rules: Rules) -> None:
    """Carry the minute's books to the domains and the apps' violation minutes."""
    books, minute, flows = acc.books[e], acc.minute[e], acc.domains[e]
    domain, active, minutes = st.status[e, DOMAIN], st.status[e, ACTIVE], acc.violation_minutes[e]
    minute[:] = 0.0
    for app in range(domain.size):
        where = domain[app]
        minute[where, REQUESTS] += books[ARRIVED, app]
        minute[where, PRESENT] += active[app]
        for kind in range(BOOKS):
            flows[where, kind] += books[kind, app]
    for app in range(domain.size):
        where = domain[app]
        if minute[where, REQUESTS] > 0.0:
            mean = minute[where, REQUESTS] / minute[where, PRESENT]
            minutes[app] += books[VIOLATED, app] / mean
            acc.domain_minutes[e, where] += books[VIOLATED, app] / mean
    books[:] = 0.0
    _sum_use(st, acc, e, rules)


@kernel
def _sum_use(st: State, acc: Accounts, e: int, rules: Rules) -> None:
    """What the cluster used in the last tick of the minute, and how slow its domains were."""
    sample, domain = st.samples[e, st.env[e].tick % SAMPLE_RING], st.status[e, DOMAIN]
    totals, latency = acc.totals[e], acc.latency[e]
    cpu = 0.0
    memory = 0.0
    for app in range(domain.size):
        latency[domain[app], 0] += sample[RPS, app] * sample[P99, app]
        latency[domain[app], 1] += sample[RPS, app]
        cpu += sample[CPU, app]
        memory += sample[MEMORY, app]
    cpu_there, memory_there = ready_capacity(st, e, rules)
    totals[MINUTES] += 1
    totals[CPU_USED] += cpu
    totals[CPU_THERE] += cpu_there / 1000.0
    totals[MEMORY_USED] += memory
    totals[MEMORY_THERE] += memory_there / 1024.0
