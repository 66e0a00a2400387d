"""All Soldiers of all environments in one tick, and the actuator's rules on what they wish."""

from typing import NamedTuple

import numpy as np

from models.control.actuator import (
    Restraint,
    Workspace,
    cool_down_ticks,
    enforce,
    held_sizes,
    left_of_blast,
    left_of_budget,
    overruns,
    start_restraint,
    without_surge,
)
from models.control.heuristic.demand import Demand, start_demand
from models.control.heuristic.parameters import Parameters, Parts
from models.control.heuristic.residual import scale_need
from models.control.heuristic.soldier import (
    MODEST_S,
    Damping,
    Memory,
    give_way,
    need_pods,
    remember_need,
    start_soldiers,
    want,
)
from models.control.vertical import FirstSizes, resize
from models.features.table import APP
from models.jit import copy_row, kernel
from models.sim.apps import F32, F64, I8, I32
from models.sim.inventory import Inventory
from models.sim.observe import Observation
from models.sim.plan import Plan
from models.sim.state import ACTIVE, CPU_REQUEST, DOMAIN, MEMORY_REQUEST, PENDING, REPLICAS

_MISSING = APP.at("missing")
MILLI = 1000.0


class Sight(NamedTuple):
    """What the Soldiers see in a tick. E environments, A apps."""

    seen: F32
    """[E, APP, A] features."""
    known: I32
    """[E, KNOWN, A] what the API server answers."""
    tick: I32
    """[E]."""
    slot: int
    """Of the minute in the window of needs."""
    begins: bool
    """Whether the minute begins."""


class Stance(NamedTuple):
    """What a domain goes by until the next budget. E environments, D domains, A apps."""

    per_target: F32
    """[E, D] pods per fully used pod of the usual load: (1 + headroom) / target."""
    per_surge: F32
    """[E, D] the same for a load beyond the usual."""
    per_foreseen: F32
    """[E, D] the same for a load that is foreseen."""
    urgency: F32
    """[E, D]."""
    allowed: F64
    """[E, D] millicores that each domain may hold: budget and overdraft, or the floor when the
    budget has expired."""
    factor: F32
    """[E, A] a policy's factor on each app's need; [E, 0] when there is none."""


class Squad(NamedTuple):
    """What the Soldiers and the actuator remember, updated in place."""

    demand: Demand
    memory: Memory
    restraint: Restraint
    first: FirstSizes
    wanted: F64
    """[E, D] cores that the Soldiers would hold without limits."""
    release: F64
    """[E, D] millicores still to be given back in this minute."""
    overruns: I32
    """[E] increases beyond a budget so far: none, if all is well."""


class Settled(NamedTuple):
    """Constants of the kernels."""

    least: I32
    most: I32
    damping: Damping
    cool_down: int
    modest: int
    vertical: bool
    highest: I8
    """[D] 1 for the highest priority."""
    patient: I8
    """[D] 0 for the lowest priority: its apps give way before they have rested."""


def settle(inventory: Inventory, parameters: Parameters, parts: Parts) -> Settled:
    """What does not change while a cluster runs."""
    return Settled(
        inventory.min_replicas,
        inventory.max_replicas,
        parameters.damping(inventory.priority, parts),
        cool_down_ticks(inventory.tick_s) if parts.damping else 0,
        MODEST_S // inventory.tick_s,
        parts.vertical,
        (inventory.priority == inventory.priority.min()).astype(np.int8),
        (inventory.priority < inventory.priority.max()).astype(np.int8),
    )


def start_squad(observation: Observation, inventory: Inventory) -> Squad:
    """A memory that has seen nothing but the sizes of the pods."""
    environments, apps = observation.missing.shape
    domains, known = inventory.priority.size, observation.known
    return Squad(
        demand=start_demand(observation),
        memory=start_soldiers(environments, apps),
        restraint=start_restraint(environments, apps, domains, inventory.tick_s),
        first=FirstSizes(known[:, CPU_REQUEST].copy(), known[:, MEMORY_REQUEST].copy()),
        wanted=np.zeros((environments, domains)),
        release=np.zeros((environments, domains)),
        overruns=np.zeros(environments, np.int32),
    )


@kernel
def command(
    sight: Sight, stance: Stance, squad: Squad, settled: Settled, work: Workspace, plan: Plan
) -> None:
    """Fill the plan, one environment after the other."""
    for e in range(sight.tick.size):
        known = sight.known[e]
        held_sizes(known[ACTIVE], known[CPU_REQUEST], squad.restraint.sizing[e], work.size)
        without_surge(stance.allowed[e], known, work.size, work.limit)
        _wish(sight, stance, squad, settled, work, plan, e)
        _restrain(sight, squad, settled, work, plan, e)
        _resize(sight, squad, settled, work, plan, e)
        _count_overruns(sight, squad, work, plan, e)


@kernel
def _wish(
    sight: Sight,
    stance: Stance,
    squad: Squad,
    settled: Settled,
    work: Workspace,
    plan: Plan,
    e: int,
) -> None:
    """Replicas as each Soldier would have them, less what it was told to give back."""
    seen, known, tick, memory = sight.seen[e], sight.known[e], sight.tick[e], squad.memory
    load, need, domain, current = (
        squad.demand.load[e],
        memory.need[e],
        known[DOMAIN],
        known[REPLICAS],
    )
    replicas, reason, damping = plan.replicas[e], plan.reason[e], settled.damping
    need_pods(
        load, squad.demand.usual[e], memory.foreseen[e], domain, stance.per_target[e],
        stance.per_surge[e], stance.per_foreseen[e], need,
    )  # fmt: skip
    scale_need(need, stance.factor[e])
    remember_need(need, memory.highest[e, sight.slot], sight.begins)
    want(
        seen, load, need, memory.highest[e], memory.modest_until[e], domain, current,
        stance.urgency[e], damping, tick, replicas, reason,
    )  # fmt: skip
    _sum_wanted(replicas, settled.most, work.size, domain, squad.wanted[e])
    give_way(
        seen, load, known[PENDING], work.size, domain, current, squad.restraint.rested[e],
        settled.patient, damping, tick, settled.modest, squad.release[e],
        memory.modest_until[e], replicas, reason,
    )  # fmt: skip


@kernel
def _restrain(
    sight: Sight, squad: Squad, settled: Settled, work: Workspace, plan: Plan, e: int
) -> None:
    """Cut the wishes to what the actuator allows."""
    known, restraint = sight.known[e], squad.restraint
    enforce(
        plan.replicas[e], plan.reason[e], known[REPLICAS], known[PENDING], work.size,
        known[DOMAIN], sight.seen[e, _MISSING], squad.demand.load[e], sight.tick[e],
        settled.cool_down, settled.least, settled.most, work.limit, restraint.rested[e],
        restraint.decreased[e], work,
    )  # fmt: skip


@kernel
def _resize(
    sight: Sight, squad: Squad, settled: Settled, work: Workspace, plan: Plan, e: int
) -> None:
    """Sizes of the pods, with what budget and blast radius have left."""
    known, decreased = sight.known[e], squad.restraint.decreased[e]
    domain, replicas, cpu = known[DOMAIN], plan.replicas[e], known[CPU_REQUEST]
    left_of_budget(replicas, work.size, domain, work.limit, work.room)
    left_of_blast(known[REPLICAS], work.size, domain, decreased, work.held)
    resize(
        sight.seen[e], squad.memory.need[e], replicas, settled.most, cpu, known[MEMORY_REQUEST],
        domain, squad.first.cpu[e], squad.first.memory[e], work.room, work.held,
        decreased[sight.tick[e] % decreased.shape[0]], plan.cpu[e], plan.memory[e],
        plan.reason[e], settled.vertical,
    )  # fmt: skip
    copy_row(plan.cpu[e], squad.restraint.sizing[e])


@kernel
def _count_overruns(sight: Sight, squad: Squad, work: Workspace, plan: Plan, e: int) -> None:
    known = sight.known[e]
    held_sizes(known[ACTIVE], known[CPU_REQUEST], squad.restraint.sizing[e], work.resized)
    squad.overruns[e] += overruns(
        known[REPLICAS], work.size, plan.replicas[e], work.resized, known[DOMAIN], work.limit,
        work.held, work.room,
    )  # fmt: skip


@kernel
def _sum_wanted(replicas: I32, most: I32, size: I32, domain: I32, wanted: F64) -> None:
    """[D] cores of what was wished, as far as the declared maxima go."""
    for place in range(wanted.size):
        wanted[place] = 0.0
    for app in range(replicas.size):
        wanted[domain[app]] += min(replicas[app], most[app]) * size[app] / MILLI
