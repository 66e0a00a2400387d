"""Traffic that was recorded before a simulated world's first tick, computed when it is needed."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from models.cluster import rows
from models.cluster.arrays import F32, I32
from models.forecaster.past import LEAD_MIN, Past, day_width, minutes_of_days, past_of_days
from models.jit import kernel
from models.sim.call_graph import call_forward, limit_to_active
from models.sim.tick import Given
from models.sim.traffic import base_rates
from models.sim.world import World


def past_of(world: World) -> Past:
    """The past of a world; nothing of its scenario is in it."""
    timeline = world.timeline
    width = day_width(timeline.total_minutes)
    minutes = np.concatenate([minutes_of_days(width), np.arange(-LEAD_MIN, 0, dtype=np.int32)])
    history = recorded_minutes(world, minutes)
    return past_of_days(
        history[:, :, :-LEAD_MIN],
        history[:, :, -LEAD_MIN:],
        timeline.total_minutes,
        timeline.start_minute_of_week,
    )


def recorded_minutes(world: World, minutes: I32) -> F32:
    """[E, D, minutes] requests per second of some minutes before the world's first tick."""
    shape = (world.environments, world.layout.domains, minutes.size)
    history = np.zeros(shape, np.float32)

    def fill(e: int) -> None:
        domain = world.state.status[e, rows.DOMAIN].copy()
        active = world.state.status[e, rows.ACTIVE].copy()
        scratch = np.ones((2, domain.size), np.float32)
        seed = int(world.state.env["seed"][e])
        _fill(world.given, domain, active, seed, minutes, scratch, history[e])

    # Kernels release the GIL, so threads compute environments in parallel.
    with ThreadPoolExecutor() as pool:
        list(pool.map(fill, range(world.environments)))
    return history


@kernel
def _fill(
    given: Given, domain: I32, active: I32, seed: int, minutes: I32, scratch: F32, history: F32
) -> None:
    """Nothing was overloaded in the past, so declared apps pass on every call."""
    calls, rates, passed = given.calls, scratch[0], scratch[1]
    for index in range(minutes.size):
        minute = minutes[index]
        base_rates(given.apps, domain, given.shape, given.script, seed, minute, rates)
        limit_to_active(active, rates)
        limit_to_active(active, passed)
        call_forward(calls.caller, calls.callee, calls.per_request, passed, rates)
        limit_to_active(active, rates)
        for app in range(rates.size):
            history[domain[app], index] += rates[app]
