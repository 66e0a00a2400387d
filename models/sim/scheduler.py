"""The scheduler: binds pending pods, first come first served or by class, and may preempt."""

import math
from typing import NamedTuple

import numpy as np

from models.cluster import rows
from models.cluster.arrays import I32, Records
from models.jit import kernel
from models.sim.accounting import PREEMPTED, STARTED, STOPPED, WAIT_BINS, Accounts
from models.sim.draws import Purpose, as_normal, as_uniform, draw, mix, stream
from models.sim.groups import add_group, free_room_now, take_from_group
from models.sim.kernel_math import exponential
from models.sim.rules import ClusterRules
from models.sim.state import (
    BOUND,
    CANCELLED,
    LEAKED,
    NEWEST,
    NONE,
    READY_RING,
    ROOM_CPU,
    ROOM_MEMORY,
    ROOM_PODS,
    State,
)

_START = int(Purpose.POD_START)
CLASSES = 4
_SPREAD = 8
"""A large enough batch is spread over this many nodes."""
_BLOCK = 16
"""Nodes that the search skips together when none of them has room."""
START_STRIDE = 7919
"""Prime: the apps' searches start at different nodes of a pool."""
_PREEMPTIONS_PER_TICK = 400
"""At most, for one queue entry."""
_HUGE = 1 << 30


class Failed(NamedTuple):
    """Searches that found nothing in this tick, so that no kernel repeats them."""

    cpu: I32
    """[P] the smallest CPU request that fits no node."""
    both: I32
    """[P, 2] CPU and memory of the last pods that fit no node for either reason."""
    evicting: I32
    """[classes] 1 when preemption found no pods to evict."""


def empty_failed(pools: int) -> Failed:
    """Scratch memory for `schedule`."""
    return Failed(
        cpu=np.zeros(pools, np.int32),
        both=np.zeros((pools, 2), np.int32),
        evicting=np.zeros(CLASSES, np.int32),
    )


@kernel
def schedule(
    st: State, acc: Accounts, e: int, apps: Records, rules: ClusterRules, failed: Failed
) -> None:
    """Bind the pending pods that fit."""
    if st.env[e].queue_length == 0:
        return
    _drop_cancelled(st, e)
    failed.cpu[:] = _HUGE
    failed.both[:] = _HUGE
    failed.evicting[:] = 0
    # The scheduler binds a limited number of pods per second.
    budget = rules.physics[0].placements_per_tick
    passes = CLASSES if rules.physics[0].by_priority else 1
    for turn in range(passes):
        for entry in range(st.env[e].queue_length):
            app = st.queue[e, entry].app
            # By priority: one pass over the queue per class, the highest class first.
            if rules.physics[0].by_priority and apps[app].pod_class != turn:
                continue
            if st.queue[e, entry].count > 0 and budget > 0:
                budget -= _place_entry(st, acc, e, entry, app, apps, rules, failed, budget)
    _compact(st, e)


@kernel
def _drop_cancelled(st: State, e: int) -> None:
    """Remove cancelled pods from the queue, the youngest first."""
    for entry in range(st.env[e].queue_length - 1, -1, -1):
        this = st.queue[e, entry]
        if st.hidden[e, CANCELLED, this.app] > 0:
            dropped = min(st.hidden[e, CANCELLED, this.app], this.count)
            st.hidden[e, CANCELLED, this.app] -= dropped
            this.count -= dropped


@kernel
def _place_entry(
    st: State,
    acc: Accounts,
    e: int,
    entry: int,
    app: int,
    apps: Records,
    rules: ClusterRules,
    failed: Failed,
    budget: int,
) -> int:
    """Bind as many of the entry's pods as fit, preferred pools first; returns how many."""
    wanted = min(st.queue[e, entry].count, budget)
    since = st.queue[e, entry].since
    domain = st.status[e, rows.DOMAIN, app]
    left = wanted
    for choice in range(rules.domain_pools.shape[1]):
        pool = rules.domain_pools[domain, choice]
        if pool != NONE and left > 0:
            left -= place_in_pool(st, acc, e, app, left, since, pool, apps, rules, failed)
    # A class that found no pods to evict does not search again in this tick.
    importance = apps[app].pod_class
    if left > 0 and rules.physics[0].preemption and failed.evicting[importance] == 0:
        placed = _preempt(st, acc, e, app, left, since, apps, rules)
        left -= placed
        failed.evicting[importance] = 1 if placed == 0 else 0
    st.queue[e, entry].count -= wanted - left
    st.status[e, rows.PENDING, app] -= wanted - left
    return wanted - left


@kernel
def place_in_pool(
    st: State,
    acc: Accounts,
    e: int,
    app: int,
    wanted: int,
    since: int,
    pool: int,
    apps: Records,
    rules: ClusterRules,
    failed: Failed,
) -> int:
    """Bind up to `wanted` pods in one pool, starting at a node that depends on the app.

    Like the kube-scheduler, which also starts at a rotating node and stops early. Neighbouring
    slots are in different zones, so a batch is spread over zones.
    """
    cpu, memory = st.status[e, rows.CPU_REQUEST, app], st.status[e, rows.MEMORY_REQUEST, app]
    # Many apps wait for the same full pool; don't search it again for each of them.
    if _fits_nowhere(failed, pool, cpu, memory):
        return 0
    first, end = rules.pools[pool].first, rules.pools[pool].end
    size = end - first
    # Far quicker than the search, and enough for most pods that fit nowhere.
    roomiest = _highest(st.room[e, ROOM_CPU, first:end])
    if roomiest < cpu:
        # Any request above the roomiest node's free CPU fails in this tick.
        failed.cpu[pool] = min(failed.cpu[pool], roomiest + 1)
        return 0
    start = first + (app * START_STRIDE) % size
    # One round spreads the pods evenly; a second one uses any room that is left.
    chunk = pods_per_node(wanted)
    left = wanted - _fill(st, acc, e, app, wanted, chunk, since, start, end, apps, rules)
    left -= _fill(st, acc, e, app, left, chunk, since, first, start, apps, rules)
    if left == wanted:
        failed.both[pool, ROOM_CPU] = cpu
        failed.both[pool, ROOM_MEMORY] = memory
        return 0
    left -= _fill(st, acc, e, app, left, left, since, start, end, apps, rules)
    left -= _fill(st, acc, e, app, left, left, since, first, start, apps, rules)
    return wanted - left


@kernel
def pods_per_node(wanted: int) -> int:
    """Pods of a batch that go to one node where it is spread."""
    return (wanted + _SPREAD - 1) // _SPREAD


@kernel
def _fill(
    st: State,
    acc: Accounts,
    e: int,
    app: int,
    wanted: int,
    chunk: int,
    since: int,
    begin: int,
    stop: int,
    apps: Records,
    rules: ClusterRules,
) -> int:
    """Bind up to `chunk` pods to each node of a range, in order; returns how many."""
    free_cpu, free_memory, free_pods = (
        st.room[e, ROOM_CPU],
        st.room[e, ROOM_MEMORY],
        st.room[e, ROOM_PODS],
    )
    cpu, memory = st.status[e, rows.CPU_REQUEST, app], st.status[e, rows.MEMORY_REQUEST, app]
    left = wanted
    node = begin
    while node < stop and left > 0:
        # The vectorised maximum over a block is much cheaper than a look at each node.
        if node + _BLOCK <= stop and _highest(free_cpu[node : node + _BLOCK]) < cpu:
            node += _BLOCK
            continue
        for candidate in range(node, min(node + _BLOCK, stop)):
            if free_cpu[candidate] < cpu:
                continue
            room = min(free_cpu[candidate] // cpu, free_memory[candidate] // memory)
            fits = min(left, chunk, room, free_pods[candidate])
            # Without a free group the pods stay pending; the group table is sized to avoid that.
            if fits > 0 and st.env[e].free_group != NONE:
                bind(st, acc, e, app, candidate, fits, since, apps, rules)
                left -= fits
                if left == 0:
                    break
        node += _BLOCK
    return wanted - left


@kernel
def _highest(row: I32) -> int:
    highest = np.int32(-1)
    for index in range(row.size):
        highest = max(highest, row[index])
    return int(highest)


@kernel
def _fits_nowhere(failed: Failed, pool: int, cpu: int, memory: int) -> bool:
    # A pod that needs at least as much of both as one that failed, fails too.
    both = failed.both[pool]
    return cpu >= failed.cpu[pool] or (cpu >= both[ROOM_CPU] and memory >= both[ROOM_MEMORY])


@kernel
def bind(
    st: State,
    acc: Accounts,
    e: int,
    app: int,
    node: int,
    count: int,
    since: int,
    apps: Records,
    rules: ClusterRules,
) -> None:
    """Bind pods and draw when they will be ready."""
    ticks = start_ticks(st, e, app, node, apps, rules)
    # Fresh containers have leaked nothing yet.
    before = st.hidden[e, BOUND, app]
    st.flow[e, LEAKED, app] *= before / (before + count)
    add_group(st, e, app, node, rules.node_pool[node], count, st.env[e].tick + ticks)
    # Need-to-ready is known now, because the start time is drawn when the pods are bound.
    waited = min(WAIT_BINS - 1, st.env[e].tick + ticks - since)
    acc.waits[e, st.status[e, rows.DOMAIN, app], waited] += count
    acc.totals[e, STARTED] += count


@kernel
def start_ticks(st: State, e: int, app: int, node: int, apps: Records, rules: ClusterRules) -> int:
    """Ticks from bound to ready: image, boot and warm-up, the next readiness probe."""
    physics = rules.physics[0]
    # One hash per batch; further draws mix it again instead of hashing all arguments.
    word = draw(stream(st.env[e].seed, _START), app, node, st.env[e].tick)
    other = mix(word)
    slow_boot = exponential(physics.start_sigma * as_normal(other))
    seconds = physics.pod_boot_s * apps[app].boot * slow_boot
    seconds += as_uniform(word) * physics.readiness_s
    if as_uniform(mix(other)) >= physics.image_cached_share:
        slow_pull = exponential(physics.start_sigma * as_normal(mix(~other)))
        seconds += physics.image_pull_s * apps[app].image_pull * slow_pull
    return min(READY_RING - 1, max(1, math.ceil(seconds / physics.tick_s)))


@kernel
def _preempt(
    st: State,
    acc: Accounts,
    e: int,
    app: int,
    wanted: int,
    since: int,
    apps: Records,
    rules: ClusterRules,
) -> int:
    """Evict pods of lower classes from the app's pools, the lowest class first."""
    placed = 0
    for victim_class in range(CLASSES - 1, apps[app].pod_class, -1):
        for victim in range(apps.size):
            if apps[victim].pod_class != victim_class:
                continue
            group = st.hidden[e, NEWEST, victim]
            while group != NONE and placed < min(wanted, _PREEMPTIONS_PER_TICK):
                # Read the link first: preempting may free the group.
                older = st.group[e, group].older
                placed += _preempt_group(st, acc, e, app, group, since, apps, rules)
                group = older
            if placed == min(wanted, _PREEMPTIONS_PER_TICK):
                return placed
    return placed


@kernel
def _preempt_group(
    st: State,
    acc: Accounts,
    e: int,
    app: int,
    group: int,
    since: int,
    apps: Records,
    rules: ClusterRules,
) -> int:
    """Make room for one pod on the group's node, if evicting pods of the group is enough."""
    node, victim = st.group[e, group].node, st.group[e, group].app
    if not _may_use(st, e, app, rules.node_pool[node], rules) or st.env[e].free_group == NONE:
        return 0
    lacking_cpu = max(0, st.status[e, rows.CPU_REQUEST, app] - st.room[e, ROOM_CPU, node])
    lacking_memory = max(0, st.status[e, rows.MEMORY_REQUEST, app] - st.room[e, ROOM_MEMORY, node])
    # Enough pods of this one group to make room for one pod; groups are not combined.
    evicted = max(
        math.ceil(lacking_cpu / st.status[e, rows.CPU_REQUEST, victim]),
        math.ceil(lacking_memory / st.status[e, rows.MEMORY_REQUEST, victim]),
    )
    if evicted == 0 or evicted > st.group[e, group].count:
        return 0
    take_from_group(st, e, group, evicted)
    # At once, although real victims get their grace period: the queue has no nominated nodes.
    free_room_now(st, e, node)
    acc.totals[e, PREEMPTED] += evicted
    acc.totals[e, STOPPED] += evicted
    bind(st, acc, e, app, node, 1, since, apps, rules)
    return 1


@kernel
def _may_use(st: State, e: int, app: int, pool: int, rules: ClusterRules) -> bool:
    for choice in range(rules.domain_pools.shape[1]):
        if rules.domain_pools[st.status[e, rows.DOMAIN, app], choice] == pool:
            return True
    return False


@kernel
def _compact(st: State, e: int) -> None:
    """Remove empty entries from the queue and keep the order."""
    kept = 0
    for entry in range(st.env[e].queue_length):
        if st.queue[e, entry].count > 0:
            if kept != entry:
                st.queue[e, kept].app = st.queue[e, entry].app
                st.queue[e, kept].count = st.queue[e, entry].count
                st.queue[e, kept].since = st.queue[e, entry].since
                st.queue[e, kept].node_request = st.queue[e, entry].node_request
            kept += 1
    st.env[e].queue_length = kept
