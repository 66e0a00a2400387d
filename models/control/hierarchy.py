"""The hierarchical heuristic: demand estimator, Soldiers and Commander in one process.

As services they exchange the same values over the bus, in the same order within a tick. They differ
when the first tick of a minute is lost: here the next tick decides, while the Commander service
uses first ticks only and grants nothing in that minute. In lock-step no tick is lost.
"""

import copy
from typing import NamedTuple

from models.cluster import rows
from models.cluster.arrays import F32, F64, I8, I32
from models.cluster.inventory import Inventory
from models.cluster.observation import Observation, Pipeline
from models.cluster.plan import Plan, empty_plan
from models.control.budget import CommanderDecision, no_decision
from models.control.commander import Commander
from models.control.demand import DemandEstimator, EstimatorState
from models.control.fallback import (
    no_fallback,
    usable_directive,
    usable_forecast,
    usable_residual,
)
from models.control.parameters import Parameters, Parts
from models.control.residual import Advisers, Residual, factors_of, neutral
from models.control.soldiers import Soldiers, SoldiersState
from models.features.pools import PoolReadings
from models.forecaster.port import Forecast, ticks_per_minute


class HeuristicState(NamedTuple):
    """What the heuristic remembers between ticks."""

    estimator: EstimatorState
    soldiers: SoldiersState
    decision: CommanderDecision
    """The last minute's."""
    level: I8
    """[E, D] a Level: what may decide at most."""


class Heuristic:
    """Decides for all environments of one cluster."""

    name = "heuristic"
    pipeline = Pipeline.OURS

    def __init__(
        self,
        inventory: Inventory,
        pools: int,
        parameters: Parameters,
        parts: Parts,
        advisers: Advisers | None = None,
    ) -> None:
        self._inventory, self._pools, self._parts = inventory, pools, parts
        self._advisers = advisers or Advisers()
        self.guarded = parts.breaker
        self._estimator = DemandEstimator(inventory, parameters, parts)
        self._soldiers = Soldiers(inventory, parameters, parts)
        self._commander = Commander(inventory, parameters)
        self._every = ticks_per_minute(inventory.tick_s)
        self._plan = empty_plan(0, inventory.domain.size, pools)

    @property
    def advisers(self) -> Advisers:
        """The policies beside it."""
        return self._advisers

    def advised(self, advisers: Advisers) -> "Heuristic":
        """A copy with other policies beside it."""
        other = copy.copy(self)
        other._advisers = advisers  # noqa: SLF001  of its own class
        return other

    def borrowing(self, other: "Heuristic", *, commander: bool, soldiers: bool) -> "Heuristic":
        """A copy with the Commander or the Soldiers of another one, their policies included."""
        advisers = Advisers(
            other.advisers.commander if commander else self.advisers.commander,
            other.advisers.soldier if soldiers else self.advisers.soldier,
        )
        mixed = self.advised(advisers)
        if commander:
            mixed._commander = other._commander  # noqa: SLF001  of its own class
        if soldiers:
            mixed._estimator, mixed._soldiers = other._estimator, other._soldiers  # noqa: SLF001
        return mixed

    def start(self, observation: Observation) -> HeuristicState:
        """The state before the first observation."""
        domains = self._inventory.priority.size
        return HeuristicState(
            estimator=self._estimator.start(observation),
            soldiers=self._soldiers.start(observation.status),
            decision=no_decision(observation.tick.size, domains, self._pools),
            level=no_fallback(observation.tick.size, domains),
        )

    def step(
        self,
        observation: Observation,
        forecast: Forecast | None,
        state: HeuristicState,
        residual: Residual | None = None,
    ) -> tuple[Plan, HeuristicState]:
        """Soldiers decide each tick by the last directive, the Commander when a minute begins.

        Its node request takes effect at once, its directive from the next tick on. The Commander's
        part of a policy's `residual` applies to the minute that begins. Advisers replace their
        parts of it. The level of the state limits what all may use.
        """
        plan, decision, tick = self._plan_for(observation), state.decision, observation.tick
        level, apps = state.level, observation.status
        signals, estimator = self._estimator.step(observation, state.estimator)
        directive = usable_directive(decision.directive, level, self._soldiers.cushion)
        residual = residual or neutral(tick.size)
        if self._advisers.soldier is not None:
            factors = self._advisers.soldier(apps, signals, directive)
            residual = residual._replace(**factors._asdict())
        residual = usable_residual(residual, level, apps[:, rows.DOMAIN])
        # Soldiers first, under the last directive: their report is what the Commander decides on.
        report = self._soldiers.step(
            tick, apps, signals, directive, state.soldiers, plan, factors_of(residual)
        )
        # By epoch, not by tick: when a minute's first tick is lost, the next one decides.
        epoch = tick // self._every
        begins = bool((epoch > decision.directive.budget.epoch).any())
        if begins:
            pools = PoolReadings(observation.pool, self._inventory)
            usable = usable_forecast(forecast, level)
            if self._advisers.commander is not None:
                advice = self._advisers.commander(tick, pools, report, usable)
                residual = usable_residual(advice, level, apps[:, rows.DOMAIN])
            decision = self._commander.decide(tick, pools, report, usable, epoch, residual)
        if self._parts.coordination:
            # The request is for nodes beyond those coming: repeated, it would order them each tick.
            plan.nodes[:] = decision.nodes if begins else 0
            plan.keep[:] = decision.keep
        return plan, HeuristicState(estimator, state.soldiers, decision, level)

    def may_hold(self, tick: I32, state: HeuristicState) -> F64:
        """[E, 2, D] under the budgets of the last minute; infinite in an ablation without them."""
        return self._soldiers.may_hold(tick, state.decision.directive.budget)

    def load(self, state: HeuristicState) -> F32:
        """[E, A] as the Soldiers saw it."""
        return state.estimator.demand.load

    def at_level(self, level: I8, state: HeuristicState) -> HeuristicState:
        """Decide the next step with at most what the levels allow."""
        return state._replace(level=level)

    def overruns(self, state: HeuristicState) -> I32:
        """[E] increases beyond a budget so far."""
        return state.soldiers.overruns.copy()

    def insured(self, state: HeuristicState) -> I32:
        """[E, P] nodes that would not be kept without insurance."""
        return state.decision.insured

    def _plan_for(self, observation: Observation) -> Plan:
        """The buffer of the plan, allocated again when the number of environments changes."""
        environments, apps = observation.missing.shape
        if self._plan.replicas.shape[0] != environments:
            self._plan = empty_plan(environments, apps, self._pools)
            self._plan.coordinated[:] = int(self._parts.coordination)
        return self._plan
