"""The node autoscaler and the cloud behind it.

Pods that do not fit request nodes, one request per app, and the autoscaler accepts requests at a
limited rate. In pools that a plan coordinates, the controller places one request by priority and
the pods request nothing. Either way the cloud starts a limited number of nodes per second, and
boots slow each other down. An accepted request cannot be cancelled.
"""

import numpy as np

from models.cluster import rows
from models.cluster.arrays import I32, Record
from models.cluster.plan import Plan
from models.jit import kernel
from models.sim.accounting import Accounts
from models.sim.config.script import Script
from models.sim.nodes import empty_lost, finish_boots, launch, lose
from models.sim.rules import ClusterRules
from models.sim.state import (
    COORDINATED,
    NODE_ABSENT,
    NONE,
    REQUESTED,
    ROOM_CPU,
    ROOM_MEMORY,
    State,
)

_PACKING = 0.95
"""Share of a new node that the provisioner expects to fill."""
_OWN_REQUEST_PRIORITY = 2
"""Priority of the pods' own requests, which carry none: in the middle."""
_DRAIN_MARGIN = 1.3
"""Free room elsewhere over what a node uses, before the node is drained."""
_MAX_SAVED_TOKENS_TICKS = 2.0
"""The cloud lets unused launches of this many ticks be used later."""


@kernel
def provision(
    st: State, acc: Accounts, plan: Plan, e: int, rules: ClusterRules, script: Script
) -> None:
    """One tick of the provisioner."""
    finish_boots(st, e, rules)
    # Before the pods' own requests, so that the plan gets the quota first.
    _accept_coordinated(st, plan, e, rules)
    _accept_pending(st, plan, e, rules)
    _request_shortage(st, plan, e, rules)
    _launch_queued(st, e, rules, script)
    # Drains take minutes to become due, so looking once a minute is enough.
    if st.env[e].tick % rules.physics[0].ticks_per_minute == 0:
        _scale_down(st, plan, e, rules)
        empty_lost(st, acc, e)


@kernel
def _accept_coordinated(st: State, plan: Plan, e: int, rules: ClusterRules) -> None:
    for priority in range(plan.nodes.shape[2]):
        for pool in range(plan.nodes.shape[1]):
            if plan.nodes[e, pool, priority] > 0:
                _queue_launch(st, e, pool, plan.nodes[e, pool, priority], priority, rules)


@kernel
def _accept_pending(st: State, plan: Plan, e: int, rules: ClusterRules) -> None:
    """Sum what pending pods need per pool; new requests are accepted at a limited rate.

    In a coordinated pool pods request nothing. They still count as a reason not to scale the pool
    down, and they request nodes as usual when the coordination ends.
    """
    for pool in range(rules.pools.size):
        st.pool[e, pool].pending_cpu = 0
        st.pool[e, pool].pending_memory = 0
    budget = rules.physics[0].requests_per_tick
    for entry in range(st.env[e].queue_length):
        app = st.queue[e, entry].app
        pool = _pool_with_room(st, e, st.status[e, rows.DOMAIN, app], rules)
        if pool != NONE and plan.coordinated[e, pool] == 1:
            st.queue[e, entry].node_request = COORDINATED
        elif st.queue[e, entry].node_request != REQUESTED:
            waited = st.env[e].tick - st.queue[e, entry].since
            # Pods of one burst arrive within the batch window and become one request.
            if budget == 0 or waited < rules.physics[0].batch_ticks:
                continue
            st.queue[e, entry].node_request = REQUESTED
            budget -= 1
        if pool != NONE:
            count = st.queue[e, entry].count
            st.pool[e, pool].pending_cpu += count * st.status[e, rows.CPU_REQUEST, app]
            st.pool[e, pool].pending_memory += count * st.status[e, rows.MEMORY_REQUEST, app]


@kernel
def _pool_with_room(st: State, e: int, domain: int, rules: ClusterRules) -> int:
    """The most preferred pool whose quota has room beyond what is already pending for it."""
    for choice in range(rules.domain_pools.shape[1]):
        pool = rules.domain_pools[domain, choice]
        if pool == NONE:
            break
        quota = rules.pools[pool].end - rules.pools[pool].first - st.pool[e, pool].ready
        if quota * rules.pools[pool].cpu * _PACKING > st.pool[e, pool].pending_cpu:
            return pool
    return NONE


@kernel
def coming_nodes(st: State, e: int, pool: int) -> int:
    """Nodes of a pool that boot or wait for the cloud."""
    coming = st.pool[e, pool].booting
    for entry in range(st.env[e].launch_length):
        if st.launch[e, entry].pool == pool:
            coming += st.launch[e, entry].count
    return coming


@kernel
def _request_shortage(st: State, plan: Plan, e: int, rules: ClusterRules) -> None:
    for pool in range(rules.pools.size):
        if st.pool[e, pool].pending_cpu == 0 or plan.coordinated[e, pool] == 1:
            continue
        # The scarcer of CPU and memory decides.
        nodes = max(
            st.pool[e, pool].pending_cpu / (rules.pools[pool].cpu * _PACKING),
            st.pool[e, pool].pending_memory / (rules.pools[pool].memory * _PACKING),
        )
        # Nodes that are coming will take some of the pending pods.
        short = int(nodes) + 1 - coming_nodes(st, e, pool)
        if short > 0:
            _queue_launch(st, e, pool, short, _OWN_REQUEST_PRIORITY, rules)


@kernel
def _queue_launch(
    st: State, e: int, pool: int, count: int, priority: int, rules: ClusterRules
) -> None:
    """Queue a node request, cut to the pool's quota.

    It joins the last entry if that has the same pool and priority, or any such entry when the
    queue is full.
    """
    slots = rules.pools[pool].end - rules.pools[pool].first
    count = min(count, slots - st.pool[e, pool].ready - coming_nodes(st, e, pool))
    if count <= 0:
        return
    for entry in range(st.env[e].launch_length):
        same = st.launch[e, entry].pool == pool and st.launch[e, entry].priority == priority
        last = entry == st.env[e].launch_length - 1
        if same and (last or st.env[e].launch_length == st.launch.shape[1]):
            st.launch[e, entry].count += count
            return
    entry = st.env[e].launch_length
    if entry < st.launch.shape[1]:
        st.launch[e, entry].pool = pool
        st.launch[e, entry].count = count
        st.launch[e, entry].priority = priority
        st.env[e].launch_length = entry + 1


@kernel
def _launch_queued(st: State, e: int, rules: ClusterRules, script: Script) -> None:
    """Start as many nodes as the cloud allows: by priority, then oldest request first."""
    limit = rules.physics[0].launches_per_tick * _MAX_SAVED_TOKENS_TICKS
    st.env[e].launch_tokens = min(
        limit, st.env[e].launch_tokens + rules.physics[0].launches_per_tick
    )
    while st.env[e].launch_tokens >= 1.0:
        entry = _most_urgent(st, e)
        if entry == NONE:
            return
        node = _free_slot(st, e, st.launch[e, entry].pool, rules)
        # No free slot (lost nodes keep theirs until they are emptied): drop the request.
        if node == NONE:
            st.launch[e, entry].count = 0
        else:
            launch(st, e, node, rules, script)
            st.env[e].launch_tokens -= 1.0
            st.launch[e, entry].count -= 1
        if st.launch[e, entry].count == 0:
            _remove_launch(st, e, entry)


@kernel
def _most_urgent(st: State, e: int) -> int:
    best = NONE
    for entry in range(st.env[e].launch_length):
        # Strictly lower: among equals the oldest request wins.
        if best == NONE or st.launch[e, entry].priority < st.launch[e, best].priority:
            best = entry
    return best


@kernel
def _remove_launch(st: State, e: int, entry: int) -> None:
    for k in range(entry, st.env[e].launch_length - 1):
        st.launch[e, k].pool = st.launch[e, k + 1].pool
        st.launch[e, k].count = st.launch[e, k + 1].count
        st.launch[e, k].priority = st.launch[e, k + 1].priority
    st.env[e].launch_length -= 1


@kernel
def _free_slot(st: State, e: int, pool: int, rules: ClusterRules) -> int:
    for node in range(rules.pools[pool].first, rules.pools[pool].end):
        if st.node[e, node].state == NODE_ABSENT:
            return node
    return NONE


@kernel
def _scale_down(st: State, plan: Plan, e: int, rules: ClusterRules) -> None:
    """Drain nodes that are under-used for long, if nothing waits and other nodes have room."""
    tick, physics = st.env[e].tick, rules.physics[0]
    # One limit for all pools, as the Cluster Autoscaler deletes nodes.
    drains = physics.drains_per_minute
    for pool in range(rules.pools.size):
        first, end, cpu = rules.pools[pool].first, rules.pools[pool].end, rules.pools[pool].cpu
        free_cpu, since = st.room[e, ROOM_CPU, first:end], st.underused_since[e, first:end]
        free_memory = st.room[e, ROOM_MEMORY, first:end]
        # A pool that needs or gets nodes is not scaled down, however idle single nodes are.
        busy = st.pool[e, pool].pending_cpu > 0 or coming_nodes(st, e, pool) > 0
        _track_underused(free_cpu, free_memory, rules.pools[pool], busy, physics, tick, since)
        spare, spare_memory = sum_room(free_cpu), sum_room(free_memory)
        memory = rules.pools[pool].memory
        for slot in range(since.size):
            due = since[slot] != NONE and tick - since[slot] >= physics.low_ticks
            if not due or drains == 0 or st.pool[e, pool].ready <= plan.keep[e, pool]:
                continue
            used, used_memory = cpu - free_cpu[slot], memory - free_memory[slot]
            # Empty nodes go at once; others only if their pods fit elsewhere with a margin.
            fits = used * _DRAIN_MARGIN < spare - free_cpu[slot]
            fits_memory = used_memory * _DRAIN_MARGIN < spare_memory - free_memory[slot]
            if used == 0 or (fits and fits_memory):
                lose(st, e, first + slot, rules)
                # Its free room is gone, and its pods use up room elsewhere.
                spare -= cpu
                spare_memory -= memory
                drains -= 1


@kernel
def sum_room(free: I32) -> int:
    """Free room of the ready nodes together; others have -1."""
    total = 0
    for node in range(free.size):
        total += max(np.int32(0), free[node])
    return total


@kernel
def _track_underused(
    free_cpu: I32,
    free_memory: I32,
    pool: Record,
    busy: bool,
    physics: Record,
    tick: int,
    since: I32,
) -> None:
    """Update since when nodes are under-used in CPU and memory."""
    for slot in range(since.size):
        free = min(free_cpu[slot] / pool.cpu, free_memory[slot] / pool.memory)
        under = not busy and free_cpu[slot] >= 0 and 1.0 - free < physics.low_use
        begun = np.int32(tick) if since[slot] == NONE else since[slot]
        since[slot] = begun if under else NONE
