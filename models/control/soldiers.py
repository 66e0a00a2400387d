"""The Soldiers of any number of domains in one tick, and the actuator's rules on what they wish.

A Soldier knows its briefing and its own apps. With the apps of one domain or of all, it decides
the same for each, bit for bit: in the simulator all Soldiers run at once, as services each runs
in a process of its own.
"""

from typing import NamedTuple

import numpy as np

from models.cluster.arrays import F32, F64, I8, I32, MILLI
from models.cluster.inventory import Inventory
from models.cluster.observation import CPU_REQUEST, DOMAIN, MEMORY_REQUEST, PENDING, REPLICAS
from models.cluster.plan import Plan
from models.control.budget import Directive, allowed
from models.control.change_history import (
    ChangeHistory,
    Workspace,
    cool_down_ticks,
    start_history,
    workspace,
)
from models.control.demand import AppSignals
from models.control.parameters import Parameters, Parts
from models.control.projection import MILLICORES
from models.control.report import WANTED, Report, as_report, empty_sums, sum_up, unseen_seconds
from models.control.residual import scale_need
from models.control.safety import Bounds, enforce_plan, take_stock
from models.control.sizing import (
    MODEST_S,
    WINDOW_MIN,
    Damping,
    FirstSizes,
    Memory,
    give_way,
    need_pods,
    remember_need,
    start_soldiers,
    want,
    wish_sizes,
)
from models.features.table import APP
from models.jit import kernel

_MISSING = APP.at("missing")


class SoldiersState(NamedTuple):
    """What the Soldiers remember, updated in place. E environments, D domains."""

    memory: Memory
    history: ChangeHistory
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
    sensed: AppSignals,
    stance: Stance,
    state: SoldiersState,
    settled: Settled,
    work: Workspace,
    plan: Plan,
    sums: F64,
) -> None:
    """One environment after the other."""
    for e in range(tick.size):
        now, seen, load, history = status[e], sensed.features[e], sensed.load[e], state.history
        take_stock(now, tick[e], stance.may_hold[e], history.sizing[e], work)
        _know_needs(sensed, stance, state.memory, settled, now[DOMAIN], tick[e], e)
        _wish(now, seen, load, stance, state, settled, work, plan, tick[e], sums[e], e)
        state.overruns[e] += enforce_plan(
            plan, e, now, seen[_MISSING], load, tick[e], settled.bounds, history, work
        )
        need, growth = state.memory.need[e], stance.growth[e]
        sum_up(seen, load, need, now, growth, settled.unseen, sums[e])


@kernel
def _know_needs(
    sensed: AppSignals,
    stance: Stance,
    memory: Memory,
    settled: Settled,
    domain: I32,
    tick: int,
    e: int,
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
        state.history.rested[e], stance.urgency[e], damping, tick, replicas, reason,
    )  # fmt: skip
    _sum_wanted(replicas, most, size, domain, sums[WANTED])
    give_way(
        seen, load, status[PENDING], size, domain, current, state.history.rested[e], work.order,
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


class Soldiers:
    """Decide for all environments of some apps of one cluster."""

    def __init__(self, inventory: Inventory, parameters: Parameters, parts: Parts) -> None:
        priority = inventory.priority
        self._inventory, self._parts = inventory, parts
        self._target = parameters.target(priority)
        self._surge = parameters.surge_level(priority)
        self._foreseen = parameters.foreseen_level(priority)
        self._settled = _settle(inventory, parameters, parts)
        self._work = workspace(priority.size, inventory.domain.size)

    def start(self, status: I32) -> SoldiersState:
        """A memory that has seen nothing but the sizes of the pods, `known` [E, STATUS, A]."""
        environments, _, apps = status.shape
        domains = self._inventory.priority.size
        return SoldiersState(
            memory=start_soldiers(environments, apps),
            history=start_history(environments, apps, domains, self._inventory.tick_s),
            first=FirstSizes(status[:, CPU_REQUEST].copy(), status[:, MEMORY_REQUEST].copy()),
            epoch=np.full(environments, -1, np.int32),
            release=np.zeros((environments, domains)),
            overruns=np.zeros(environments, np.int32),
        )

    def step(
        self,
        tick: I32,
        status: I32,
        sensed: AppSignals,
        directive: Directive,
        state: SoldiersState,
        plan: Plan,
        need_factor: F32 | None = None,
    ) -> Report:
        """Fill replicas, sizes and reasons of the plan, and report to the Commander.

        `known` [E, STATUS, A] is what the API server answers; `need_factor` [E, A] or [E, 0] a
        policy's.
        """
        self._take_orders(tick, directive, state)
        stance = self._stance(tick, directive, need_factor)
        sums = empty_sums(tick.size, self._inventory.priority.size)
        command(tick, status, sensed, stance, state, self._settled, self._work, plan, sums)
        return as_report(sums)

    def _take_orders(self, tick: I32, directive: Directive, state: SoldiersState) -> None:
        """What is to be given back is said once in each briefing; an expired one says nothing."""
        budget = directive.budget
        fresh, expired = budget.epoch > state.epoch, tick > budget.valid_until_tick
        state.release[fresh] = MILLI * directive.release[fresh] * float(self._parts.budget)
        state.release[expired] = 0.0
        np.maximum(state.epoch, budget.epoch, out=state.epoch)

    def _stance(self, tick: I32, directive: Directive, need_factor: F32 | None) -> Stance:
        budget = directive.budget
        more, may_hold = 1.0 + budget.headroom, allowed(budget, tick)
        if need_factor is None:
            need_factor = np.ones((tick.size, 0), np.float32)
        return Stance(
            per_target=(more / self._target).astype(np.float32),
            per_surge=(more / self._surge).astype(np.float32),
            per_foreseen=(more / self._foreseen).astype(np.float32),
            growth=directive.growth.astype(np.float32),
            urgency=budget.urgency.astype(np.float32),
            may_hold=may_hold if self._parts.budget else np.full_like(may_hold, np.inf),
            factor=need_factor,
        )


def _settle(inventory: Inventory, parameters: Parameters, parts: Parts) -> Settled:
    rest = cool_down_ticks(inventory.tick_s) if parts.damping else 0
    return Settled(
        Bounds(inventory.min_replicas, inventory.max_replicas, rest),
        parameters.damping(inventory.priority, parts),
        MODEST_S // inventory.tick_s,
        max(1, 60 // inventory.tick_s),
        parts.vertical,
        unseen_seconds(inventory.tick_s),
        (inventory.priority < inventory.priority.max()).astype(np.int8),
    )
