"""The hierarchical heuristic: Commander, Soldiers and the actuator's rules, in one process."""

from typing import NamedTuple

import numpy as np

from models.control.actuator import workspace
from models.control.heuristic.aggregates import aggregate
from models.control.heuristic.commander import Commander, Orders, look_ahead
from models.control.heuristic.demand import gains, update_demand
from models.control.heuristic.parameters import Parameters, Parts
from models.control.heuristic.residual import (
    Residual,
    neutral,
    with_distress,
    with_headroom,
    with_urgency,
)
from models.control.heuristic.soldier import WINDOW_MIN, foresee
from models.control.heuristic.squad import (
    MILLI,
    Sight,
    Squad,
    Stance,
    command,
    settle,
    start_squad,
)
from models.features.encode import Encoder
from models.features.memory import FeatureState
from models.features.normalise import Features, by_feature
from models.features.pools import Seen
from models.features.table import DOMAIN as DOMAIN_LEVEL
from models.forecaster.port import Forecast
from models.jit import kernel
from models.sim.apps import F32, F64, I32
from models.sim.inventory import Inventory
from models.sim.observe import Observation, Pipeline
from models.sim.plan import Plan, empty_plan
from models.sim.state import DOMAIN

_RPS = DOMAIN_LEVEL.at("rps")


class HeuristicState(NamedTuple):
    """What the heuristic remembers between ticks."""

    features: FeatureState
    squad: Squad
    orders: Orders | None
    """Of the last minute; None before the first."""


class Heuristic:
    """Decides for all environments of one cluster."""

    name = "heuristic"
    pipeline = Pipeline.OURS

    def __init__(
        self, inventory: Inventory, pools: int, parameters: Parameters, parts: Parts
    ) -> None:
        self._inventory, self._pools, self._parts = inventory, pools, parts
        self._encoder = Encoder(inventory)
        self._commander = Commander(inventory, parameters)
        self._gains = gains(parameters.smoothing if parts.damping else 1.0, inventory.tick_s)
        self._target = parameters.target(inventory.priority)
        self._surge = np.maximum(parameters.surge_target, self._target)
        self._foreseen = self._commander.foreseen_level
        self._every = max(1, 60 // inventory.tick_s)
        self._settled = settle(inventory, parameters, parts)
        self._work = workspace(inventory.priority.size, inventory.domain.size)
        self._plan = empty_plan(0, inventory.domain.size, pools)

    def start(self, observation: Observation) -> HeuristicState:
        """A memory that has seen nothing."""
        return HeuristicState(
            features=self._encoder.start(observation),
            squad=start_squad(observation, self._inventory),
            orders=None,
        )

    def step(
        self,
        observation: Observation,
        forecast: Forecast | None,
        state: HeuristicState,
        residual: Residual | None = None,
    ) -> tuple[Plan, HeuristicState]:
        """Soldiers decide each tick, the Commander at the beginning of each minute.

        Of a policy's `residual` the Commander's part counts for the minute that begins.
        """
        plan, squad = self._fit(observation), state.squad
        residual = residual or neutral(observation.tick.size)
        # By epoch, so that a lost tick costs no more than itself.
        epoch = observation.tick // self._every
        orders = state.orders
        begins = orders is None or bool((epoch > orders.budget.epoch).any())
        if orders is None or begins:
            features, memory = self._encoder.encode(observation, state.features)
            seen = by_feature(features.app)
            update_demand(squad.demand, seen, observation.known, self._gains)
            orders = self._order(observation, features, forecast, squad, residual)
            squad.release[:] = MILLI * orders.release * float(self._parts.budget)
        else:
            apps, memory = self._encoder.encode_apps(observation, state.features)
            seen = by_feature(apps)
            update_demand(squad.demand, seen, observation.known, self._gains)
        if self._parts.coordination:
            plan.nodes[:] = orders.nodes if begins else 0
            plan.keep[:] = orders.keep
        sight = Sight(seen, observation.known, observation.tick, int(epoch[0]) % WINDOW_MIN, begins)
        stance = self._stance(observation.tick, orders, residual)
        command(sight, stance, squad, self._settled, self._work, plan)
        return plan, HeuristicState(memory, squad, orders)

    def overruns(self, state: HeuristicState) -> I32:
        """[E] increases beyond a budget so far."""
        return state.squad.overruns.copy()

    def _order(
        self,
        observation: Observation,
        features: Features,
        forecast: Forecast | None,
        squad: Squad,
        residual: Residual,
    ) -> Orders:
        """What the Commander decides for the minute that begins."""
        tick, known, load = observation.tick, observation.known, squad.demand.load
        outlook = look_ahead(tick, features.domain[..., _RPS].astype(np.float64), forecast)
        outlook = with_headroom(outlook, residual.headroom)
        foreseen = squad.memory.foreseen
        _foresee_all(load, known, outlook.soon.astype(np.float32), foreseen)
        domains = aggregate(
            load, foreseen, squad.memory.need, known, squad.wanted, features, self._settled.highest
        )
        orders = self._commander.decide(
            tick,
            Seen(observation.pool, self._inventory),
            with_distress(domains, residual.urgency),
            outlook,
            tick // self._every,
        )
        return orders._replace(budget=with_urgency(orders.budget, residual.urgency))

    def _fit(self, observation: Observation) -> Plan:
        environments, apps = observation.missing.shape
        if self._plan.replicas.shape[0] != environments:
            self._plan = empty_plan(environments, apps, self._pools)
            self._plan.coordinated[:] = int(self._parts.coordination)
        return self._plan

    def _stance(self, tick: I32, orders: Orders, residual: Residual) -> Stance:
        budget = orders.budget
        per_target = (1.0 + budget.headroom) / self._target
        per_surge = (1.0 + budget.headroom) / self._surge
        return Stance(
            per_target=per_target.astype(np.float32),
            per_surge=per_surge.astype(np.float32),
            per_foreseen=((1.0 + budget.headroom) / self._foreseen).astype(np.float32),
            urgency=budget.urgency.astype(np.float32),
            allowed=self._allowed(tick, orders),
            factor=residual.need,
        )

    def _allowed(self, tick: I32, orders: Orders) -> F64:
        """[E, D] millicores."""
        budget = orders.budget
        if not self._parts.budget:
            return np.full_like(budget.cores, np.inf)
        expired = (tick > budget.valid_until_tick)[:, None]
        allowed: F64 = MILLI * np.where(expired, budget.floor, budget.cores + budget.overdraft)
        return allowed


@kernel
def _foresee_all(load: F32, known: I32, growth: F32, foreseen: F32) -> None:
    for e in range(load.shape[0]):
        foresee(load[e], known[e, DOMAIN], growth[e], foreseen[e])
