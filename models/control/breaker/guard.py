"""The breakers of a simulated cluster: what the services' breaker and actuator do to plans.

Every measured run of our controllers goes through it, so that results include what the breaker
costs and saves. It also says at which level the controller decides the next tick. In a simulated
run frames are never late and writes never lost, so nothing is stale or mismatched here. E
environments, D domains, A apps.
"""

from typing import Final, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from models.cluster import rows
from models.cluster.arrays import F32, F64, I32, Mask
from models.cluster.inventory import Inventory
from models.cluster.observation import Observation
from models.cluster.plan import Plan, Reason
from models.control.breaker.actions import Cause, Phase, action_of, permitted
from models.control.breaker.changes import (
    ChangeMemory,
    follow,
    rollback_targets,
    start_changes,
)
from models.control.breaker.cluster import (
    ClusterReadings,
    ClusterThresholds,
    advance_cluster,
    cluster_table,
)
from models.control.breaker.fallback import FallbackMemory, advance_levels, start_fallback
from models.control.breaker.forecasts import (
    ForecastRecord,
    add_forecast,
    forecast_readings,
    observe_tick,
    start_record,
)
from models.control.breaker.limits import Thresholds, fallback_table, graded, table_of
from models.control.breaker.phases import IS_OUTAGE, BreakerMemory, advance, start, windows_of
from models.control.breaker.readings import AppSamples, read, sums
from models.control.projection import MILLICORES
from models.control.safety import SafetyRules
from models.forecaster.port import Forecast, ticks_per_minute
from models.jit import kernel
from schemas.breaker_changed import Action

_COLUMNS: Final = (rows.REPLICAS, rows.CPU_REQUEST, rows.MEMORY_REQUEST)
_GIVING: Final = [int(Reason.YIELD), int(Reason.RESIZE)]
# numpy looks for a dozen attributes of an enumeration's member in every comparison.
_CLOSED: Final = int(Phase.CLOSED)
_ACTIONS: Final = get_args(Action)
_ACTION_INDEX: Final = np.array(
    [[_ACTIONS.index(action_of(phase, cause)) for cause in Cause] for phase in Phase]
)
_PERMITTED: Final = np.array(
    [
        [[permitted((own, cluster), priority) for priority in (0, 1)] for cluster in _ACTIONS]
        for own in _ACTIONS
    ]
)


class GuardState(NamedTuple):
    """What the breakers remember; `changes` is updated in place."""

    breakers: BreakerMemory
    cluster: BreakerMemory
    changes: ChangeMemory
    forecasts: ForecastRecord
    fallback: FallbackMemory


class Basis(NamedTuple):
    """What a plan was made on, besides the observation."""

    may_hold: F64
    """[E, 2, D] millicores and MiB under the budgets in force; infinite without budgets."""
    load: F32
    """[E, A] pods that each app's traffic would use fully."""


class Guard:
    """Cuts the plans of all environments of one cluster, in place."""

    def __init__(
        self,
        inventory: Inventory,
        limits: Thresholds | None = None,
        cluster: ClusterThresholds | None = None,
    ) -> None:
        plain = limits or Thresholds()
        self._inventory, self._rules = inventory, SafetyRules(inventory)
        self._limits = tuple(graded(plain, priority) for priority in inventory.priority.tolist())
        self._table, self._windows = table_of(self._limits), windows_of(self._limits)
        self._fallback = fallback_table(self._limits)
        self._per_minute = ticks_per_minute(inventory.tick_s)
        self._cluster = cluster_table(cluster or ClusterThresholds(), plain)
        self._target = inventory.latency_target.astype(np.float64)
        self._mismatch_apps = np.array([x.mismatch_apps for x in self._limits], np.int32)

    def start(self, observation: Observation) -> GuardState:
        """All closed."""
        environments, apps = observation.missing.shape
        tick = int(observation.tick[0])
        return GuardState(
            start(tick, environments, self._table, self._windows.longest),
            start(tick, environments, self._cluster, 0),
            start_changes(environments, len(self._limits), apps),
            start_record(observation, len(self._limits)),
            start_fallback(environments, self._fallback),
        )

    def step(
        self,
        observation: Observation,
        forecast: Forecast | None,
        basis: Basis,
        plan: Plan,
        state: GuardState,
    ) -> GuardState:
        """Judge the tick and its forecast, then cut the plan to what the breakers let pass."""
        samples = self._samples(observation)
        environments, domains = samples.domain.shape[0], len(self._limits)
        age = np.zeros((environments, domains))
        readings = read(samples, age, self._mismatch_apps)
        # The world makes every change of a plan, so none is held.
        outcomes = np.zeros((environments, domains, 2))
        readings = follow(observation.tick, samples, readings, outcomes, state.changes)
        breakers = advance(observation.tick, readings, state.breakers, self._table, self._windows)
        cluster = advance_cluster(
            observation.tick, self._cluster_readings(observation, breakers), state.cluster,
            self._cluster,
        )  # fmt: skip
        forecasts = self._judge_forecasts(observation, forecast, state.forecasts)
        fallback = advance_levels(forecast_readings(forecasts), state.fallback, self._fallback)
        after = GuardState(breakers, cluster, state.changes, forecasts, fallback)
        if (breakers.phase != _CLOSED).any() or (cluster.phase != _CLOSED).any():
            self._cut(observation, samples, basis, plan, after)
        return after

    def _judge_forecasts(
        self, observation: Observation, forecast: Forecast | None, record: ForecastRecord
    ) -> ForecastRecord:
        if forecast is None:
            return record
        record = observe_tick(observation, record, self._per_minute)
        # A forecast is repeated until the next one is made.
        tick = int(observation.tick[0])
        if tick % self._per_minute or int(forecast.made_tick[0]) != tick:
            return record
        return add_forecast(tick // self._per_minute, forecast.domain, record)

    def _samples(self, observation: Observation) -> AppSamples:
        shape = observation.missing.shape
        rps, errors, headroom = np.empty((3, *shape))
        domain, replicas, cpu, pending = np.empty((4, *shape), np.int32)
        samples = AppSamples(
            domain=domain,
            missing=observation.missing == 1,
            rps=rps,
            errors=errors,
            headroom=headroom,
            replicas=replicas,
            cpu=cpu,
            pending=pending,
            accepted=np.empty((*shape, 0), np.int32),
        )
        _fill_samples(observation.measured, observation.status, self._target, samples)
        return samples

    def _cluster_readings(
        self, observation: Observation, breakers: BreakerMemory
    ) -> ClusterReadings:
        pool, inventory = observation.pool, self._inventory
        price = (pool["ready"] + pool["coming"]) @ inventory.pool_price.astype(np.float64)
        zero = np.zeros(observation.tick.size)
        return ClusterReadings(
            domains=tripped(breakers).sum(axis=1) / len(self._limits),
            cost=price / inventory.spend_cap_per_hour,
            # Commander and budgets are part of the controller: never silent, and their sums exact.
            silence=zero,
            budgets=zero,
        )

    def _cut(
        self,
        observation: Observation,
        samples: AppSamples,
        basis: Basis,
        plan: Plan,
        state: GuardState,
    ) -> None:
        grow, give, save = permissions(state, self._inventory.priority)
        planned = (plan.replicas, plan.cpu, plan.memory)
        current = [observation.status[:, row] for row in _COLUMNS]
        steps = np.stack([after - before for after, before in zip(planned, current, strict=True)])
        # A change is held as a whole: more of one and less of another belong together.
        held = (steps > 0).any(axis=0) & ~_of_apps(grow, samples.domain)
        may_shrink = np.where(
            np.isin(plan.reason, _GIVING),
            _of_apps(give, samples.domain),
            _of_apps(save, samples.domain),
        )
        held |= (steps < 0).any(axis=0) & ~may_shrink
        for after, before in zip(planned, current, strict=True):
            after[held] = before[held]
        rolling = (state.breakers.phase == Phase.HALF_OPEN) & grow
        rolling &= state.breakers.cause == Cause.REGRESSION
        if rolling.any():
            self._roll_back(rolling, basis.may_hold, samples, plan, state)
        if held.any():
            self._rules.fit_again(
                observation.tick, observation.status, basis.load, basis.may_hold, plan
            )

    def _roll_back(
        self, rolling: Mask, limit: F64, samples: AppSamples, plan: Plan, state: GuardState
    ) -> None:
        """Step back to the last good replicas, as far as the budgets allow; `limit` [E, 2, D]."""
        room = limit[:, MILLICORES] - self._held(plan.replicas, plan, samples)[:, MILLICORES]
        back = rollback_targets(samples, state.changes, np.where(rolling, room, 0.0))
        after = np.maximum(plan.replicas, back)
        # A pod per app may be more than the room, and memory has a limit of its own.
        fits: Mask = np.asarray((self._held(after, plan, samples) <= limit).all(axis=1))
        chosen = _of_apps(fits, samples.domain)
        plan.replicas[chosen] = after[chosen]

    def _held(self, replicas: I32, plan: Plan, samples: AppSamples) -> F64:
        """[E, 2, D] millicores and MiB of these replicas in the planned sizes."""
        domain, domains = samples.domain, len(self._limits)
        sizes = (plan.cpu, plan.memory)
        return np.stack([sums(replicas * size, domain, domains) for size in sizes], axis=1)


@kernel
def _fill_samples(measured: F32, status: I32, target: F64, samples: AppSamples) -> None:
    """Rows of an observation, as the rules read them."""
    for e in range(status.shape[0]):
        for app in range(status.shape[2]):
            active = status[e, rows.ACTIVE, app] == 1
            samples.domain[e, app] = status[e, rows.DOMAIN, app] if active else -1
            samples.rps[e, app] = measured[e, rows.RPS, app]
            samples.errors[e, app] = measured[e, rows.ERRORS, app]
            samples.headroom[e, app] = 1 - np.float64(measured[e, rows.P99, app]) / target[app]
            samples.replicas[e, app] = status[e, rows.REPLICAS, app]
            samples.cpu[e, app] = status[e, rows.CPU_REQUEST, app]
            samples.pending[e, app] = status[e, rows.PENDING, app]


def tripped(breakers: BreakerMemory) -> Mask:
    """[E, D] breakers that are not closed, for another reason than an outage of ours."""
    found: Mask = (breakers.phase != _CLOSED) & ~IS_OUTAGE[breakers.cause]
    return found


def permissions(state: GuardState, priority: I32) -> tuple[Mask, Mask, Mask]:
    """[E, D] whether increases, decreases that give way, and savings may be applied.

    As `actions.permitted`, looked up for every combination of the two breakers.
    """
    own = _actions(state.breakers)
    cluster = np.broadcast_to(_actions(state.cluster), own.shape)
    found = _PERMITTED[own, cluster, np.minimum(priority, 1)]
    return found[..., 0], found[..., 1], found[..., 2]


def _actions(memory: BreakerMemory) -> NDArray[np.intp]:
    """[E, D] indices of the actions."""
    return _ACTION_INDEX[memory.phase, memory.cause]


def _of_apps(mask: Mask, domain: I32) -> Mask:
    """[E, A] the value of each app's domain; apps that are not declared are not ours to change."""
    padded = np.pad(mask, ((0, 0), (0, 1)))
    found: Mask = padded[np.arange(mask.shape[0])[:, None], domain]
    return found
