"""Who holds how much of the ready CPU, in the whole cluster and in some of its pools."""

from models.jit import kernel
from models.sim.apps import I8
from models.sim.layout import Rules
from models.sim.state import BOUND, CPU_REQUEST, DOMAIN, NONE, OLDEST, State


@kernel
def held_share(st: State, e: int, rules: Rules, priority: int) -> float:
    """Share of the ready allocatable CPU that pods of a priority are bound to."""
    held = 0.0
    for app in range(st.known.shape[2]):
        if rules.domains[st.known[e, DOMAIN, app]].priority == priority:
            held += st.hidden[e, BOUND, app] * st.known[e, CPU_REQUEST, app]
    return held / max(1.0, ready_capacity(st, e, rules)[0])


@kernel
def held_share_of_pools(st: State, e: int, rules: Rules, priority: int, pools: I8) -> float:
    """The same over the pools marked in `pools`.

    Nobody keeps count of pods per pool, so the groups are walked: not for every tick.
    """
    held = 0.0
    for app in range(st.known.shape[2]):
        if rules.domains[st.known[e, DOMAIN, app]].priority == priority:
            held += _pods_in_pools(st, e, app, rules, pools) * st.known[e, CPU_REQUEST, app]
    there = 0.0
    for pool in range(pools.size):
        there += float(pools[pool]) * st.pool[e, pool].ready * rules.pools[pool].cpu
    return held / max(1.0, there)


@kernel
def _pods_in_pools(st: State, e: int, app: int, rules: Rules, pools: I8) -> int:
    pods = 0
    group = st.hidden[e, OLDEST, app]
    while group != NONE:
        if pools[rules.node_pool[st.group[e, group].node]] == 1:
            pods += st.group[e, group].count
        group = st.group[e, group].newer
    return pods


@kernel
def ready_capacity(st: State, e: int, rules: Rules) -> tuple[float, float]:
    """Allocatable millicores and MiB of all ready nodes."""
    cpu = 0.0
    memory = 0.0
    for pool in range(rules.pools.size):
        cpu += float(st.pool[e, pool].ready) * rules.pools[pool].cpu
        memory += float(st.pool[e, pool].ready) * rules.pools[pool].memory
    return cpu, memory
