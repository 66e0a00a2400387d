"""What the breakers cost in healthy runs, and save when a controller or a forecast goes wrong."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
import numpy as np

from models.cluster import rows
from models.cluster.arrays import F32, F64, I8, I32
from models.cluster.description import PRIORITIES
from models.cluster.observation import Observation
from models.cluster.plan import Plan, Reason
from models.compare.ablation import heuristic_of
from models.compare.catalogue import Entrant, entrant_of
from models.compare.forecast_faults import FAULTS, FaultyForecaster
from models.compare.run import Run
from models.control.breaker.actions import Cause, Phase
from models.control.breaker.fallback import FallbackMemory
from models.control.breaker.limits import Thresholds
from models.control.fallback import no_fallback
from models.control.hierarchy import Heuristic, HeuristicState
from models.control.parameters import Parts
from models.control.tuned import tuned_parameters
from models.forecaster.port import Forecast
from models.sim.config.physics import SimCluster, with_scheduling
from models.sim.config.scenario import Scenario
from models.sim.results.summary import summarise
from models.sim.world import World

CONTROLLER: Final = "heuristic:calendar"
FAULTY: Final = "faulty"
BAD_FORECASTS: Final = {f"{fault} forecast": fault for fault in FAULTS}
"""The sound controller with a forecaster that goes wrong, by name."""
_NEVER: Final = 10**6
_NO_FALLBACK: Final = Thresholds(skill_ticks=_NEVER, output_ticks=_NEVER)
_FAULT_TICKS: Final = (60, 150)
"""After the warm-up: the fault lasts for 15 minutes; a wrong forecast stays wrong."""
_TAKEN: Final = 0.985
"""Of each P0 app's replicas that the faulty controller leaves per tick: within the blast radius."""
_NOTABLE: Final = 0.01
"""Change of a seed's J that counts as better or worse."""
_BACK: Final = 0.95
"""A rollback is done at this share of the replicas before the fault."""


class BreakerRow(msgspec.Struct, frozen=True, kw_only=True):
    """One scenario; means over the seeds."""

    scenario: str
    world_hash: str
    controller: str
    objective: float
    """J with breakers."""
    objective_without: float
    """J without breakers; with a wrong forecast, with breakers that never fall back."""
    change: float
    """J with breakers over J without, less 1."""
    median_change: float
    """The same of the median seed."""
    better: int
    """Seeds whose J is lower by more than 1 % with breakers."""
    worse: int
    """Seeds whose J is higher by more than 1 %."""
    p0_minutes: float
    """P0 violation minutes with breakers."""
    p0_minutes_without: float
    trips: dict[str, int]
    """By domain and cause, over all seeds."""
    share_not_closed: float
    """Of all ticks of all domains."""
    first_trip_s: float | None
    """Mean time from the fault to the first trip; None where there is no fault or no trip."""
    rollback_s: float | None
    """Mean time from the first trip to 95 % of the P0 replicas before the fault."""
    fallback_s: dict[str, float]
    """By priority, mean time from the first wrong forecast until domains do without it."""


class Shrinking:
    """The heuristic with a fault: for a while it takes replicas from P0 whatever they need."""

    name = FAULTY
    pipeline = Heuristic.pipeline

    def __init__(self, world: World, parts: Parts) -> None:
        self._heuristic = heuristic_of(world, tuned_parameters(), parts)
        self._p0 = np.flatnonzero(world.given.rules.domains["priority"] == 0)
        warmup = world.timeline.warmup_ticks
        self._from, self._to = (warmup + tick for tick in _FAULT_TICKS)
        self.guarded = self._heuristic.guarded

    def start(self, observation: Observation) -> HeuristicState:
        """The state before the first step."""
        return self._heuristic.start(observation)

    def step(
        self, observation: Observation, forecast: Forecast | None, state: HeuristicState
    ) -> tuple[Plan, HeuristicState]:
        """The heuristic's plan, but for the fault."""
        plan, state = self._heuristic.step(observation, forecast, state)
        if self._from <= int(observation.tick[0]) < self._to:
            status = observation.status
            chosen = np.isin(status[:, rows.DOMAIN], self._p0) & (status[:, rows.REPLICAS] > 1)
            fewer = np.floor(_TAKEN * status[:, rows.REPLICAS]).astype(np.int32)
            plan.replicas[chosen] = np.maximum(fewer, 1)[chosen]
            plan.reason[chosen] = int(Reason.SCALE_IN)
        return plan, state

    def may_hold(self, tick: I32, state: HeuristicState) -> F64:
        """[E, 2, D] under the budgets in force."""
        return self._heuristic.may_hold(tick, state)

    def load(self, state: HeuristicState) -> F32:
        """[E, A] as the heuristic saw it."""
        return self._heuristic.load(state)

    def at_level(self, level: I8, state: HeuristicState) -> HeuristicState:
        """Obeys, but for the fault."""
        return self._heuristic.at_level(level, state)

    def overruns(self, state: HeuristicState) -> I32:
        """[E] increases beyond a budget so far."""
        return self._heuristic.overruns(state)


def measure_breakers(
    controller: str,
    cluster: SimCluster,
    scenario: Scenario,
    seeds: Sequence[int],
    on_tick: Callable[[], None],
) -> BreakerRow:
    """Run a scenario with and without breakers.

    `controller` is CONTROLLER, FAULTY or one of BAD_FORECASTS.
    """
    with_breakers = _Watch(_run(controller, True, cluster, scenario, seeds))
    without = _Watch(_run(controller, False, cluster, scenario, seeds))
    for watch in (with_breakers, without):
        while not watch.run.finished:
            watch.step()
            on_tick()
    results = [summarise(watch.world, controller, watch.run.decisions()) for watch in
               (with_breakers, without)]  # fmt: skip
    mine, plain = (np.array([row.objective for row in found]) for found in results)
    changes = mine / plain - 1
    minutes = [np.mean([row.violation_minutes["P0"] for row in found]) for found in results]
    tripped, back = with_breakers.times() if controller == FAULTY else (None, None)
    return BreakerRow(
        scenario=scenario.name,
        world_hash=with_breakers.world.hash,
        controller=controller,
        objective=float(np.mean(mine)),
        objective_without=float(np.mean(plain)),
        change=float(np.mean(mine) / np.mean(plain) - 1),
        median_change=float(np.median(changes)),
        better=int((changes < -_NOTABLE).sum()),
        worse=int((changes > _NOTABLE).sum()),
        p0_minutes=float(minutes[0]),
        p0_minutes_without=float(minutes[1]),
        trips=dict(sorted(with_breakers.trips.items())),
        share_not_closed=with_breakers.not_closed / max(1, with_breakers.judged),
        first_trip_s=tripped,
        rollback_s=back,
        fallback_s=with_breakers.fallback_times() if controller in BAD_FORECASTS else {},
    )


def _run(
    controller: str,
    guarded: bool,
    cluster: SimCluster,
    scenario: Scenario,
    seeds: Sequence[int],
) -> tuple[World, Run[Any]]:
    plain = entrant_of(CONTROLLER)
    world = World(with_scheduling(cluster, plain.scheduling), scenario, seeds)
    if controller in BAD_FORECASTS:
        wrong_from = world.timeline.warmup_ticks + _FAULT_TICKS[0]
        forecaster = FaultyForecaster(
            _forecaster(plain, world), BAD_FORECASTS[controller], wrong_from
        )
        limits = None if guarded else _NO_FALLBACK
        return world, Run(world, plain.controller(world), forecaster, limits)
    if controller == FAULTY:
        shrinking = Shrinking(world, Parts()._replace(breaker=guarded))
        return world, Run(world, shrinking, _forecaster(plain, world))
    entrant = entrant_of(controller if guarded else f"{controller}/no-breaker")
    return world, Run(world, entrant.controller(world), _forecaster(entrant, world))


def _forecaster(entrant: Entrant, world: World) -> Any:
    return entrant.forecaster(world) if entrant.forecaster is not None else None


class _Watch:
    """Counts what the breakers of a run do."""

    def __init__(self, made: tuple[World, Run[Any]]) -> None:
        self.world, self.run = made
        self.trips: dict[str, int] = {}
        self.not_closed = self.judged = 0
        self._names = (*self.world.cluster.domain_names, "cluster")
        self._closed = np.ones((self.world.environments, len(self._names)), np.bool_)
        self._fault = self.world.timeline.warmup_ticks + _FAULT_TICKS[0]
        self._before: I32 | None = None
        none = np.full(self.world.environments, -1, np.int64)
        self._tripped, self._back = none, none.copy()
        domains = len(self.world.cluster.domain_names)
        self._level = no_fallback(self.world.environments, domains)
        self._fell = np.full((self.world.environments, domains), -1, np.int64)

    def step(self) -> None:
        """Advance by a tick."""
        tick = self.world.tick
        if tick == self._fault:
            self._before = self._p0_replicas()
        self.run.step()
        state = self.run.breakers.state
        if state is None:
            return
        phase, cause = (
            np.concatenate([getattr(state.breakers, name), getattr(state.cluster, name)], axis=1)
            for name in ("phase", "cause")
        )
        closed = phase == Phase.CLOSED
        for env, scope in zip(*np.nonzero(self._closed & ~closed), strict=True):
            label = f"{self._names[scope]} {Cause(cause[env, scope]).label}"
            self.trips[label] = self.trips.get(label, 0) + 1
        self._closed = closed
        self._note_fallbacks(tick, state.fallback)
        self.not_closed += int((~closed).sum())
        self.judged += closed.size
        if self._before is not None:
            self._note(tick, ~closed.all(axis=1))

    def times(self) -> tuple[float | None, float | None]:
        """Seconds from the fault to the first trip, and from there to the replicas before it."""
        tick_s, known = self.world.cluster.tick_seconds, self._tripped >= 0
        back = known & (self._back >= 0)
        first = (self._tripped - self._fault)[known]
        return (
            float(first.mean()) * tick_s if known.any() else None,
            float((self._back - self._tripped)[back].mean()) * tick_s if back.any() else None,
        )

    def fallback_times(self) -> dict[str, float]:
        """Seconds from the fault until domains of each priority fell back."""
        tick_s, times = self.world.cluster.tick_seconds, dict[str, float]()
        priority = self.world.given.rules.domains["priority"]
        for level, name in enumerate(PRIORITIES):
            fell = self._fell[:, priority == level]
            if (fell >= 0).any():
                times[name] = float((fell[fell >= 0] - self._fault).mean()) * tick_s
        return times

    def _note_fallbacks(self, tick: int, fallback: FallbackMemory) -> None:
        falls = fallback.level > self._level
        for env, domain in zip(*np.nonzero(falls), strict=True):
            label = f"{self._names[domain]} {Cause(fallback.cause[env, domain]).label}"
            self.trips[label] = self.trips.get(label, 0) + 1
        self._level = fallback.level
        self._fell = np.where(falls & (self._fell < 0), tick, self._fell)

    def _note(self, tick: int, tripped: Any) -> None:
        self._tripped = np.where((self._tripped < 0) & tripped, tick, self._tripped)
        restored = self._p0_replicas() >= _BACK * np.asarray(self._before)
        done = (self._tripped >= 0) & (self._back < 0) & (tick > self._tripped) & restored
        self._back = np.where(done, tick, self._back)

    def _p0_replicas(self) -> I32:
        status = self.world.state.status
        p0 = np.flatnonzero(self.world.given.rules.domains["priority"] == 0)
        mine = np.isin(status[:, rows.DOMAIN], p0) & (status[:, rows.ACTIVE] == 1)
        total: I32 = np.where(mine, status[:, rows.REPLICAS], 0).sum(axis=1)
        return total
