"""The kernels of a tick of Soldiers: from what they sense to the plan and the report."""

from typing import NamedTuple

import numpy as np

from models.cluster.arrays import F32, F64, I8, I32, MILLI
from models.cluster.observation import CPU_REQUEST, DOMAIN, MEMORY_REQUEST, PENDING, REPLICAS
from models.cluster.plan import Plan
from models.control.actuator import Bounds, enforce_plan, take_stock
from models.control.heuristic.report import WANTED, sum_up
from models.control.heuristic.residual import scale_need
from models.control.heuristic.sensing import Sensed
from models.control.heuristic.soldier import (
    WINDOW_MIN,
    Damping,
    Memory,
    give_way,
    need_pods,
    remember_need,
    want,
)
from models.control.projection import MILLICORES
from models.control.restraint import Restraint, Workspace
from models.control.vertical import FirstSizes, wish_sizes
from models.features.table import APP
from models.jit import kernel

_MISSING = APP.at("missing")


class SoldiersState(NamedTuple):
    """What the Soldiers remember, updated in place. E environments, D domains."""

    memory: Memory
    restraint: Restraint
    first: FirstSizes
    epoch: I32
    """[E] of the briefing that they go by."""
    release: F64
    """[E, D] millicores still to be given back by it."""
    overruns: I32
    """[E] increases beyond a budget so far: none, if all is well."""


class Stance(NamedTuple):
    """A briefing as the kernels take it. E environments, D domains, A apps."""

    per_target: F32
    """[E, D] pods per fully used pod of the usual load: (1 + headroom) / target."""
    per_surge: F32
    """[E, D] the same for a load beyond the usual."""
    per_foreseen: F32
    """[E, D] the same for a load that is foreseen."""
    growth: F32
    """[E, D]."""
    urgency: F32
    """[E, D]."""
    may_hold: F64
    """[E, 2, D] millicores and MiB."""
    factor: F32
    """[E, A] a policy's factor on each app's need; [E, 0] when there is none."""


class Settled(NamedTuple):
    """Constants of the kernels."""

    bounds: Bounds
    damping: Damping
    modest: int
    """Ticks for which an app that gave way stays modest."""
    minute: int
    """Ticks of one."""
    vertical: bool
    unseen: np.float32
    patient: I8
    """[D] 0 for the lowest priority: its apps give way before they have rested."""


@kernel
def command(
    tick: I32,
    status: I32,
    sensed: Sensed,
    stance: Stance,
    state: SoldiersState,
    settled: Settled,
    work: Workspace,
    plan: Plan,
    sums: F64,
) -> None:
    """One environment after the other."""
    for e in range(tick.size):
        now, seen, load, restraint = status[e], sensed.seen[e], sensed.load[e], state.restraint
        take_stock(now, tick[e], stance.may_hold[e], restraint.sizing[e], work)
        _know_needs(sensed, stance, state.memory, settled, now[DOMAIN], tick[e], e)
        _wish(now, seen, load, stance, state, settled, work, plan, tick[e], sums[e], e)
        state.overruns[e] += enforce_plan(
            plan, e, now, seen[_MISSING], load, tick[e], settled.bounds, restraint, work
        )
        need, growth = state.memory.need[e], stance.growth[e]
        sum_up(seen, load, need, now, growth, settled.unseen, sums[e])


@kernel
def _know_needs(
    sensed: Sensed, stance: Stance, memory: Memory, settled: Settled, domain: I32, tick: int, e: int
) -> None:
    """Pods that the apps need now, and the highest need of the minute."""
    need, minute = memory.need[e], tick // settled.minute
    need_pods(
        sensed.load[e], sensed.usual[e], stance.growth[e], domain, stance.per_target[e],
        stance.per_surge[e], stance.per_foreseen[e], need,
    )  # fmt: skip
    scale_need(need, stance.factor[e])
    remember_need(need, memory.highest[e, minute % WINDOW_MIN], memory.minute[e] != minute)
    memory.minute[e] = minute


@kernel
def _wish(
    status: I32,
    seen: F32,
    load: F32,
    stance: Stance,
    state: SoldiersState,
    settled: Settled,
    work: Workspace,
    plan: Plan,
    tick: int,
    sums: F64,
    e: int,
) -> None:
    """Replicas and sizes as each Soldier would have them, less what it was told to give back."""
    memory, damping, most = state.memory, settled.damping, settled.bounds.most
    need, modest_until = memory.need[e], memory.modest_until[e]
    domain, current, size = status[DOMAIN], status[REPLICAS], work.size[MILLICORES]
    replicas, reason = plan.replicas[e], plan.reason[e]
    want(
        seen, load, need, memory.highest[e], modest_until, domain, current,
        state.restraint.rested[e], stance.urgency[e], damping, tick, replicas, reason,
    )  # fmt: skip
    _sum_wanted(replicas, most, size, domain, sums[WANTED])
    give_way(
        seen, load, status[PENDING], size, domain, current, state.restraint.rested[e], work.order,
        settled.patient, damping, tick, settled.modest, state.release[e], modest_until, replicas,
        reason,
    )  # fmt: skip
    wish_sizes(
        seen, load, damping.give_way, domain, most, status[CPU_REQUEST], status[MEMORY_REQUEST],
        state.first.cpu[e], state.first.memory[e], settled.vertical, plan.cpu[e], plan.memory[e],
    )  # fmt: skip


@kernel
def _sum_wanted(replicas: I32, most: I32, size: I32, domain: I32, wanted: F64) -> None:
    """[D] cores of what was wished, as far as the declared maxima go."""
    for app in range(replicas.size):
        wanted[domain[app]] += min(replicas[app], most[app]) * size[app] / MILLI
