"""The node autoscaler and the cloud behind it.

Pods that do not fit ask for nodes, one request per app, worked off at a limited rate; or, in the
pools a plan coordinates, a controller places one request by priority and the pods do not ask.
Either way the cloud starts only so many nodes per second, and a boot takes longer the more nodes
boot. A request that was accepted cannot be taken back.
"""

import numpy as np

from models.cluster.arrays import I32
from models.cluster.observation import CPU_REQUEST, DOMAIN, MEMORY_REQUEST
from models.cluster.plan import Plan
from models.cluster.records import Record
from models.jit import kernel
from models.sim.accounting import Accounts
from models.sim.describe.overlays import Script
from models.sim.layout import Rules
from models.sim.nodes import empty_lost, finish_boots, launch, lose
from models.sim.state import HEARD, NODE_ABSENT, NONE, ROOM_CPU, ROOM_MEMORY, SPOKEN_FOR, State

_PACKING = 0.95
"""How full the provisioner expects to pack a node it asks for."""
_INDEPENDENT = 2
"""Independent requests carry no priority: they stand in the middle, first come first served."""
_DRAIN_MARGIN = 1.3
_MAX_SAVED_TOKENS_TICKS = 2.0


@kernel
def provision(st: State, acc: Accounts, plan: Plan, e: int, rules: Rules, script: Script) -> None:
    """One tick of the provisioner."""
    finish_boots(st, e, rules)
    _accept_coordinated(st, plan, e, rules)
    _hear_pending(st, plan, e, rules)
    _ask_for_shortage(st, plan, e, rules)
    _launch_queued(st, e, rules, script)
    if st.env[e].tick % rules.physics[0].ticks_per_minute == 0:
        _scale_down(st, plan, e, rules)
        empty_lost(st, acc, e)


@kernel
def _accept_coordinated(st: State, plan: Plan, e: int, rules: Rules) -> None:
    for priority in range(plan.nodes.shape[2]):
        for pool in range(plan.nodes.shape[1]):
            if plan.nodes[e, pool, priority] > 0:
                _queue_launch(st, e, pool, plan.nodes[e, pool, priority], priority, rules)


@kernel
def _hear_pending(st: State, plan: Plan, e: int, rules: Rules) -> None:
    """Sum what pending pods need per pool; new entries are heard at a limited rate.

    In a coordinated pool nobody has to be heard: the pods count only as a reason not to scale
    it down, and stand in line as before when the coordination ends.
    """
    for pool in range(rules.pools.size):
        st.pool[e, pool].asked_cpu = 0
        st.pool[e, pool].asked_memory = 0
    budget = rules.physics[0].requests_per_tick
    for entry in range(st.env[e].queue_length):
        app = st.queue[e, entry].app
        pool = _pool_with_room(st, e, st.status[e, DOMAIN, app], rules)
        if pool != NONE and plan.coordinated[e, pool] == 1:
            st.queue[e, entry].asked = SPOKEN_FOR
        elif st.queue[e, entry].asked != HEARD:
            waited = st.env[e].tick - st.queue[e, entry].since
            if budget == 0 or waited < rules.physics[0].batch_ticks:
                continue
            st.queue[e, entry].asked = HEARD
            budget -= 1
        if pool != NONE:
            count = st.queue[e, entry].count
            st.pool[e, pool].asked_cpu += count * st.status[e, CPU_REQUEST, app]
            st.pool[e, pool].asked_memory += count * st.status[e, MEMORY_REQUEST, app]


@kernel
def _pool_with_room(st: State, e: int, domain: int, rules: Rules) -> int:
    """The preferred pool whose quota is not used up; what is asked for already counts."""
    for choice in range(rules.domain_pools.shape[1]):
        pool = rules.domain_pools[domain, choice]
        if pool == NONE:
            break
        quota = rules.pools[pool].end - rules.pools[pool].first - st.pool[e, pool].ready
        if quota * rules.pools[pool].cpu * _PACKING > st.pool[e, pool].asked_cpu:
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
def _ask_for_shortage(st: State, plan: Plan, e: int, rules: Rules) -> None:
    for pool in range(rules.pools.size):
        if st.pool[e, pool].asked_cpu == 0 or plan.coordinated[e, pool] == 1:
            continue
        nodes = max(
            st.pool[e, pool].asked_cpu / (rules.pools[pool].cpu * _PACKING),
            st.pool[e, pool].asked_memory / (rules.pools[pool].memory * _PACKING),
        )
        short = int(nodes) + 1 - coming_nodes(st, e, pool)
        if short > 0:
            _queue_launch(st, e, pool, short, _INDEPENDENT, rules)


@kernel
def _queue_launch(st: State, e: int, pool: int, count: int, priority: int, rules: Rules) -> None:
    """Append a node request, cut to the pool's quota; a full queue joins the last entry."""
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
def _launch_queued(st: State, e: int, rules: Rules, script: Script) -> None:
    """Start as many nodes as the cloud allows, urgent requests first, then the oldest."""
    limit = rules.physics[0].launches_per_tick * _MAX_SAVED_TOKENS_TICKS
    st.env[e].launch_tokens = min(
        limit, st.env[e].launch_tokens + rules.physics[0].launches_per_tick
    )
    while st.env[e].launch_tokens >= 1.0:
        entry = _most_urgent(st, e)
        if entry == NONE:
            return
        node = _free_slot(st, e, st.launch[e, entry].pool, rules)
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
def _free_slot(st: State, e: int, pool: int, rules: Rules) -> int:
    for node in range(rules.pools[pool].first, rules.pools[pool].end):
        if st.node[e, node].state == NODE_ABSENT:
            return node
    return NONE


@kernel
def _scale_down(st: State, plan: Plan, e: int, rules: Rules) -> None:
    """Remove nodes that were under-used for long, where nothing waits and others have room."""
    tick, physics = st.env[e].tick, rules.physics[0]
    drains = physics.drains_per_minute
    for pool in range(rules.pools.size):
        first, end, cpu = rules.pools[pool].first, rules.pools[pool].end, rules.pools[pool].cpu
        free_cpu, low = st.room[e, ROOM_CPU, first:end], st.low[e, first:end]
        free_memory = st.room[e, ROOM_MEMORY, first:end]
        busy = st.pool[e, pool].asked_cpu > 0 or coming_nodes(st, e, pool) > 0
        _note_low(free_cpu, free_memory, rules.pools[pool], busy, physics, tick, low)
        spare = sum_room(free_cpu)
        for slot in range(low.size):
            due = low[slot] != NONE and tick - low[slot] >= physics.low_ticks
            if not due or drains == 0 or st.pool[e, pool].ready <= plan.keep[e, pool]:
                continue
            free = free_cpu[slot]
            used = cpu - free
            if used == 0 or used * _DRAIN_MARGIN < spare - free:
                lose(st, e, first + slot, rules)
                spare -= cpu
                drains -= 1


@kernel
def sum_room(free: I32) -> int:
    """What the ready ones among some nodes have free together."""
    total = 0
    for node in range(free.size):
        total += max(np.int32(0), free[node])
    return total


@kernel
def _note_low(
    free_cpu: I32, free_memory: I32, pool: Record, busy: bool, physics: Record, tick: int, low: I32
) -> None:
    """Note since when nodes are under-used in CPU and memory; what is not ready has no room."""
    for slot in range(low.size):
        free = min(free_cpu[slot] / pool.cpu, free_memory[slot] / pool.memory)
        under = not busy and free_cpu[slot] >= 0 and 1.0 - free < physics.low_use
        since = np.int32(tick) if low[slot] == NONE else low[slot]
        low[slot] = since if under else NONE
