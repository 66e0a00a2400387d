"""The actuator: what may be applied of a plan, whatever controller of ours made it.

The same kernels cut the wishes of the Soldiers and, once more and with a memory of its own, the
finished plan that arrives at the actuator's service. Enforcing what was enforced already with an
equal memory changes nothing.
"""

from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F32, F64, I32
from models.cluster.inventory import Inventory
from models.cluster.observation import (
    ACTIVE,
    CPU_REQUEST,
    DOMAIN,
    MEMORY_REQUEST,
    PENDING,
    REPLICAS,
)
from models.cluster.plan import Plan, Reason
from models.control.budget import Budget, allowed
from models.control.change_history import (
    NOBODY,
    ChangeHistory,
    Workspace,
    cool_down_ticks,
    held_sizes,
    left_of_blast,
    start_history,
    take_turns,
    without_surge,
    workspace,
)
from models.control.projection import MEBIBYTES, MILLICORES, RESOURCES, hold_all, project
from models.jit import copy_row, kernel

_ROUNDING: Final = 1e-6


class Bounds(NamedTuple):
    """What is declared of the apps, and how long they rest."""

    least: I32
    """[A] replicas."""
    most: I32
    """[A] replicas."""
    cool_down: int
    """Ticks."""


class SafetyRules:
    """The rules on finished plans, for all environments of some apps of one cluster."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        rest = cool_down_ticks(inventory.tick_s)
        self._bounds = Bounds(inventory.min_replicas, inventory.max_replicas, rest)
        self._work = workspace(inventory.priority.size, inventory.domain.size)

    def start(self, environments: int) -> ChangeHistory:
        """Nothing was changed yet."""
        domains, apps = self._inventory.priority.size, self._inventory.domain.size
        return start_history(environments, apps, domains, self._inventory.tick_s)

    def step(
        self,
        tick: I32,
        status: I32,
        missing: F32,
        load: F32,
        budget: Budget,
        history: ChangeHistory,
        plan: Plan,
    ) -> I32:
        """Cut the plan to what may be applied and remember it.

        `known` [E, STATUS, A]; `missing` and `load` [E, A] as sensed. Returns [E] how many domains
        were increased beyond what they may hold: none, if all is well.
        """
        overruns = np.zeros(tick.size, np.int32)
        _enforce_all(
            tick, status, missing, load, allowed(budget, tick), self._bounds, history,
            self._work, plan, overruns,
        )  # fmt: skip
        return overruns


@kernel
def _enforce_all(
    tick: I32,
    status: I32,
    missing: F32,
    load: F32,
    may_hold: F64,
    bounds: Bounds,
    history: ChangeHistory,
    work: Workspace,
    plan: Plan,
    overruns: I32,
) -> None:
    for e in range(tick.size):
        take_stock(status[e], tick[e], may_hold[e], history.sizing[e], work)
        overruns[e] = enforce_plan(
            plan, e, status[e], missing[e], load[e], tick[e], bounds, history, work
        )


@kernel
def take_stock(status: I32, tick: int, may_hold: F64, sizing: I32, work: Workspace) -> None:
    """What is held, what may be, and whose turn it is, in one environment."""
    held_sizes(status, sizing, work.size)
    without_surge(may_hold, status, work.size, work.limit)
    take_turns(status[ACTIVE], status[DOMAIN], tick, work)


@kernel
def enforce_plan(
    plan: Plan,
    e: int,
    status: I32,
    missing: F32,
    load: F32,
    tick: int,
    bounds: Bounds,
    history: ChangeHistory,
    work: Workspace,
) -> int:
    """All rules on the plan of one environment, of which stock was taken; returns its overruns."""
    replicas, reason, domain = plan.replicas[e], plan.reason[e], status[DOMAIN]
    current, active, decreased = status[REPLICAS], status[ACTIVE], history.decreased[e]
    enforce(
        replicas, reason, current, status[PENDING], domain, active, missing, load, tick,
        bounds.cool_down, bounds.least, bounds.most, history.rested[e], decreased, work,
    )  # fmt: skip
    left_of_budget(replicas, work.size, domain, work.limit, work.room)
    left_of_blast(current, work.size, domain, decreased, work.blast)
    keep_sizes(
        plan.cpu[e], plan.memory[e], reason, replicas, current, status[CPU_REQUEST],
        status[MEMORY_REQUEST], domain, active, missing, work.room, work.blast,
        decreased[tick % decreased.shape[0]],
    )  # fmt: skip
    copy_row(plan.cpu[e], history.sizing[e, MILLICORES])
    copy_row(plan.memory[e], history.sizing[e, MEBIBYTES])
    held_sizes(status, history.sizing[e], work.resized)
    return overruns_of(
        current, work.size, replicas, work.resized, domain, work.limit, work.held, work.room
    )


@kernel
def overruns_of(
    before: I32,
    size_before: I32,
    after: I32,
    size_after: I32,
    domain: I32,
    limit: F64,
    was: F64,
    now: F64,
) -> int:
    """How many domains were increased beyond what they may hold of a resource."""
    hold_all(before, size_before, domain, was)
    hold_all(after, size_after, domain, now)
    count = 0
    for place in range(limit.shape[1]):
        overrun = False
        for resource in range(RESOURCES):
            beyond = now[resource, place] > limit[resource, place] * (1.0 + _ROUNDING)
            overrun |= beyond and now[resource, place] > was[resource, place]
        count += 1 if overrun else 0
    return count


_NO_METRICS = int(Reason.HOLD_NO_METRICS)
_RESTING = int(Reason.HOLD_COOL_DOWN)
_BLAST = int(Reason.HOLD_BLAST_RADIUS)
_BUDGET = int(Reason.HOLD_BUDGET)
_OUT, _YIELD = int(Reason.SCALE_OUT), int(Reason.YIELD)


@kernel
def enforce(
    wanted: I32,
    reason: I32,
    current: I32,
    pending: I32,
    domain: I32,
    active: I32,
    missing: F32,
    load: F32,
    tick: int,
    cool_down: int,
    least: I32,
    most: I32,
    rested: I32,
    decreased: F64,
    work: Workspace,
) -> None:
    """Cut the wishes of one environment to what is allowed, and remember what was changed.

    Of the workspace, sizes, limits and turns are given.
    """
    _keep_bounds(wanted, reason, current, active, missing, rested, tick, least, most)
    _keep_blast_radius(wanted, reason, current, pending, domain, tick, decreased, work)
    _keep_budget(wanted, reason, current, load, domain, work)
    for app in range(wanted.size):
        if wanted[app] != current[app]:
            rested[app] = tick + cool_down


@kernel
def _keep_bounds(
    wanted: I32,
    reason: I32,
    current: I32,
    active: I32,
    missing: F32,
    rested: I32,
    tick: int,
    least: I32,
    most: I32,
) -> None:
    """Declared minima and maxima; and nothing is taken from an app that is unseen or unrested.

    Only what others cannot do without is given before an app has rested. An app that is not
    declared has no bounds and is left alone; so is one without replicas: its owner scaled it to
    zero, or nobody knows how many it has, and a minimum would then be a cut.
    """
    for app in range(wanted.size):
        if active[app] != 1 or current[app] == 0:
            wanted[app] = current[app]
            continue
        held = wanted[app] >= current[app]
        wanted[app] = min(max(wanted[app], least[app]), most[app])
        if wanted[app] >= current[app]:
            continue
        resting = rested[app] > tick and reason[app] != _YIELD
        if missing[app] > 0.0 or resting:
            wanted[app] = current[app]
            # What was held before, though it is above its maximum, has its reason already.
            if not held:
                reason[app] = _NO_METRICS if missing[app] > 0.0 else _RESTING


@kernel
def _keep_blast_radius(
    wanted: I32,
    reason: I32,
    current: I32,
    pending: I32,
    domain: I32,
    tick: int,
    decreased: F64,
    work: Workspace,
) -> None:
    """Take away no more per domain and window than its share; who comes first changes by tick."""
    slot, room = decreased[tick % decreased.shape[0]], work.blast
    for place in range(slot.size):
        slot[place] = 0.0
    left_of_blast(current, work.size, domain, decreased, room)
    for step in range(wanted.size):
        app = work.order[step]
        if app == NOBODY:
            break
        if wanted[app] >= current[app]:
            continue
        place, size = domain[app], work.size[MILLICORES, app]
        # A pod that never found a node can be withdrawn: nothing runs there to be missed.
        running = current[app] - pending[app]
        lot = np.float64(max(0, running - wanted[app])) * np.float64(size)
        if lot > max(0.0, room[place]):
            fewer = max(0, int(room[place] / max(1, size)))
            wanted[app] = min(running, current[app]) - fewer
            reason[app] = _BLAST if wanted[app] == current[app] else reason[app]
            lot = np.float64(fewer) * np.float64(size)
        room[place] -= lot
        slot[place] += lot


@kernel
def _keep_budget(
    wanted: I32, reason: I32, current: I32, load: F32, domain: I32, work: Workspace
) -> None:
    size, limit = work.size, work.limit
    project(wanted, current, load, size, domain, limit, work.held, work.low, work.high)
    for app in range(wanted.size):
        cut = work.high[domain[app]] > 0.0 and reason[app] == _OUT
        if cut and wanted[app] == current[app]:
            reason[app] = _BUDGET


_RESIZE = int(Reason.RESIZE)


@kernel
def left_of_budget(replicas: I32, size: I32, domain: I32, limit: F64, room: F64) -> None:
    """[2, D] of the budgets that is not held."""
    hold_all(replicas, size, domain, room)
    for resource in range(RESOURCES):
        for place in range(room.shape[1]):
            room[resource, place] = max(0.0, limit[resource, place] - room[resource, place])


@kernel
def keep_sizes(
    wanted_cpu: I32,
    wanted_memory: I32,
    reason: I32,
    replicas: I32,
    current: I32,
    cpu: I32,
    memory: I32,
    domain: I32,
    active: I32,
    missing: F32,
    room: F64,
    blast: F64,
    spent: F64,
) -> None:
    """Cut the wishes of one environment to what is allowed.

    `room` [2, D] is left of the budgets and `blast` [D] millicores of what may be resized in this
    window; both go down by what is used, and `spent` [D] notes it for the ticks to come. The
    reason tells of a resize only where the replicas stay: theirs says whether they had to rest.
    """
    for app in range(replicas.size):
        place, pods = domain[app], np.float64(replicas[app])
        lot = pods * cpu[app]
        seen = active[app] == 1 and missing[app] == 0.0
        more_cpu = (wanted_cpu[app] - cpu[app]) * pods
        if not (seen and lot <= blast[place] and more_cpu <= room[MILLICORES, place]):
            wanted_cpu[app] = cpu[app]
        if wanted_cpu[app] != cpu[app]:
            _spend(place, MILLICORES, more_cpu, lot, room, blast, spent)
        more_memory = (wanted_memory[app] - memory[app]) * pods
        if not (seen and lot <= blast[place] and more_memory <= room[MEBIBYTES, place]):
            wanted_memory[app] = memory[app]
        if wanted_memory[app] != memory[app]:
            _spend(place, MEBIBYTES, more_memory, lot, room, blast, spent)
        resized = wanted_cpu[app] != cpu[app] or wanted_memory[app] != memory[app]
        if resized and replicas[app] == current[app]:
            reason[app] = _RESIZE


@kernel
def _spend(
    place: int, resource: int, more: float, lot: float, room: F64, blast: F64, spent: F64
) -> None:
    room[resource, place] -= max(0.0, more)
    blast[place] -= lot
    spent[place] += lot
