"""The Soldiers of any number of domains in one tick, and the actuator's rules on what they wish.

A Soldier knows its briefing and its own apps. With the apps of one domain or of all, it decides
the same for each, bit for bit: in the simulator all Soldiers run at once, as services each runs
in a process of its own.
"""

import numpy as np

from models.cluster.arrays import F32, I32, MILLI
from models.cluster.inventory import Inventory
from models.cluster.observation import CPU_REQUEST, MEMORY_REQUEST
from models.cluster.plan import Plan
from models.control.actuator import Bounds
from models.control.budget import allowed
from models.control.heuristic.briefing import Briefing
from models.control.heuristic.parameters import Parameters, Parts
from models.control.heuristic.report import Report, as_report, empty_sums, unseen_seconds
from models.control.heuristic.sensing import Sensed
from models.control.heuristic.soldier import MODEST_S, start_soldiers
from models.control.heuristic.squad import Settled, SoldiersState, Stance, command
from models.control.restraint import cool_down_ticks, start_restraint, workspace
from models.control.vertical import FirstSizes


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
            restraint=start_restraint(environments, apps, domains, self._inventory.tick_s),
            first=FirstSizes(status[:, CPU_REQUEST].copy(), status[:, MEMORY_REQUEST].copy()),
            epoch=np.full(environments, -1, np.int32),
            release=np.zeros((environments, domains)),
            overruns=np.zeros(environments, np.int32),
        )

    def step(
        self,
        tick: I32,
        status: I32,
        sensed: Sensed,
        briefing: Briefing,
        state: SoldiersState,
        plan: Plan,
        need_factor: F32 | None = None,
    ) -> Report:
        """Fill replicas, sizes and reasons of the plan, and report to the Commander.

        `known` [E, STATUS, A] is what the API server answers; `need_factor` [E, A] or [E, 0] a
        policy's.
        """
        self._take_orders(tick, briefing, state)
        stance = self._stance(tick, briefing, need_factor)
        sums = empty_sums(tick.size, self._inventory.priority.size)
        command(tick, status, sensed, stance, state, self._settled, self._work, plan, sums)
        return as_report(sums)

    def _take_orders(self, tick: I32, briefing: Briefing, state: SoldiersState) -> None:
        """What is to be given back is said once in each briefing; an expired one says nothing."""
        budget = briefing.budget
        fresh, expired = budget.epoch > state.epoch, tick > budget.valid_until_tick
        state.release[fresh] = MILLI * briefing.release[fresh] * float(self._parts.budget)
        state.release[expired] = 0.0
        np.maximum(state.epoch, budget.epoch, out=state.epoch)

    def _stance(self, tick: I32, briefing: Briefing, need_factor: F32 | None) -> Stance:
        budget = briefing.budget
        more, may_hold = 1.0 + budget.headroom, allowed(budget, tick)
        if need_factor is None:
            need_factor = np.ones((tick.size, 0), np.float32)
        return Stance(
            per_target=(more / self._target).astype(np.float32),
            per_surge=(more / self._surge).astype(np.float32),
            per_foreseen=(more / self._foreseen).astype(np.float32),
            growth=briefing.growth.astype(np.float32),
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
