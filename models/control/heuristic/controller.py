"""The hierarchical heuristic: Commander, Soldiers and the actuator's rules, in one process."""

from typing import NamedTuple

import numpy as np

from models.control.actuator import (
    Allowed,
    Restraint,
    Workspace,
    cool_down_ticks,
    enforce,
    held_sizes,
    left_of_blast,
    left_of_budget,
    overruns,
    start_restraint,
    without_surge,
    workspace,
)
from models.control.heuristic.aggregates import aggregate
from models.control.heuristic.commander import Commander, Orders, look_ahead
from models.control.heuristic.demand import Demand, gains, start_demand, update_demand
from models.control.heuristic.parameters import Parameters, Parts
from models.control.heuristic.residual import (
    Residual,
    neutral,
    scale_need,
    with_distress,
    with_headroom,
    with_urgency,
)
from models.control.heuristic.soldier import (
    MODEST_S,
    WINDOW_MIN,
    Damping,
    Memory,
    Stance,
    foresee,
    give_way,
    need_pods,
    remember_need,
    start_soldiers,
    want,
)
from models.control.vertical import FirstSizes, resize
from models.features.encode import Encoder
from models.features.memory import FeatureState
from models.features.normalise import by_feature
from models.features.pools import Seen
from models.features.table import APP
from models.features.table import DOMAIN as DOMAIN_LEVEL
from models.forecaster.port import Forecast
from models.jit import copy_row, kernel
from models.sim.apps import F32, F64, I8, I32
from models.sim.inventory import Inventory
from models.sim.observe import Observation, Pipeline
from models.sim.plan import Plan, empty_plan
from models.sim.state import ACTIVE, CPU_REQUEST, DOMAIN, MEMORY_REQUEST, PENDING, REPLICAS

_MISSING = APP.at("missing")
_RPS = DOMAIN_LEVEL.at("rps")
_MILLI = 1000.0


class HeuristicState(NamedTuple):
    """What the heuristic remembers between ticks."""

    features: FeatureState
    demand: Demand
    memory: Memory
    restraint: Restraint
    first: FirstSizes
    orders: Orders | None
    """Of the last minute; None before the first."""
    wanted: F64
    """[E, D] cores that the Soldiers would hold without limits."""
    release: F64
    """[E, D] millicores still to be given back in this minute."""
    overruns: I32
    """[E] increases beyond a budget so far: none, if all is well."""


class Settled(NamedTuple):
    """Constants of the kernels."""

    least: I32
    most: I32
    damping: Damping
    cool_down: int
    modest: int
    vertical: bool
    highest: I8
    """[D] 1 for the highest priority."""
    patient: I8
    """[D] 0 for the lowest priority: its apps give way before they have rested."""


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
        self._every = max(1, 60 // inventory.tick_s)
        self._settled = Settled(
            inventory.min_replicas,
            inventory.max_replicas,
            parameters.damping(inventory.priority, parts),
            cool_down_ticks(inventory.tick_s) if parts.damping else 0,
            MODEST_S // inventory.tick_s,
            parts.vertical,
            (inventory.priority == inventory.priority.min()).astype(np.int8),
            (inventory.priority < inventory.priority.max()).astype(np.int8),
        )
        self._work = workspace(inventory.priority.size, inventory.domain.size)
        self._plan = empty_plan(0, inventory.domain.size, pools)

    def start(self, observation: Observation) -> HeuristicState:
        """A memory that has seen nothing."""
        environments, apps = observation.missing.shape
        domains = self._inventory.priority.size
        return HeuristicState(
            features=self._encoder.start(observation),
            demand=start_demand(observation),
            memory=start_soldiers(environments, apps),
            restraint=start_restraint(environments, apps, domains, self._inventory.tick_s),
            first=FirstSizes(
                observation.known[:, CPU_REQUEST].copy(),
                observation.known[:, MEMORY_REQUEST].copy(),
            ),
            orders=None,
            wanted=np.zeros((environments, domains)),
            release=np.zeros((environments, domains)),
            overruns=np.zeros(environments, np.int32),
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
        plan = self._fit(observation)
        residual = residual or neutral(observation.tick.size)
        # By epoch, so that a lost tick costs no more than itself.
        epoch = observation.tick // self._every
        begins = state.orders is None or bool((epoch > state.orders.budget.epoch).any())
        if begins:
            features, memory = self._encoder.encode(observation, state.features)
            seen = by_feature(features.app)
            update_demand(state.demand, seen, observation.known, self._gains)
            outlook = look_ahead(
                observation.tick, features.domain[..., _RPS].astype(np.float64), forecast
            )
            outlook = with_headroom(outlook, residual.headroom)
            _foresee_all(
                state.demand.load, observation.known, outlook.soon.astype(np.float32),
                state.memory.foreseen,
            )  # fmt: skip
            domains = aggregate(
                state.demand.load, state.memory.foreseen, state.memory.need, observation.known,
                state.wanted, features, self._settled.highest,
            )  # fmt: skip
            orders = self._commander.decide(
                observation.tick,
                Seen(observation.pool, self._inventory),
                with_distress(domains, residual.urgency),
                outlook,
                epoch,
            )
            orders = orders._replace(budget=with_urgency(orders.budget, residual.urgency))
            release = _MILLI * orders.release * float(self._parts.budget)
            state = state._replace(orders=orders, release=release)
        else:
            apps, memory = self._encoder.encode_apps(observation, state.features)
            seen = by_feature(apps)
            update_demand(state.demand, seen, observation.known, self._gains)
        state = state._replace(features=memory)
        if self._parts.coordination:
            plan.nodes[:] = _orders(state).nodes if begins else 0
            plan.keep[:] = _orders(state).keep
        _decide_all(
            seen, observation.known, observation.tick, self._allowed(observation.tick, state),
            self._stance(state), state.demand.load, state.demand.usual, state.memory,
            state.restraint, state.first, state.release, state.wanted, state.overruns,
            int(epoch[0]) % WINDOW_MIN, begins, self._settled,
            self._work, residual.need, plan,
        )  # fmt: skip
        return plan, state

    def overruns(self, state: HeuristicState) -> I32:
        """[E] increases beyond a budget so far."""
        return state.overruns.copy()

    def _fit(self, observation: Observation) -> Plan:
        environments, apps = observation.missing.shape
        if self._plan.replicas.shape[0] != environments:
            self._plan = empty_plan(environments, apps, self._pools)
            self._plan.coordinated[:] = int(self._parts.coordination)
        return self._plan

    def _stance(self, state: HeuristicState) -> Stance:
        budget = _orders(state).budget
        per_target = (1.0 + budget.headroom) / self._target
        per_surge = (1.0 + budget.headroom) / self._surge
        return Stance(*(row.astype(np.float32) for row in (per_target, per_surge, budget.urgency)))

    def _allowed(self, tick: I32, state: HeuristicState) -> Allowed:
        budget = _orders(state).budget
        expired = (tick > budget.valid_until_tick)[:, None]
        cores = np.where(expired, budget.floor, budget.cores + budget.overdraft)
        return Allowed(_MILLI * (cores if self._parts.budget else np.full_like(cores, np.inf)))


def _orders(state: HeuristicState) -> Orders:
    if state.orders is None:
        raise ValueError("the first step of a state gives the first orders")
    return state.orders


@kernel
def _foresee_all(load: F32, known: I32, growth: F32, foreseen: F32) -> None:
    for e in range(load.shape[0]):
        foresee(load[e], known[e, DOMAIN], growth[e], foreseen[e])


@kernel
def _decide_all(
    seen: F32,
    known: I32,
    ticks: I32,
    allowed: Allowed,
    stance: Stance,
    load: F32,
    usual: F32,
    memory: Memory,
    restraint: Restraint,
    first: FirstSizes,
    release: F64,
    wanted: F64,
    overrun: I32,
    slot: int,
    begins: bool,
    settled: Settled,
    work: Workspace,
    factor: F32,
    plan: Plan,
) -> None:
    """One tick of the Soldiers and of the actuator's rules, one environment after the other."""
    damping = settled.damping
    for e in range(load.shape[0]):
        tick, domain = ticks[e], known[e, DOMAIN]
        current, cpu, size = known[e, REPLICAS], known[e, CPU_REQUEST], work.size
        held_sizes(known[e, ACTIVE], cpu, restraint.sizing[e], size)
        without_surge(allowed.cores[e], known[e], size, work.limit)
        need, replicas, reason = memory.need[e], plan.replicas[e], plan.reason[e]
        need_pods(
            load[e], usual[e], memory.foreseen[e], domain, stance.per_target[e],
            stance.per_surge[e], need,
        )  # fmt: skip
        scale_need(need, factor[e])
        remember_need(need, memory.highest[e, slot], begins)
        want(
            seen[e], load[e], need, memory.highest[e], memory.modest_until[e], domain, current,
            stance.urgency[e], damping, tick, replicas, reason,
        )  # fmt: skip
        _sum_wanted(replicas, settled.most, size, domain, wanted[e])
        give_way(
            seen[e], load[e], known[e, PENDING], size, domain, current, restraint.rested[e],
            settled.patient, damping, tick, settled.modest, release[e], memory.modest_until[e],
            replicas, reason,
        )  # fmt: skip
        enforce(
            replicas, reason, current, known[e, PENDING], size, domain, seen[e, _MISSING], load[e],
            tick, settled.cool_down, settled.least, settled.most, work.limit,
            restraint.rested[e], restraint.decreased[e], work,
        )  # fmt: skip
        left_of_budget(replicas, size, domain, work.limit, work.room)
        left_of_blast(current, size, domain, restraint.decreased[e], work.held)
        resize(
            seen[e], need, replicas, settled.most, cpu, known[e, MEMORY_REQUEST], domain,
            first.cpu[e], first.memory[e], work.room, work.held,
            restraint.decreased[e, tick % restraint.decreased.shape[1]],
            plan.cpu[e], plan.memory[e], reason, settled.vertical,
        )  # fmt: skip
        copy_row(plan.cpu[e], restraint.sizing[e])
        held_sizes(known[e, ACTIVE], cpu, restraint.sizing[e], work.resized)
        overrun[e] += overruns(
            current, size, replicas, work.resized, domain, work.limit, work.held, work.room
        )


@kernel
def _sum_wanted(replicas: I32, most: I32, size: I32, domain: I32, wanted: F64) -> None:
    """[D] cores of what was wished, as far as the declared maxima go."""
    for place in range(wanted.size):
        wanted[place] = 0.0
    for app in range(replicas.size):
        wanted[domain[app]] += min(replicas[app], most[app]) * size[app] / _MILLI
