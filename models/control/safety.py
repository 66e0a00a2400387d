"""The safety rules: what may be applied of a plan, whichever controller made it.

Increases need room in the budget. Decreases need data, an app that has rested since its last
change, and room in the blast radius. A resize touches every pod of an app: it needs data, and all
of the app counts in the blast radius. It stays within bounds around the app's first size, and never
takes memory away.

The same kernels cut what the Soldiers want and, in the actuator service with a history of its own,
the finished plan. Applying the rules again with an equal history changes nothing.
"""

from typing import Final, NamedTuple

import numpy as np

from models.cluster import rows
from models.cluster.arrays import F32, F64, I8, I32
from models.cluster.inventory import Inventory
from models.cluster.plan import Plan, Reason
from models.control.budget import Budget, allowed
from models.control.change_history import (
    NO_APP,
    ChangeHistory,
    FirstSizes,
    Workspace,
    blast_radius_left,
    cool_down_ticks,
    held_sizes,
    prepare_workspace,
    start_history,
    workspace,
)
from models.control.projection import (
    MEBIBYTES,
    MILLICORES,
    RESOURCES,
    project,
    sum_held,
)
from models.jit import copy_row, kernel

_ROUNDING: Final = 1e-6
"""Relative excess over a limit that float sums may cause; more is an overrun."""

LARGEST_CPU: Final = 2.0
"""Times its first size that a pod's CPU may become."""
LARGEST_MEMORY: Final = 4.0
"""Times its first size that a pod's memory may become."""

# Kernels take integers, not enumerations.
_NO_METRICS = int(Reason.HOLD_NO_METRICS)
_RESTING = int(Reason.HOLD_COOL_DOWN)
_BLAST = int(Reason.HOLD_BLAST_RADIUS)
_BUDGET = int(Reason.HOLD_BUDGET)
_OUT, _YIELD, _RESIZE = int(Reason.SCALE_OUT), int(Reason.YIELD), int(Reason.RESIZE)
_SIZE = int(Reason.HOLD_SIZE)


class Bounds(NamedTuple):
    """What is declared about the apps, and how long they rest."""

    least: I32
    """[A] replicas."""
    most: I32
    """[A] replicas."""
    cool_down: int
    """Ticks."""


class Wishes(NamedTuple):
    """What the apps of one environment are to get, [A] each; the rules cut it in place."""

    replicas: I32
    cpu: I32
    """Millicores per pod."""
    memory: I32
    """MiB per pod."""
    reason: I32


class Apps(NamedTuple):
    """The apps of one environment at one tick, as all rules look at them."""

    tick: int
    status: I32
    """[STATUS, A]."""
    missing: F32
    """[A] 1 without a valid sample."""
    load: F32
    """[A] pods that the app's traffic would use fully."""
    held: I8
    """[A] 1 for an app that stays as it is, even outside of its bounds. What it has still counts in
    what its domain holds."""


class SafetyInputs(NamedTuple):
    """What `SafetyRules` needs to know about all environments."""

    tick: I32
    """[E]."""
    status: I32
    """[E, STATUS, A]."""
    missing: F32
    """[E, A]."""
    load: F32
    """[E, A]."""
    held: I8
    """[E, A]."""
    may_hold: F64
    """[E, 2, D]."""
    first: FirstSizes


class SafetyRules:
    """The rules on finished plans, for all environments of some apps of one cluster."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        rest = cool_down_ticks(inventory.tick_s)
        self._bounds = Bounds(inventory.min_replicas, inventory.max_replicas, rest)
        self._work = workspace(inventory.priority.size, inventory.domain.size)

    def start(self, environments: int) -> ChangeHistory:
        """A history without changes."""
        domains, apps = self._inventory.priority.size, self._inventory.domain.size
        return start_history(environments, apps, domains, self._inventory.tick_s)

    def within_bounds(self, replicas: I32) -> I32:
        """What the declared bounds make of these replicas, [A]."""
        bounded: I32 = np.clip(replicas, self._bounds.least, self._bounds.most)
        return bounded

    def step(
        self,
        tick: I32,
        status: I32,
        missing: F32,
        load: F32,
        budget: Budget,
        history: ChangeHistory,
        plan: Plan,
        held: I8 | None = None,
        first: FirstSizes | None = None,
    ) -> I32:
        """Cut the plan to what may be applied, and record it in the history.

        `status` is [E, STATUS, A]; `missing` and `load` are [E, A], as in `AppSignals`. `held`
        [E, A] marks apps that stay as they are; None means no app. Without `first` the present
        sizes count as the first ones. Returns [E] how many domains grew beyond what they may hold;
        it is 0 unless a rule is broken.
        """
        overruns = np.zeros(tick.size, np.int32)
        if held is None:
            held = np.zeros(missing.shape, np.int8)
        if first is None:
            first = FirstSizes(status[:, rows.CPU_REQUEST], status[:, rows.MEMORY_REQUEST])
        # Contiguous: numba would compile the kernels once more for the layout of a slice.
        first = FirstSizes(np.ascontiguousarray(first.cpu), np.ascontiguousarray(first.memory))
        inputs = SafetyInputs(tick, status, missing, load, held, allowed(budget, tick), first)
        _enforce_all(inputs, self._bounds, history, self._work, plan, overruns)
        return overruns

    def fit_again(
        self,
        tick: I32,
        status: I32,
        load: F32,
        may_hold: F64,
        plan: Plan,
        sizing: I32 | None = None,
    ) -> None:
        """Cut what a plan adds to its budgets once more, after some of its decreases were held.

        What those would have freed is not there. `may_hold` is [E, 2, D], `sizing` [E, 2, A] are
        the sizes of earlier ticks that the status may not show yet. The other rules were applied to
        the plan before, and holding parts of it breaks none of them.
        """
        environments, apps = load.shape
        valid, free = np.zeros(apps, np.float32), np.zeros(apps, np.int8)
        if sizing is None:
            sizing = np.zeros((environments, RESOURCES, apps), np.int32)
        for e in range(environments):
            wishes = Wishes(plan.replicas[e], plan.cpu[e], plan.memory[e], plan.reason[e])
            now = Apps(int(tick[e]), status[e], valid, load[e], free)
            _fit_again(wishes, now, self._bounds, may_hold[e], sizing[e], self._work)


@kernel
def _fit_again(
    wishes: Wishes, apps: Apps, bounds: Bounds, may_hold: F64, sizing: I32, work: Workspace
) -> None:
    prepare_workspace(apps.status, apps.tick, may_hold, sizing, work)
    _keep_budget(wishes, apps, bounds, work)
    _budget_left(work)
    # The plan counted its resizes in the blast radius before.
    work.blast[:] = np.inf
    # `held` is done with; nothing reads what it counts here.
    enforce_sizes(wishes, apps, work.room, work.blast, work.held[MILLICORES])


@kernel
def _enforce_all(
    inputs: SafetyInputs,
    bounds: Bounds,
    history: ChangeHistory,
    work: Workspace,
    plan: Plan,
    overruns: I32,
) -> None:
    for e in range(inputs.tick.size):
        apps = Apps(
            inputs.tick[e], inputs.status[e], inputs.missing[e], inputs.load[e], inputs.held[e]
        )
        wishes = Wishes(plan.replicas[e], plan.cpu[e], plan.memory[e], plan.reason[e])
        prepare_workspace(apps.status, apps.tick, inputs.may_hold[e], history.sizing[e], work)
        overruns[e] = enforce(wishes, apps, bounds, history, inputs.first, e, work)


@kernel
def enforce(
    wishes: Wishes,
    apps: Apps,
    bounds: Bounds,
    history: ChangeHistory,
    first: FirstSizes,
    e: int,
    work: Workspace,
) -> int:
    """Apply all rules to one environment, return its overruns; call `prepare_workspace` first."""
    status, decreased = apps.status, history.decreased[e]
    # Replicas before sizes: pods grow into what replicas leave of budget and blast radius.
    enforce_replicas(wishes, apps, bounds, history.rested[e], decreased, work)
    _budget_left(work)
    # Again, because decreases of this tick are part of the window by now.
    blast_radius_left(work.held, decreased, work.blast)
    slot = decreased[apps.tick % decreased.shape[0]]
    _keep_size_bounds(wishes, apps, first.cpu[e], first.memory[e])
    enforce_sizes(wishes, apps, work.room, work.blast, slot)
    _keep_reason_of_no_room(wishes, apps, bounds)
    # Remember the sizes that were decided: until the status shows them, they count as held.
    copy_row(wishes.cpu, history.sizing[e, MILLICORES])
    copy_row(wishes.memory, history.sizing[e, MEBIBYTES])
    held_sizes(status, history.sizing[e], work.resized)
    return count_overruns(status[rows.DOMAIN], wishes.replicas, work)


# Replicas.


@kernel
def enforce_replicas(
    wishes: Wishes, apps: Apps, bounds: Bounds, rested: I32, decreased: F64, work: Workspace
) -> None:
    """Cut replicas to what is allowed, and record when each changed app may shrink again."""
    # Decreases before the budget: what they free may be used in the same tick.
    _keep_bounds(wishes, apps, bounds, rested)
    _keep_blast_radius(wishes, apps, decreased, work)
    _keep_budget(wishes, apps, bounds, work)
    wanted, current = wishes.replicas, apps.status[rows.REPLICAS]
    for app in range(wanted.size):
        # Increases count as well: a decrease right after one would be a reversal.
        if wanted[app] != current[app]:
            rested[app] = apps.tick + bounds.cool_down


@kernel
def _keep_bounds(wishes: Wishes, apps: Apps, bounds: Bounds, rested: I32) -> None:
    """Keep declared bounds, and shrink no app that lacks data or has not rested.

    An app that gives way to others (YIELD) may shrink before it has rested. An app that is not
    declared has no bounds and stays as it is. So does one that is held, and one without replicas:
    either its owner scaled it to zero or its replicas are unknown, and then a minimum could be a
    cut.
    """
    wanted, reason, missing = wishes.replicas, wishes.reason, apps.missing
    current, active = apps.status[rows.REPLICAS], apps.status[rows.ACTIVE]
    for app in range(wanted.size):
        if active[app] != 1 or current[app] == 0 or apps.held[app] == 1:
            wanted[app] = current[app]
            continue
        asked_to_shrink = wanted[app] < current[app]
        least = bounds.least[app]
        # These rules found no room for its minimum before (`_keep_reason_of_no_room`). Raised
        # again, it would take what the others were cut to.
        if (reason[app] == _BUDGET or reason[app] == _RESIZE) and not asked_to_shrink:
            least = min(least, wanted[app])
        wanted[app] = min(max(wanted[app], least), bounds.most[app])
        if wanted[app] >= current[app]:
            continue
        resting = rested[app] > apps.tick and reason[app] != _YIELD
        if missing[app] > 0.0 or resting:
            wanted[app] = current[app]
            # A hold of an app that is above its maximum keeps the reason it came with.
            if asked_to_shrink:
                reason[app] = _NO_METRICS if missing[app] > 0.0 else _RESTING


@kernel
def _keep_blast_radius(wishes: Wishes, apps: Apps, decreased: F64, work: Workspace) -> None:
    """Decrease no more of a domain per window than its share, app by app in turn."""
    wanted, reason = wishes.replicas, wishes.reason
    current, pending = apps.status[rows.REPLICAS], apps.status[rows.PENDING]
    domain, left = apps.status[rows.DOMAIN], work.blast
    # The slot of the tick that has just left the window.
    slot = decreased[apps.tick % decreased.shape[0]]
    for d in range(slot.size):
        slot[d] = 0.0
    blast_radius_left(work.held, decreased, left)
    for step in range(wanted.size):
        app = work.order[step]
        if app == NO_APP:
            break
        if wanted[app] >= current[app]:
            continue
        d, size = domain[app], work.size[MILLICORES, app]
        # Pending pods may leave without counting: nothing runs there that could be missed.
        running = current[app] - pending[app]
        amount = np.float64(max(0, running - wanted[app])) * np.float64(size)
        if amount > max(0.0, left[d]):
            fewer = max(0, int(left[d] / max(1, size)))
            # Above what was wanted, so the declared minimum still holds; and with min(), no count
            # of pending pods below zero can turn this into an increase.
            wanted[app] = min(running, current[app]) - fewer
            reason[app] = _BLAST if wanted[app] == current[app] else reason[app]
            amount = np.float64(fewer) * np.float64(size)
        left[d] -= amount
        slot[d] += amount


@kernel
def _keep_budget(wishes: Wishes, apps: Apps, bounds: Bounds, work: Workspace) -> None:
    wanted, reason = wishes.replicas, wishes.reason
    current, domain = apps.status[rows.REPLICAS], apps.status[rows.DOMAIN]
    if not project(wanted, current, apps.load, work.size, domain, work.limit, work.bisection):
        return
    for app in range(wanted.size):
        cut = work.bisection.high[domain[app]] > 0.0
        # Only increases that were cut to nothing get this reason; smaller ones are still increases.
        nothing = reason[app] == _OUT and wanted[app] == current[app]
        # And those that stay below their minimum: `_keep_bounds` must not raise them again.
        below = current[app] > 0 and current[app] <= wanted[app] < bounds.least[app]
        if cut and (nothing or below):
            reason[app] = _BUDGET


# Sizes of pods.


@kernel
def _budget_left(work: Workspace) -> None:
    """Write to `work.room` [2, D] what the limits leave beside the projected replicas."""
    limit, room, held = work.limit, work.room, work.bisection.held
    for resource in range(RESOURCES):
        for d in range(room.shape[1]):
            room[resource, d] = max(0.0, limit[resource, d] - held[resource, d])


@kernel
def _keep_size_bounds(wishes: Wishes, apps: Apps, first_cpu: I32, first_memory: I32) -> None:
    """Hold sizes that are out of proportion to the first ones, [A].

    CPU never goes below the first size and memory never shrinks: how much an app needs at its next
    peak, or keeps in memory, no sample tells. An app outside of the bounds may stay there.
    """
    cpu, memory = apps.status[rows.CPU_REQUEST], apps.status[rows.MEMORY_REQUEST]
    for app in range(wishes.cpu.size):
        asked_cpu, asked_memory = wishes.cpu[app], wishes.memory[app]
        most = max(np.float64(cpu[app]), LARGEST_CPU * first_cpu[app])
        if not min(cpu[app], first_cpu[app]) <= wishes.cpu[app] <= most:
            wishes.cpu[app] = cpu[app]
        most = max(np.float64(memory[app]), LARGEST_MEMORY * first_memory[app])
        if not memory[app] <= wishes.memory[app] <= most:
            wishes.memory[app] = memory[app]
        cut = wishes.cpu[app] != asked_cpu or wishes.memory[app] != asked_memory
        # `enforce_sizes` gives the reason back to an app whose other size changes.
        if cut and wishes.reason[app] == _RESIZE:
            wishes.reason[app] = _SIZE


@kernel
def enforce_sizes(wishes: Wishes, apps: Apps, room: F64, blast: F64, spent: F64) -> None:
    """Cut the sizes of pods to what is allowed.

    `room` [2, D] is left of the budgets, `blast` [D] millicores of what may be resized in this
    window. Both shrink by what is used; `spent` [D] records it for the following ticks. A resize
    is the reason of a decision only where replicas stay: a change of replicas has its own. A resize
    that is held gets the reason of the hold: it was not tried, so it must not count as failed.
    """
    replicas, current = wishes.replicas, apps.status[rows.REPLICAS]
    cpu, memory = apps.status[rows.CPU_REQUEST], apps.status[rows.MEMORY_REQUEST]
    domain, active = apps.status[rows.DOMAIN], apps.status[rows.ACTIVE]
    for app in range(replicas.size):
        if wishes.cpu[app] == cpu[app] and wishes.memory[app] == memory[app]:
            continue
        d, pods = domain[app], np.float64(replicas[app])
        # A resize touches every pod, so all of the app counts, not only the difference.
        amount = pods * cpu[app]
        valid = active[app] == 1 and apps.missing[app] == 0.0 and apps.held[app] == 0
        why = _NO_METRICS if not valid else _BLAST if amount > blast[d] else _BUDGET
        # Counted per resource, so an app that changes both counts twice. This only allows less.
        more_cpu = (wishes.cpu[app] - cpu[app]) * pods
        if not (valid and amount <= blast[d] and more_cpu <= room[MILLICORES, d]):
            wishes.cpu[app] = cpu[app]
        if wishes.cpu[app] != cpu[app]:
            room[MILLICORES, d] -= max(0.0, more_cpu)
            blast[d] -= amount
            spent[d] += amount
        more_memory = (wishes.memory[app] - memory[app]) * pods
        if not (valid and amount <= blast[d] and more_memory <= room[MEBIBYTES, d]):
            wishes.memory[app] = memory[app]
        if wishes.memory[app] != memory[app]:
            room[MEBIBYTES, d] -= max(0.0, more_memory)
            blast[d] -= amount
            spent[d] += amount
        resized = wishes.cpu[app] != cpu[app] or wishes.memory[app] != memory[app]
        if replicas[app] != current[app]:
            continue
        if resized:
            wishes.reason[app] = _RESIZE
        elif wishes.reason[app] == _RESIZE:
            wishes.reason[app] = why


@kernel
def _keep_reason_of_no_room(wishes: Wishes, apps: Apps, bounds: Bounds) -> None:
    """Name the lack of room where an app stays below its minimum, unless it was resized instead.

    A finished plan carries nothing but its reasons. By these two `_keep_bounds` recognizes such an
    app when the rules are applied again; the hold of a refused resize would hide it.
    """
    wanted, reason = wishes.replicas, wishes.reason
    current, active = apps.status[rows.REPLICAS], apps.status[rows.ACTIVE]
    for app in range(wanted.size):
        least = min(bounds.least[app], bounds.most[app])
        below = 0 < current[app] <= wanted[app] < least
        if below and active[app] == 1 and apps.held[app] == 0 and reason[app] != _RESIZE:
            reason[app] = _BUDGET


@kernel
def count_overruns(domain: I32, replicas: I32, work: Workspace) -> int:
    """How many domains grow beyond their limit of a resource, by sizes before and after."""
    # Reuses scratch that is done with: kernels allocate nothing.
    limit, before, after = work.limit, work.held, work.room
    sum_held(replicas, work.resized, domain, after)
    count = 0
    for d in range(limit.shape[1]):
        overrun = False
        for resource in range(RESOURCES):
            beyond = after[resource, d] > limit[resource, d] * (1.0 + _ROUNDING)
            # Holding more than a budget that shrank is no overrun, only an increase is one.
            overrun |= beyond and after[resource, d] > before[resource, d]
        count += 1 if overrun else 0
    return count
