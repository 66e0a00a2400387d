"""Run a world under a controller, from its first tick to its last."""

import copy
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from models.cluster import rows
from models.cluster.arrays import Mask
from models.cluster.observation import Observation, Pipeline
from models.cluster.plan import Plan
from models.compare.breakers import Breakers
from models.control.breaker.limits import Thresholds
from models.control.controller import Controller, CountsOverruns, Insures
from models.forecaster.port import Forecast, Forecaster
from models.sim.config.script import EXPORTER, OUTAGE_ZERO
from models.sim.observe import outages_now
from models.sim.results.summary import Decisions
from models.sim.world import World, WorldSnapshot

S = TypeVar("S")


class RunSnapshot(NamedTuple):
    """Everything that changes in a run; a restored run continues bit for bit."""

    world: WorldSnapshot
    decided: Any
    """States of controller, forecaster and breakers, and the counts."""


class Run(Generic[S]):
    """One world under one controller, a tick at a time.

    The caller sets the pace: to the end at once, or in step with other worlds.
    """

    def __init__(
        self,
        world: World,
        controller: Controller[S],
        forecaster: Forecaster[Any] | None = None,
        limits: Thresholds | None = None,
    ) -> None:
        self._world, self._controller, self._forecaster = world, controller, forecaster
        # Observed once more in the first step: an observation does not change the world.
        first = world.observe(controller.pipeline)
        self._state = controller.start(first)
        self._forecaster_state = forecaster.start(first) if forecaster is not None else None
        self._decreases = np.zeros(world.environments, np.int64)
        self._insured = np.zeros((world.environments, world.layout.pools), np.int64)
        self._overruns_before = _overruns(controller, self._state)
        self.breakers = Breakers(world, controller, first, limits)

    @property
    def finished(self) -> bool:
        """Whether the scenario has ended."""
        return self._world.tick >= self._world.timeline.total_ticks

    def step(self) -> None:
        """Decide the next tick and advance the world by it."""
        world, controller = self._world, self._controller
        warmup = world.timeline.warmup_ticks
        observation = world.observe(controller.pipeline)
        forecast = self._forecast(observation)
        # Controllers count from their start, and the warm-up is not accounted: remember its count.
        if world.tick == warmup:
            self._overruns_before = _overruns(controller, self._state)
        state = self.breakers.limit(observation.tick, self._state)
        plan, self._state = controller.step(observation, forecast, state)
        self.breakers.cut(observation, forecast, plan, self._state)
        # After the cut: a decrease that a breaker holds back is not made.
        if world.tick >= warmup:
            missing = without_sample(world, observation, controller.pipeline)
            self._decreases += missing_data_decreases(observation, plan, missing)
            if isinstance(controller, Insures):
                self._insured += controller.insured(self._state)
        world.step(plan)

    def save(self) -> RunSnapshot:
        """An independent copy of everything that changes."""
        decided = (
            self._state, self._forecaster_state, self.breakers.state, self._decreases,
            self._insured, self._overruns_before,
        )  # fmt: skip
        return RunSnapshot(self._world.save(), copy.deepcopy(decided))

    def restore(self, snapshot: RunSnapshot) -> None:
        """Continue from a snapshot of this run."""
        self._world.restore(snapshot.world)
        # Copied again, because the states are updated in place.
        (
            self._state, self._forecaster_state, self.breakers.state, self._decreases,
            self._insured, self._overruns_before,
        ) = copy.deepcopy(snapshot.decided)  # fmt: skip

    def fork(self, snapshot: RunSnapshot) -> None:
        """Continue from a snapshot of a run with another forecaster; this one's starts anew."""
        self.restore(snapshot)
        observation = self._world.observe(self._controller.pipeline)
        self._forecaster_state = (
            None if self._forecaster is None else self._forecaster.start(observation)
        )

    def decisions(self) -> Decisions:
        """Counts since the end of the warm-up."""
        before, after = self._overruns_before, _overruns(self._controller, self._state)
        overruns = None if before is None or after is None else after - before
        insures = isinstance(self._controller, Insures)
        return Decisions(
            missing_data_decreases=self._decreases.copy(),
            budget_overruns=overruns,
            insured_node_ticks=self._insured.copy() if insures else None,
        )

    def _forecast(self, observation: Observation) -> Forecast | None:
        if self._forecaster is None:
            return None
        forecast, self._forecaster_state = self._forecaster.step(
            observation, self._forecaster_state
        )
        return forecast


def run(
    world: World,
    controller: Controller[S],
    forecaster: Forecaster[Any] | None = None,
    on_tick: Callable[[World], None] | None = None,
) -> Decisions:
    """Run the world to its end, calling `on_tick` after each tick; counts since the warm-up."""
    current = Run(world, controller, forecaster)
    while not current.finished:
        current.step()
        if on_tick is not None:
            on_tick(world)
    return current.decisions()


def _overruns(controller: Controller[S], state: S) -> NDArray[np.int64] | None:
    if not isinstance(controller, CountsOverruns):
        return None
    return controller.overruns(state).astype(np.int64)


def without_sample(world: World, observation: Observation, pipeline: Pipeline) -> Mask:
    """[E, A] apps without a valid sample in this tick, whether visible or not.

    An exporter that answers zero on errors has sent no sample either: a controller of ours that
    scales in on such a zero has scaled in on missing data. HPA reads no exporter.
    """
    missing: Mask = observation.missing == 1
    if pipeline == Pipeline.HPA:
        return missing
    if not (world.given.script.outages["mode"] == OUTAGE_ZERO).any():
        return missing
    # While the window still has scrapes from before the outage, its samples are real, if lower.
    begun = outages_now(world.given.script, observation.tick - world.window_ticks, EXPORTER)
    now = outages_now(world.given.script, observation.tick, EXPORTER)
    broken: Mask = (begun == OUTAGE_ZERO) & (now == OUTAGE_ZERO)
    return missing | broken


def missing_data_decreases(
    observation: Observation, plan: Plan, missing: Mask
) -> NDArray[np.int64]:
    """[E] planned decreases, per app and dimension, of declared apps without a sample."""
    status = observation.status
    # Few apps lack a sample, so look at those only.
    environment, app = np.nonzero(missing & (status[:, rows.ACTIVE] == 1))
    now = status[environment, :, app]
    fewer = plan.replicas[environment, app] < now[:, rows.REPLICAS]
    smaller = plan.cpu[environment, app] < now[:, rows.CPU_REQUEST]
    smaller |= plan.memory[environment, app] < now[:, rows.MEMORY_REQUEST]
    per_environment = np.bincount(environment, fewer.astype(np.int64) + smaller, len(status))
    return per_environment.astype(np.int64)
