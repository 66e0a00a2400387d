"""The Soldiers of any number of domains in one tick, with the safety rules on what they wish.

A Soldier knows its directive and its own apps. It decides the same for each app, bit for bit,
with the apps of one domain or of all: in the simulator all Soldiers run at once, as services each
one runs in a process of its own.
"""

from typing import NamedTuple

import numpy as np

from models.cluster import rows
from models.cluster.arrays import F32, F64, I8, I32, MILLI, Mask
from models.cluster.inventory import Inventory
from models.cluster.plan import Plan
from models.control.budget import Budget, Directive, allowed
from models.control.change_history import (
    ChangeHistory,
    FirstSizes,
    Workspace,
    cool_down_ticks,
    prepare_workspace,
    start_history,
    workspace,
)
from models.control.demand import AppSignals
from models.control.parameters import Parameters, Parts
from models.control.projection import MILLICORES
from models.control.report import (
    WANTED,
    Report,
    as_report,
    empty_sums,
    sum_apps,
    unseen_seconds,
)
from models.control.residual import AppFactors, no_factors
from models.control.safety import Apps, Bounds, Wishes, enforce
from models.control.sizing import (
    Damping,
    NeedLevels,
    SizingMemory,
    compute_need,
    enlarge,
    give_way,
    keep_sizes,
    start_sizing_memory,
    wish_replicas,
    wish_sizes,
)
from models.control.triage import Triage, serve_most_requests, triage_scratch
from models.features.table import APP
from models.forecaster.port import ticks_per_minute
from models.jit import kernel

_MISSING, _RPS, _RESTARTS = APP.at("missing"), APP.at("rps"), APP.at("restarts")


class SoldiersState(NamedTuple):
    """What the Soldiers remember, updated in place. E environments, D domains."""

    memory: SizingMemory
    history: ChangeHistory
    first: FirstSizes
    epoch: I32
    """[E] of the directive in force."""
    release: F64
    """[E, D] millicores that it still asks to release."""
    overruns: I32
    """[E] increases beyond a budget so far; 0 unless a rule is broken."""


class SoldierInputs(NamedTuple):
    """What the kernel reads of a tick. E environments, D domains, A apps."""

    tick: I32
    """[E]."""
    status: I32
    """[E, STATUS, A]."""
    signals: AppSignals
    levels: NeedLevels
    urgency: F32
    """[E, D]."""
    may_hold: F64
    """[E, 2, D] millicores and MiB."""
    in_force: Mask
    """[E] whether the budget has not expired."""
    cpu_factor: F32
    """[E, A] a policy's factor on each first CPU request, 1 or more; [E, 0] without a policy."""


class Constants(NamedTuple):
    """What never changes between ticks."""

    bounds: Bounds
    damping: Damping
    ticks_per_minute: int
    vertical: bool
    """Whether pods are resized."""
    unseen_s: np.float32
    """Sample age of an app that never had a sample."""
    held: I8
    """[A] zeros: a Soldier decides about all of its apps; what may not be changed, the actuator
    holds."""


class Soldiers:
    """Decide for all environments of some apps of one cluster."""

    def __init__(self, inventory: Inventory, parameters: Parameters, parts: Parts) -> None:
        priority = inventory.priority
        self._inventory, self._parts = inventory, parts
        self._target = parameters.target(priority)
        self._surge = parameters.surge_level(priority)
        self._foreseen = parameters.foreseen_level(priority)
        self.cushion = parameters.cushion(priority)
        """[D] share of the headroom that depends on no forecast."""
        self._constants = _constants(inventory, parameters, parts)
        self._work = workspace(priority.size, inventory.domain.size)
        self._triage = triage_scratch(priority.size, inventory.domain.size)

    def start(self, status: I32) -> SoldiersState:
        """The state before the first tick; `status` is [E, STATUS, A]."""
        environments, _, apps = status.shape
        domains = self._inventory.priority.size
        return SoldiersState(
            memory=start_sizing_memory(environments, apps),
            history=start_history(environments, apps, domains, self._inventory.tick_s),
            # Sizes at the start are those that the owners chose; resizes return to them.
            first=FirstSizes(
                status[:, rows.CPU_REQUEST].copy(), status[:, rows.MEMORY_REQUEST].copy()
            ),
            epoch=np.full(environments, -1, np.int32),
            release=np.zeros((environments, domains)),
            overruns=np.zeros(environments, np.int32),
        )

    def step(
        self,
        tick: I32,
        status: I32,
        signals: AppSignals,
        directive: Directive,
        state: SoldiersState,
        plan: Plan,
        factors: AppFactors | None = None,
    ) -> Report:
        """Fill replicas, sizes and reasons of the plan, and report to the Commander.

        `status` is [E, STATUS, A]. `factors` are a policy's, [E, A], or [E, 0] for none.
        """
        self._take_release(tick, directive, state)
        inputs = self._inputs(tick, status, signals, directive, factors)
        sums = empty_sums(tick.size, self._inventory.priority.size)
        _decide(inputs, state, self._constants, self._work, self._triage, plan, sums)
        return as_report(sums)

    def may_hold(self, tick: I32, budget: Budget) -> F64:
        """[E, 2, D] millicores and MiB that the domains may hold under a budget."""
        limit = allowed(budget, tick)
        # Infinite without budgets, so that an ablation runs the same kernels.
        return limit if self._parts.budget else np.full_like(limit, np.inf)

    def _take_release(self, tick: I32, directive: Directive, state: SoldiersState) -> None:
        """Each directive asks once for a release; an expired one asks for nothing."""
        budget = directive.budget
        fresh, expired = budget.epoch > state.epoch, tick > budget.valid_until_tick
        # Once per epoch: a directive that is delivered again must not ask again (invariant 7).
        state.release[fresh] = MILLI * directive.release[fresh] * float(self._parts.budget)
        # An expired budget never causes a decrease (invariant 3).
        state.release[expired] = 0.0
        # The highest epoch so far, so that an older directive cannot ask again either.
        np.maximum(state.epoch, budget.epoch, out=state.epoch)

    def _inputs(
        self,
        tick: I32,
        status: I32,
        signals: AppSignals,
        directive: Directive,
        factors: AppFactors | None,
    ) -> SoldierInputs:
        budget = directive.budget
        # Divided here, once per domain: the kernel only multiplies, once per app.
        more = 1.0 + budget.headroom
        # Not None in the kernels: numba would compile all of them once more for that type.
        factors = factors or no_factors(tick.size)
        levels = NeedLevels(
            per_target=(more / self._target).astype(np.float32),
            per_surge=(more / self._surge).astype(np.float32),
            per_foreseen=(more / self._foreseen).astype(np.float32),
            growth=directive.growth.astype(np.float32),
            factor=factors.need,
        )
        return SoldierInputs(
            tick,
            status,
            signals,
            levels,
            urgency=budget.urgency.astype(np.float32),
            may_hold=self.may_hold(tick, budget),
            in_force=tick <= budget.valid_until_tick,
            cpu_factor=factors.cpu,
        )


def _constants(inventory: Inventory, parameters: Parameters, parts: Parts) -> Constants:
    rest = cool_down_ticks(inventory.tick_s) if parts.damping else 0
    return Constants(
        Bounds(inventory.min_replicas, inventory.max_replicas, rest),
        parameters.damping(inventory.priority, parts, inventory.tick_s),
        ticks_per_minute(inventory.tick_s),
        parts.vertical,
        unseen_seconds(inventory.tick_s),
        np.zeros(inventory.domain.size, np.int8),
    )


@kernel
def _decide(
    inputs: SoldierInputs,
    state: SoldiersState,
    constants: Constants,
    work: Workspace,
    triage: Triage,
    plan: Plan,
    sums: F64,
) -> None:
    """One environment after the other: need, wishes, triage, safety rules, report."""
    for e in range(inputs.tick.size):
        features, growth = inputs.signals.features[e], inputs.levels.growth[e]
        load, usual = inputs.signals.load[e], inputs.signals.usual[e]
        apps = Apps(inputs.tick[e], inputs.status[e], features[_MISSING], load, constants.held)
        wishes = Wishes(plan.replicas[e], plan.cpu[e], plan.memory[e], plan.reason[e])
        # Sizes and order for all that follows; `give_way` and the rules share them.
        prepare_workspace(apps.status, apps.tick, inputs.may_hold[e], state.history.sizing[e], work)
        minute = apps.tick // constants.ticks_per_minute
        compute_need(apps, usual, features[_RESTARTS], inputs.levels, e, minute, state.memory)
        _wish(inputs, e, apps, state, constants, work, wishes, sums[e])
        most = constants.bounds.most
        serve_most_requests(
            wishes, apps, features[_RPS], most, work.size, work.limit, inputs.in_force[e], triage
        )
        state.overruns[e] += enforce(
            wishes, apps, constants.bounds, state.history, state.first, e, work
        )
        # From the status, not from the wishes: what was just decided does not hold anything yet.
        need = state.memory.need[e]
        sum_apps(apps, features, need, growth, constants.unseen_s, sums[e])


@kernel
def _wish(
    inputs: SoldierInputs,
    e: int,
    apps: Apps,
    state: SoldiersState,
    constants: Constants,
    work: Workspace,
    wishes: Wishes,
    sums: F64,
) -> None:
    """Replicas and sizes as each Soldier would have them, less what it has to release."""
    memory, damping, most = state.memory, constants.damping, constants.bounds.most
    features, urgency, rested = (
        inputs.signals.features[e],
        inputs.urgency[e],
        state.history.rested[e],
    )
    wish_replicas(apps, features, memory, e, rested, urgency, damping, wishes)
    # Before giving way: the Commander divides by what each domain would hold without limits.
    _sum_wanted(
        wishes.replicas, most, work.size[MILLICORES], apps.status[rows.DOMAIN], sums[WANTED]
    )
    modest_until = memory.modest_until[e]
    give_way(apps, features, rested, damping, work, state.release[e], modest_until, wishes)
    if constants.vertical:
        # At the level up to which apps give way, not at their target: pods do not grow for comfort.
        wish_sizes(apps, features, damping.give_way_level, most, state.first, e, wishes)
        enlarge(apps, features, inputs.cpu_factor[e], state.first, e, wishes)
    else:
        keep_sizes(apps, wishes)


@kernel
def _sum_wanted(replicas: I32, most: I32, size: I32, domain: I32, wanted: F64) -> None:
    """Add the wanted cores to `wanted` [D], up to the declared maxima."""
    for app in range(replicas.size):
        wanted[domain[app]] += min(replicas[app], most[app]) * size[app] / MILLI
