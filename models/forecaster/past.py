"""The two weeks before a scenario, cut down to the minutes of the day that it touches.

A day at the same time is what a seasonal rule compares with, and how wrong a rule was then is
how wrong it will be. The rest of the day is never asked for and would take eight times as long.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.cluster.arrays import F32, I32
from models.cluster.calendar import DAY_MINUTES, WEEK_MINUTES
from models.cluster.observation import ACTIVE, DOMAIN
from models.forecaster.port import HORIZONS_MIN
from models.jit import kernel
from models.sim.describe.timeline import Timeline
from models.sim.service import call_forward, limit_to_active
from models.sim.tick import Given
from models.sim.traffic import base_rates
from models.sim.world import World

DAYS: Final = 13
"""Of the 14 days; the oldest has no room for the minutes before the scenario's start."""
LEAD_MIN: Final = 45
"""Minutes before tick 0 that are kept of each day, and of the day itself."""
_TAIL_MIN: Final = max(HORIZONS_MIN) + 1
_SATURDAY: Final = 5 * DAY_MINUTES

Mask = NDArray[np.bool_]


class Past(NamedTuple):
    """E environments, D domains, W minutes of the day from LEAD_MIN before tick 0 on."""

    days: F32
    """[E, D, DAYS, W] requests per second, calls included, the oldest day first."""
    recent: F32
    """[E, D, LEAD_MIN] the minutes just before tick 0."""
    start_minute_of_week: int
    """Of tick 0."""

    minutes: int
    """Minutes from tick 0 on that the scenario may ask about."""

    @property
    def axis(self) -> I32:
        """[M] minutes since tick 0, from LEAD_MIN before it to the last that may be asked for."""
        return np.arange(-LEAD_MIN, self.minutes, dtype=np.int32)

    def columns(self, minutes: I32) -> I32:
        """Places on the last axis of `days` of minutes since tick 0."""
        columns: I32 = (minutes + LEAD_MIN) % self.days.shape[-1]
        return columns

    def weekends(self, minutes: I32) -> Mask:
        """Which of some minutes since tick 0, possibly long before it, are on a weekend."""
        of_week = (minutes + self.start_minute_of_week) % WEEK_MINUTES
        weekends: Mask = of_week >= _SATURDAY
        return weekends

    def recorded(self) -> I32:
        """[DAYS, W] minutes since tick 0 of what is recorded."""
        width = self.days.shape[-1]
        return _minutes(width).reshape(DAYS, width)


def past_of(world: World) -> Past:
    """What was recorded before the world's first tick; nothing of the scenario is in it."""
    width = _width(world.timeline)
    minutes = np.concatenate([_minutes(width), np.arange(-LEAD_MIN, 0, dtype=np.int32)])
    history = recorded_minutes(world, minutes)
    return Past(
        days=history[:, :, :-LEAD_MIN].reshape(*history.shape[:2], DAYS, width),
        recent=history[:, :, -LEAD_MIN:],
        start_minute_of_week=world.timeline.start_minute_of_week,
        minutes=world.timeline.total_minutes + _TAIL_MIN,
    )


def recorded_minutes(world: World, minutes: I32) -> F32:
    """[E, D, minutes] requests per second of some minutes before the world's first tick."""
    shape = (world.environments, world.layout.domains, minutes.size)
    history = np.zeros(shape, np.float32)

    def fill(e: int) -> None:
        domain, active = world.state.status[e, DOMAIN].copy(), world.state.status[e, ACTIVE].copy()
        scratch = np.ones((2, domain.size), np.float32)
        seed = int(world.state.env["seed"][e])
        _fill(world.given, domain, active, seed, minutes, scratch, history[e])

    # Kernels leave the interpreter alone, so the environments share the cores.
    with ThreadPoolExecutor() as pool:
        list(pool.map(fill, range(world.environments)))
    return history


def past_from(history: F32, minutes: int, start_minute_of_week: int) -> Past:
    """The same from recorded minutes [E, D, HISTORY_MINUTES] that end at tick 0.

    `minutes` from tick 0 on may be asked about.
    """
    width = min(DAY_MINUTES, LEAD_MIN + minutes + _TAIL_MIN)
    days = history[:, :, _minutes(width)].reshape(*history.shape[:2], DAYS, width)
    return Past(days, history[:, :, -LEAD_MIN:], start_minute_of_week, minutes + _TAIL_MIN)


def _width(times: Timeline) -> int:
    return min(DAY_MINUTES, LEAD_MIN + times.total_minutes + _TAIL_MIN)


def _minutes(width: int) -> I32:
    """Minutes since tick 0 of the recorded days, one day after the other."""
    day = np.arange(-DAYS, 0, dtype=np.int32) * DAY_MINUTES
    of_day = np.arange(width, dtype=np.int32) - LEAD_MIN
    minutes: I32 = (day[:, None] + of_day).ravel().astype(np.int32)
    return minutes


@kernel
def _fill(
    given: Given, domain: I32, active: I32, seed: int, minutes: I32, scratch: F32, history: F32
) -> None:
    """Everything gets through: in the past nothing was overloaded."""
    calls, rates, everything = given.calls, scratch[0], scratch[1]
    for place in range(minutes.size):
        minute = minutes[place]
        base_rates(given.apps, domain, given.shape, given.script, seed, minute, rates)
        limit_to_active(active, rates)
        limit_to_active(active, everything)
        call_forward(calls.caller, calls.callee, calls.per_request, everything, rates)
        limit_to_active(active, rates)
        for app in range(rates.size):
            history[domain[app], place] += rates[app]
