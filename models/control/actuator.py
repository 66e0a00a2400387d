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
from models.cluster.plan import Plan
from models.control.budget import Budget, allowed
from models.control.projection import MEBIBYTES, MILLICORES, RESOURCES, hold_all
from models.control.replicas import enforce
from models.control.restraint import (
    Restraint,
    Workspace,
    cool_down_ticks,
    held_sizes,
    left_of_blast,
    start_restraint,
    take_turns,
    without_surge,
    workspace,
)
from models.control.sizes import keep_sizes, left_of_budget
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


class Actuator:
    """The rules on finished plans, for all environments of some apps of one cluster."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        rest = cool_down_ticks(inventory.tick_s)
        self._bounds = Bounds(inventory.min_replicas, inventory.max_replicas, rest)
        self._work = workspace(inventory.priority.size, inventory.domain.size)

    def start(self, environments: int) -> Restraint:
        """Nothing was changed yet."""
        domains, apps = self._inventory.priority.size, self._inventory.domain.size
        return start_restraint(environments, apps, domains, self._inventory.tick_s)

    def step(
        self,
        tick: I32,
        status: I32,
        missing: F32,
        load: F32,
        budget: Budget,
        restraint: Restraint,
        plan: Plan,
    ) -> I32:
        """Cut the plan to what may be applied and remember it.

        `known` [E, STATUS, A]; `missing` and `load` [E, A] as sensed. Returns [E] how many domains
        were increased beyond what they may hold: none, if all is well.
        """
        overruns = np.zeros(tick.size, np.int32)
        _enforce_all(
            tick, status, missing, load, allowed(budget, tick), self._bounds, restraint,
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
    restraint: Restraint,
    work: Workspace,
    plan: Plan,
    overruns: I32,
) -> None:
    for e in range(tick.size):
        take_stock(status[e], tick[e], may_hold[e], restraint.sizing[e], work)
        overruns[e] = enforce_plan(
            plan, e, status[e], missing[e], load[e], tick[e], bounds, restraint, work
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
    restraint: Restraint,
    work: Workspace,
) -> int:
    """All rules on the plan of one environment, of which stock was taken; returns its overruns."""
    replicas, reason, domain = plan.replicas[e], plan.reason[e], status[DOMAIN]
    current, active, decreased = status[REPLICAS], status[ACTIVE], restraint.decreased[e]
    enforce(
        replicas, reason, current, status[PENDING], domain, active, missing, load, tick,
        bounds.cool_down, bounds.least, bounds.most, restraint.rested[e], decreased, work,
    )  # fmt: skip
    left_of_budget(replicas, work.size, domain, work.limit, work.room)
    left_of_blast(current, work.size, domain, decreased, work.blast)
    keep_sizes(
        plan.cpu[e], plan.memory[e], reason, replicas, current, status[CPU_REQUEST],
        status[MEMORY_REQUEST], domain, active, missing, work.room, work.blast,
        decreased[tick % decreased.shape[0]],
    )  # fmt: skip
    copy_row(plan.cpu[e], restraint.sizing[e, MILLICORES])
    copy_row(plan.memory[e], restraint.sizing[e, MEBIBYTES])
    held_sizes(status, restraint.sizing[e], work.resized)
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
