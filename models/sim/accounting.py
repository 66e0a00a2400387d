"""The sums behind every result, defined once for tuning, training and reports.

A request violates its SLO when it fails, times out or is slower than its app's target. An
app-minute counts its violating share times the app's traffic over the mean app traffic of its
domain. It is booked to the domain that the app belonged to when the minute ended. PW weights it by
priority, and J = PW + node-hours. Nodes are billed while they exist, booting included; reserved
nodes are billed whether they exist or not.
"""

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.cluster import rows
from models.cluster.arrays import F32, F64, I8, I32, I64, INT, Records, record_type
from models.cluster.description import MARKETS
from models.jit import kernel
from models.sim.rules import ClusterRules, Layout
from models.sim.state import BOUND, NONE, SAMPLE_RING, State

# Kinds of requests. UNSCORED is summed by domain only.
ARRIVED, SERVED, FAILED, VIOLATED, UNSCORED = range(5)
_APP_KINDS: Final = 4
_DOMAIN_KINDS: Final = 5

# Columns of `Accounts.last_minute`.
_REQUESTS, _APPS = range(2)

# What an action changes.
HORIZONTAL, CPU_SIZE, MEMORY_SIZE = range(3)
DIMENSIONS: Final = 3
REVERSAL_MINUTES: Final = 5
"""An action that turns back the previous one within this time is a reversal."""
RESERVED: Final = MARKETS.index("reserved")

# Columns of `Accounts.totals`.
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
    CPU_CAPACITY,
    MEMORY_USED,
    MEMORY_CAPACITY,
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
"""Bins of the need-to-ready histogram, one per tick; the last holds all longer waits."""
# So far back that an app's first change never counts as a reversal.
_LONG_AGO: Final = -(1 << 20)

LAST_CHANGE: Final = record_type(tick=INT, direction=INT)


class Accounts(NamedTuple):
    """Running sums since the warm-up ended."""

    domains: F64
    """[E, D, kinds] requests of the closed minutes; UNSCORED is always up to date."""
    minute_requests: F32
    """[E, kinds, A] ARRIVED, SERVED, FAILED and VIOLATED requests of the current minute."""
    violation_minutes: F64
    """[E, A] traffic-weighted, not priority-weighted."""
    domain_minutes: F64
    """[E, D] the same by the domain that the app belonged to in that minute."""
    totals: F64
    """[E, TOTALS]."""
    waits: I64
    """[E, D, WAIT_BINS] pods by ticks from need to ready."""
    latency: F64
    """[E, D, 2] sums over minutes of requests x p99 seconds, and of requests."""
    last_minute: F64
    """[E, D, 2] requests of the last closed minute, and apps that were active in it."""
    waited_for: I8
    """[E, P] 1 for pools in which a P0 pod that waits in this tick may run."""
    last: Records
    """[E, A, DIMENSIONS] tick and direction of the last change."""


def empty_accounts(environments: int, apps: int, layout: Layout) -> Accounts:
    """Accounts of the right shapes, all zero."""
    e, d, p = environments, layout.domains, layout.pools
    last = np.zeros((e, apps, DIMENSIONS), LAST_CHANGE)
    last["tick"] = _LONG_AGO
    return Accounts(
        domains=np.zeros((e, d, _DOMAIN_KINDS)),
        minute_requests=np.zeros((e, _APP_KINDS, apps), np.float32),
        violation_minutes=np.zeros((e, apps)),
        domain_minutes=np.zeros((e, d)),
        totals=np.zeros((e, TOTALS)),
        waits=np.zeros((e, d, WAIT_BINS), np.int64),
        latency=np.zeros((e, d, 2)),
        last_minute=np.zeros((e, d, 2)),
        waited_for=np.zeros((e, p), np.int8),
        last=last,
    )


def copy_accounts(accounts: Accounts) -> Accounts:
    """An independent copy."""
    return Accounts._make(array.copy() for array in accounts)


def reset_accounts(accounts: Accounts) -> None:
    """Set all sums to zero at the end of the warm-up.

    The last changes stay: an action that turns one of them back is a reversal.
    """
    sums: dict[str, NDArray[Any]] = accounts._asdict()
    for name, array in sums.items():
        if name != "last":
            array[...] = 0


@kernel
def count_change(
    acc: Accounts, e: int, app: int, dimension: int, direction: int, tick: int, window: int
) -> None:
    """Count one applied change, and a reversal if it turns back one of the last `window` ticks."""
    acc.totals[e, ACTIONS] += 1
    last = acc.last[e, app, dimension]
    if tick - last.tick <= window and last.direction == -direction:
        acc.totals[e, REVERSALS] += 1
    last.tick = tick
    last.direction = direction


@kernel
def close_tick(st: State, acc: Accounts, e: int, rules: ClusterRules) -> None:
    """Bill the nodes, count waiting pods, and close the minute when it is over."""
    totals = acc.totals[e]
    totals[TICKS] += 1
    _bill(st, e, rules, totals)
    _count_waiting(st, e, rules, acc.waited_for[e], totals)
    if (st.env[e].tick + 1) % rules.physics[0].ticks_per_minute == 0:
        _close_minute(st, acc, e, rules)


@kernel
def _bill(st: State, e: int, rules: ClusterRules, totals: F64) -> None:
    money = 0.0
    nodes = 0
    for pool in range(rules.pools.size):
        for market in range(st.pool_market.shape[2]):
            # Booting nodes count: if they were free, requesting too many would cost nothing.
            existing = st.pool_market[e, pool, market]
            nodes += existing
            # Reserved nodes are paid for whether they exist or not.
            paid = existing
            if market == RESERVED:
                paid = max(existing, rules.pools[pool].reserved)
            money += paid * rules.pool_price[pool, market]
    money *= rules.physics[0].tick_s / 3600.0
    totals[NODE_TICKS] += nodes
    totals[MONEY] += money
    # Tick by tick, so that cheap ticks don't make up for expensive ones.
    totals[OVERSPEND] += max(0.0, money - rules.physics[0].spend_cap_per_tick)


@kernel
def _count_waiting(st: State, e: int, rules: ClusterRules, waited_for: I8, totals: F64) -> None:
    """Pending pods, and what the lowest priority holds while the highest waits."""
    pending = 0
    p0_waits = False
    waited_for[:] = 0
    for entry in range(st.env[e].queue_length):
        count = st.queue[e, entry].count
        pending += count
        domain = st.status[e, rows.DOMAIN, st.queue[e, entry].app]
        # A pod that is needed since this tick does not wait yet.
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
def _close_minute(st: State, acc: Accounts, e: int, rules: ClusterRules) -> None:
    """Add the minute's requests to the domains' sums and the violation minutes."""
    requests, minute, sums = acc.minute_requests[e], acc.last_minute[e], acc.domains[e]
    domain, active = st.status[e, rows.DOMAIN], st.status[e, rows.ACTIVE]
    minutes = acc.violation_minutes[e]
    minute[:] = 0.0
    # First the domains' sums, because the weight of each app depends on them.
    for app in range(domain.size):
        index = domain[app]
        minute[index, _REQUESTS] += requests[ARRIVED, app]
        # An app that vanished within the minute counts, too: its requests did arrive.
        minute[index, _APPS] += 1.0 if active[app] == 1 or requests[ARRIVED, app] > 0.0 else 0.0
        for kind in range(_APP_KINDS):
            sums[index, kind] += requests[kind, app]
    for app in range(domain.size):
        index = domain[app]
        if minute[index, _REQUESTS] > 0.0:
            # Weighted by traffic: otherwise a busy app would count no more than an idle one.
            mean = minute[index, _REQUESTS] / minute[index, _APPS]
            minutes[app] += requests[VIOLATED, app] / mean
            acc.domain_minutes[e, index] += requests[VIOLATED, app] / mean
    requests[:] = 0.0
    _sum_use(st, acc, e, rules)


@kernel
def _sum_use(st: State, acc: Accounts, e: int, rules: ClusterRules) -> None:
    """Add what the cluster used in the last tick of the minute, and the domains' latency."""
    sample, domain = st.samples[e, st.env[e].tick % SAMPLE_RING], st.status[e, rows.DOMAIN]
    totals, latency = acc.totals[e], acc.latency[e]
    cpu = 0.0
    memory = 0.0
    for app in range(domain.size):
        latency[domain[app], 0] += sample[rows.RPS, app] * sample[rows.P99, app]
        latency[domain[app], 1] += sample[rows.RPS, app]
        cpu += sample[rows.CPU, app]
        memory += sample[rows.MEMORY, app]
    ready_cpu, ready_memory = ready_capacity(st, e, rules)
    totals[MINUTES] += 1
    totals[CPU_USED] += cpu
    # Samples are in cores and GiB, pools in millicores and MiB.
    totals[CPU_CAPACITY] += ready_cpu / 1000.0
    totals[MEMORY_USED] += memory
    totals[MEMORY_CAPACITY] += ready_memory / 1024.0


@kernel
def held_share(st: State, e: int, rules: ClusterRules, priority: int) -> float:
    """Share of the ready allocatable CPU that pods of a priority occupy."""
    held = 0.0
    for app in range(st.status.shape[2]):
        if rules.domains[st.status[e, rows.DOMAIN, app]].priority == priority:
            held += st.hidden[e, BOUND, app] * st.status[e, rows.CPU_REQUEST, app]
    return held / max(1.0, ready_capacity(st, e, rules)[0])


@kernel
def held_share_of_pools(st: State, e: int, rules: ClusterRules, priority: int, pools: I8) -> float:
    """`held_share` of the pools that are marked in `pools`."""
    held = 0.0
    ready = 0.0
    for pool in range(pools.size):
        if pools[pool] == 0:
            continue
        ready += float(st.pool[e, pool].ready) * rules.pools[pool].cpu
        for app in range(st.status.shape[2]):
            if rules.domains[st.status[e, rows.DOMAIN, app]].priority == priority:
                # The counts per pool save a walk over all groups of pods.
                held += float(st.placed[e, pool, app]) * st.status[e, rows.CPU_REQUEST, app]
    return held / max(1.0, ready)


@kernel
def ready_capacity(st: State, e: int, rules: ClusterRules) -> tuple[float, float]:
    """Allocatable millicores and MiB of all ready nodes."""
    cpu = 0.0
    memory = 0.0
    for pool in range(rules.pools.size):
        cpu += float(st.pool[e, pool].ready) * rules.pools[pool].cpu
        memory += float(st.pool[e, pool].ready) * rules.pools[pool].memory
    return cpu, memory
