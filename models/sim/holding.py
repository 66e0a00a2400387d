"""Who holds how much of the ready CPU, in the whole cluster and in some of its pools."""

from models.cluster.arrays import I8
from models.cluster.observation import CPU_REQUEST, DOMAIN
from models.jit import kernel
from models.sim.layout import Rules
from models.sim.state import BOUND, State


@kernel
def held_share(st: State, e: int, rules: Rules, priority: int) -> float:
    """Share of the ready allocatable CPU that pods of a priority are bound to."""
    held = 0.0
    for app in range(st.status.shape[2]):
        if rules.domains[st.status[e, DOMAIN, app]].priority == priority:
            held += st.hidden[e, BOUND, app] * st.status[e, CPU_REQUEST, app]
    return held / max(1.0, ready_capacity(st, e, rules)[0])


@kernel
def held_share_of_pools(st: State, e: int, rules: Rules, priority: int, pools: I8) -> float:
    """The same over the pools marked in `pools`."""
    held = 0.0
    there = 0.0
    for pool in range(pools.size):
        if pools[pool] == 0:
            continue
        there += float(st.pool[e, pool].ready) * rules.pools[pool].cpu
        for app in range(st.status.shape[2]):
            if rules.domains[st.status[e, DOMAIN, app]].priority == priority:
                held += float(st.placed[e, pool, app]) * st.status[e, CPU_REQUEST, app]
    return held / max(1.0, there)


@kernel
def ready_capacity(st: State, e: int, rules: Rules) -> tuple[float, float]:
    """Allocatable millicores and MiB of all ready nodes."""
    cpu = 0.0
    memory = 0.0
    for pool in range(rules.pools.size):
        cpu += float(st.pool[e, pool].ready) * rules.pools[pool].cpu
        memory += float(st.pool[e, pool].ready) * rules.pools[pool].memory
    return cpu, memory
