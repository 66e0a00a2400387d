"""Speed of the simulator and of controllers, for `hirl bench sim` and `hirl bench decisions`."""

import resource
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from models.compare.catalogue import Match, enter
from models.compare.hpa_worlds import HpaWorld, busy_world
from models.compare.jobs import SEEDS_PER_JOB
from models.compare.stages import describe, stage_seconds
from models.forecaster.port import ticks_per_minute
from models.sim.config.physics import SimCluster, with_apps
from models.sim.config.scenario import load_scenario
from models.sim.world import World

SIZES: Final = (155, 1550, 15500)
"""Apps in a cluster."""
BLOCK: Final = 15
"""Ticks per measurement; the median of the blocks is reported, which other load on the machine
disturbs less than a mean."""
WARM_UP: Final = 30
"""Ticks before the first measurement: kernels are loaded or compiled in the first ones."""
DECISION_SCENARIO: Final = "flash-sale-20-min-early"
_STAGED_TICKS: Final = 120
"""At most; stages are timed for their shares, which need fewer ticks than a rate."""
_WARM_UP_MINUTES: Final = 2
"""Not timed: the first decisions compile their kernels."""

Advance = Callable[[int], None]
Measure = Callable[[World, int], list[float]]
"""Environment-ticks per second of a world, block by block over a number of ticks."""


def measure_simulator(
    cluster: SimCluster, envs: int, apps: int, ticks: int, measure: Measure
) -> dict[str, Any]:
    """Figures of a calm day and of a busy hour, with the cost of each stage and other sizes.

    Larger clusters run in fewer environments, so that environments x apps stays the same; the same
    cluster runs in fewer as well, as comparisons do it.
    """
    calm = calm_world(cluster, apps, envs)
    rates = measure(calm, ticks)
    busy = measure(busy_world(with_apps(cluster, apps), envs), ticks)
    # The peak of a process never falls, so read it before other sizes run.
    peak = peak_rss_mb()
    stages = _stages(HpaWorld(calm_world(cluster, apps, envs)), min(ticks, _STAGED_TICKS))
    by_apps = []
    sizes = [(size, max(1, min(envs, envs * apps // size))) for size in SIZES]
    for size, fewer in [(apps, min(envs, SEEDS_PER_JOB)), *sizes]:
        same = (size, fewer) == (apps, envs)
        found = rates if same else measure(calm_world(cluster, size, fewer), ticks)
        rate = float(statistics.median(found))
        by_apps.append({"apps": size, "envs": fewer, "env_ticks_per_s": rate})
    return {
        "envs": envs,
        "apps": apps,
        "env_ticks_per_s": float(statistics.median(rates)),
        "busy_env_ticks_per_s": float(statistics.median(busy)),
        "slowest_env_ticks_per_s": min(busy),
        "peak_rss_mb": peak,
        "by_apps": by_apps,
        "stages": stages,
        "world_hash": calm.hash,
    }


def calm_world(cluster: SimCluster, apps: int, envs: int) -> World:
    """The calm scenario in a cluster of `apps` apps."""
    sized = with_apps(cluster, apps)
    return World(sized, load_scenario("calm", sized), list(range(envs)))


def measure_rates(world: World, ticks: int, advance: Advance) -> list[float]:
    """Environment-ticks per second in each block of ticks after a warm-up."""
    run = HpaWorld(world)
    run.run(WARM_UP)
    advance(WARM_UP)
    rates = []
    for _ in range(ticks // BLOCK):
        began = time.perf_counter()
        run.run(BLOCK)
        rates.append(BLOCK * world.environments / (time.perf_counter() - began))
        advance(BLOCK)
    return rates


def peak_rss_mb() -> float:
    """The largest memory that this process ever held."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # macOS counts bytes, Linux KiB.
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def measure_decisions(cluster: SimCluster, name: str, apps: int, minutes: int) -> dict[str, Any]:
    """Time per decision of a controller in one environment."""
    sized = with_apps(cluster, apps)
    match = enter(name, sized, load_scenario(DECISION_SCENARIO, sized), [0])
    first, others = _decision_seconds(match, minutes, ticks_per_minute(cluster.tick_seconds))
    return {
        "controller": name,
        "apps": apps,
        "minute_ms": 1e3 * statistics.median(first),
        "tick_ms": 1e3 * statistics.median(others),
        "ns_per_app_and_tick": 1e9 * statistics.median(others) / apps,
        "share_of_minute": (sum(first) + sum(others)) / (60 * minutes),
    }


def _decision_seconds(
    match: Match, minutes: int, ticks_per_minute: int
) -> tuple[list[float], list[float]]:
    """Durations of the decisions in the first tick of each minute, and in all other ticks."""
    world, controller, forecaster = match
    observation = world.observe(controller.pipeline)
    state = controller.start(observation)
    forecaster_state = forecaster.start(observation) if forecaster is not None else None
    first: list[float] = []
    others: list[float] = []
    for tick in range((_WARM_UP_MINUTES + minutes) * ticks_per_minute):
        observation, forecast = world.observe(controller.pipeline), None
        if forecaster is not None:
            forecast, forecaster_state = forecaster.step(observation, forecaster_state)
        began = time.perf_counter()
        # Only this is timed: observing and forecasting are the work of other services.
        plan, state = controller.step(observation, forecast, state)
        seconds = time.perf_counter() - began
        if tick >= _WARM_UP_MINUTES * ticks_per_minute:
            # The Commander decides in the first tick of a minute, so these take longer.
            (first if tick % ticks_per_minute == 0 else others).append(seconds)
        world.step(plan)
    return first, others


def _stages(run: HpaWorld, ticks: int) -> list[dict[str, Any]]:
    run.run(WARM_UP)
    seconds_by_stage = stage_seconds(run, ticks)
    total, work = sum(seconds_by_stage.values()), ticks * run.world.environments
    return [
        {
            "stage": name,
            "what": describe(name),
            "us_per_env_tick": 1e6 * seconds / work,
            "share": seconds / total,
        }
        for name, seconds in seconds_by_stage.items()
    ]
