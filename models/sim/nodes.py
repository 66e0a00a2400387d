"""Launch, boot and loss of nodes. Only this module changes the counts per pool and market."""

from models.cluster.description import MARKETS
from models.jit import kernel
from models.sim.accounting import EVICTED, RESERVED, STOPPED, Accounts
from models.sim.config.script import Script
from models.sim.draws import Purpose, as_uniform, draw, stream
from models.sim.groups import remove_all_on_lost_nodes
from models.sim.rules import ClusterRules
from models.sim.state import (
    NODE_ABSENT,
    NODE_BOOTING,
    NODE_LOST,
    NODE_READY,
    NONE,
    ROOM_CPU,
    ROOM_MEMORY,
    ROOM_PODS,
    State,
)

_BOOT = int(Purpose.NODE_BOOT)
_ON_DEMAND = MARKETS.index("on_demand")
SPOT = MARKETS.index("spot")
_BOOT_JITTER = 0.15
"""Largest relative deviation of a boot time."""


@kernel
def launch(st: State, e: int, node: int, rules: ClusterRules, script: Script) -> None:
    """Start a node in a free slot; from now on it is billed."""
    pool = rules.node_pool[node]
    word = draw(stream(st.env[e].seed, _BOOT), node, 0, st.env[e].tick)
    market = _choose_market(st, e, pool, as_uniform(word), rules)
    # Boots slow each other down; the slow-down saturates with the number of boots.
    busy = float(st.env[e].booting)
    slow = 1.0 + rules.physics[0].boot_contention * busy / (busy + rules.physics[0].contention_half)
    jitter = 1.0 + _BOOT_JITTER * (
        2.0 * as_uniform(draw(stream(st.env[e].seed, _BOOT), node, 1, st.env[e].tick)) - 1.0
    )
    # Fixed at launch: boots that start later don't delay this one.
    ticks = max(1, int(rules.physics[0].boot_s * slow * jitter / rules.physics[0].tick_s + 0.5))
    st.node[e, node].state = NODE_BOOTING
    st.node[e, node].ready = st.env[e].tick + ticks
    st.node[e, node].market = market
    st.node[e, node].zone = _choose_zone(st, e, node, rules, script)
    # A slot may still hold the mark of the node that had it before.
    st.underused_since[e, node] = NONE
    st.pool[e, pool].booting += 1
    st.env[e].booting += 1
    st.pool_market[e, pool, market] += 1


@kernel
def _choose_market(st: State, e: int, pool: int, chance: float, rules: ClusterRules) -> int:
    """Use up the reserved nodes, which are paid for anyway; buy the rest by the pool's shares."""
    if st.pool_market[e, pool, RESERVED] < rules.pools[pool].reserved:
        return RESERVED
    return SPOT if chance < rules.pools[pool].spot_share else _ON_DEMAND


@kernel
def _choose_zone(st: State, e: int, node: int, rules: ClusterRules, script: Script) -> int:
    """The zone of a slot, or the next one while that is lost. Neighbouring slots differ."""
    zones = rules.physics[0].zones
    for step in range(zones):
        zone = (node + step) % zones
        if not zone_is_lost(st, e, zone, script):
            return zone
    return node % zones


@kernel
def make_ready(st: State, e: int, node: int, rules: ClusterRules) -> None:
    """Make a booted node schedulable."""
    pool = rules.node_pool[node]
    st.node[e, node].state = NODE_READY
    st.room[e, ROOM_CPU, node] = rules.pools[pool].cpu
    st.room[e, ROOM_MEMORY, node] = rules.pools[pool].memory
    st.room[e, ROOM_PODS, node] = rules.pools[pool].max_pods
    st.pool[e, pool].booting -= 1
    st.env[e].booting -= 1
    st.pool[e, pool].ready += 1


@kernel
def finish_boots(st: State, e: int, rules: ClusterRules) -> None:
    """Make the nodes ready whose boot is over."""
    if st.env[e].booting == 0:
        return
    for node in range(st.node.shape[1]):
        if st.node[e, node].state == NODE_BOOTING and st.node[e, node].ready <= st.env[e].tick:
            make_ready(st, e, node, rules)


@kernel
def lose(st: State, e: int, node: int, rules: ClusterRules) -> None:
    """Remove a node by drain, reclaim or failure. Call `empty_lost` next to evict its pods."""
    pool = rules.node_pool[node]
    if st.node[e, node].state == NODE_READY:
        st.pool[e, pool].ready -= 1
    elif st.node[e, node].state == NODE_BOOTING:
        st.pool[e, pool].booting -= 1
        st.env[e].booting -= 1
    else:
        return
    # From this tick on it is not billed.
    st.pool_market[e, pool, st.node[e, node].market] -= 1
    st.node[e, node].state = NODE_LOST
    st.env[e].lost += 1


@kernel
def empty_lost(st: State, acc: Accounts, e: int) -> None:
    """Evict the pods of all lost nodes in one pass; reconciling starts them elsewhere."""
    if st.env[e].lost == 0:
        return
    evicted = remove_all_on_lost_nodes(st, e)
    acc.totals[e, EVICTED] += evicted
    acc.totals[e, STOPPED] += evicted
    for node in range(st.node.shape[1]):
        if st.node[e, node].state == NODE_LOST:
            st.node[e, node].state = NODE_ABSENT
            # So that the scheduler's search finds no room here.
            st.room[e, :, node] = NONE
            st.leaving[e, :, :, node] = 0
    st.env[e].lost = 0


@kernel
def zone_is_lost(st: State, e: int, zone: int, script: Script) -> bool:
    """Whether the scenario has taken the zone away at this tick."""
    for k in range(script.zones.shape[1]):
        lost = script.zones[e, k]
        if lost.zone == zone and lost.start <= st.env[e].tick < lost.end:
            return True
    return False
