"""The hierarchical heuristic: Sensing, Soldiers and Commander in one process.

As services they exchange the same values over the bus, in the same order within a tick.
"""

from typing import NamedTuple

from models.cluster.arrays import I32
from models.cluster.inventory import Inventory
from models.cluster.observation import Observation, Pipeline
from models.cluster.plan import Plan, empty_plan
from models.control.budget import CommanderDecision, no_decision
from models.control.commander import Commander
from models.control.demand import DemandEstimator, EstimatorState
from models.control.parameters import Parameters, Parts
from models.control.residual import Residual, neutral
from models.control.soldiers import Soldiers, SoldiersState
from models.features.pools import PoolReadings
from models.forecaster.port import Forecast


class HeuristicState(NamedTuple):
    """What the heuristic remembers between ticks."""

    sensing: EstimatorState
    soldiers: SoldiersState
    orders: CommanderDecision
    """Of the last minute."""


class Heuristic:
    """Decides for all environments of one cluster."""

    name = "heuristic"
    pipeline = Pipeline.OURS

    def __init__(
        self, inventory: Inventory, pools: int, parameters: Parameters, parts: Parts
    ) -> None:
        self._inventory, self._pools, self._parts = inventory, pools, parts
        self._sensing = DemandEstimator(inventory, parameters, parts)
        self._soldiers = Soldiers(inventory, parameters, parts)
        self._commander = Commander(inventory, parameters)
        self._every = max(1, 60 // inventory.tick_s)
        self._plan = empty_plan(0, inventory.domain.size, pools)

    def start(self, observation: Observation) -> HeuristicState:
        """A memory that has seen nothing."""
        domains = self._inventory.priority.size
        return HeuristicState(
            sensing=self._sensing.start(observation),
            soldiers=self._soldiers.start(observation.status),
            orders=no_decision(observation.tick.size, domains, self._pools),
        )

    def step(
        self,
        observation: Observation,
        forecast: Forecast | None,
        state: HeuristicState,
        residual: Residual | None = None,
    ) -> tuple[Plan, HeuristicState]:
        """Soldiers decide each tick by the last briefing, the Commander when a minute begins.

        What it asks of the pools counts at once, the briefing from the next tick on. Of a policy's
        `residual` the Commander's part counts for the minute that begins.
        """
        plan, orders, tick = self._fit(observation), state.orders, observation.tick
        residual = residual or neutral(tick.size)
        sensed, sensing = self._sensing.step(observation, state.sensing)
        report = self._soldiers.step(
            tick, observation.status, sensed, orders.directive, state.soldiers, plan, residual.need
        )
        # By epoch, so that a lost tick costs no more than itself.
        epoch = tick // self._every
        begins = bool((epoch > orders.directive.budget.epoch).any())
        if begins:
            seen = PoolReadings(observation.pool, self._inventory)
            orders = self._commander.decide(tick, seen, report, forecast, epoch, residual)
        if self._parts.coordination:
            plan.nodes[:] = orders.nodes if begins else 0
            plan.keep[:] = orders.keep
        return plan, HeuristicState(sensing, state.soldiers, orders)

    def overruns(self, state: HeuristicState) -> I32:
        """[E] increases beyond a budget so far."""
        return state.soldiers.overruns.copy()

    def _fit(self, observation: Observation) -> Plan:
        environments, apps = observation.missing.shape
        if self._plan.replicas.shape[0] != environments:
            self._plan = empty_plan(environments, apps, self._pools)
            self._plan.coordinated[:] = int(self._parts.coordination)
        return self._plan
