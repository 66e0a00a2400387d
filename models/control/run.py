"""Drive a world with a controller from its first tick to its last."""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from models.control.controller import Controller, KeepsBudgets
from models.forecaster.port import Forecast, Forecaster
from models.sim.observe import Observation
from models.sim.outcome.results import Decisions
from models.sim.plan import Plan
from models.sim.state import ACTIVE, CPU_REQUEST, MEMORY_REQUEST, REPLICAS
from models.sim.world import World

S = TypeVar("S")
Mask = NDArray[np.bool_]


def run(
    world: World,
    controller: Controller[S],
    forecaster: Forecaster[Any] | None = None,
    on_tick: Callable[[World], None] | None = None,
) -> Decisions:
    """Let the controller decide every tick that is left; `on_tick` is called after each.

    Returns what was counted on the way, from the end of the warm-up on.
    """
    decreases = np.zeros(world.environments, np.int64)
    first = world.observe(controller.pipeline)
    state = controller.start(first)
    foreseen = forecaster.start(first) if forecaster is not None else None
    forecast: Forecast | None = None
    before = _overruns(controller, state)
    while world.tick < world.timeline.total_ticks:
        observation = world.observe(controller.pipeline)
        if forecaster is not None:
            forecast, foreseen = forecaster.step(observation, foreseen)
        if world.tick == world.timeline.warmup_ticks:
            before = _overruns(controller, state)
        plan, state = controller.step(observation, forecast, state)
        if world.tick >= world.timeline.warmup_ticks:
            decreases += blind_decreases(observation, plan, without_sample(world, observation))
        world.step(plan)
        if on_tick is not None:
            on_tick(world)
    after = _overruns(controller, state)
    overruns = None if before is None or after is None else after - before
    return Decisions(missing_data_decreases=decreases, budget_overruns=overruns)


def _overruns(controller: Controller[S], state: S) -> NDArray[np.int64] | None:
    if not isinstance(controller, KeepsBudgets):
        return None
    return controller.overruns(state).astype(np.int64)


def without_sample(world: World, observation: Observation) -> Mask:
    """[E, A] apps of which nothing is known in this tick, whether it shows or not.

    An exporter that answers zero on errors has sent no sample either: a controller that takes
    the zero for one has lowered on missing data.
    """
    missing: Mask = observation.missing == 1
    script = world.given.script
    if script.outages.size > 0:
        tick = observation.tick[:, None]
        out = (script.outages["start"] <= tick) & (tick < script.outages["end"])
        missing = missing | (out.astype(np.int32) @ script.outage_app.astype(np.int32) > 0)
    return missing


def blind_decreases(observation: Observation, plan: Plan, blind: Mask) -> NDArray[np.int64]:
    """[E] wishes for less, per app and dimension, of the declared apps in `blind`."""
    known = observation.known
    fewer = plan.replicas < known[:, REPLICAS]
    smaller = (plan.cpu < known[:, CPU_REQUEST]) | (plan.memory < known[:, MEMORY_REQUEST])
    dimensions = fewer.astype(np.int64) + smaller
    counted: NDArray[np.int64] = (dimensions * (blind & (known[:, ACTIVE] == 1))).sum(axis=1)
    return counted
