"""Builds forecasters by name for a simulated world.

Only this module reads a world for a forecaster. Real forecasters get its past, calendar and time,
and have no access to more; only the oracles get its future.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from models.cluster.calendar import Announcement
from models.forecaster.calendar import Calendar
from models.forecaster.learned.forecaster import WARM_MIN, Given, Learned
from models.forecaster.learned.record import WIDTH, minutes_read, rows_of
from models.forecaster.port import Forecaster, ticks_per_minute
from models.forecaster.seasonal import RuleForecaster, persistence, seasonal
from models.forecaster.simulated.future import future_of
from models.forecaster.simulated.history import past_of, recorded_minutes
from models.forecaster.simulated.oracle import Noisy, Oracle
from models.inputs.errors import InputError, did_you_mean
from models.sim.config.timeline import announcements
from models.sim.world import World


def persistence_of(world: World) -> RuleForecaster:
    """The present continues."""
    return persistence(past_of(world), world.cluster.tick_seconds)


def seasonal_of(world: World) -> RuleForecaster:
    """Earlier days, at today's level."""
    return seasonal(past_of(world), world.cluster.tick_seconds)


def calendar_of(world: World) -> Calendar:
    """Earlier days and announced events."""
    return Calendar(past_of(world), _announced(world), world.cluster.tick_seconds)


def tft_of(world: World) -> Learned:
    """The shipped network, calibrated, with the calendar forecaster as its fallback."""
    try:
        # Imported here because it loads onnxruntime, which the other forecasters do not need.
        from models.forecaster.learned.artefact import load_model  # noqa: PLC0415
    except ImportError as error:
        raise InputError(f"forecaster: tft: {error}; install the extra `serve`") from error
    return Learned(load_model(), calendar_of(world), _given(world))


def _given(world: World) -> Given:
    """The history for the network; minutes that it never reads stay NaN, to save time."""
    tick_s = world.cluster.tick_seconds
    rows = rows_of(world.cluster, _announced(world), ticks_per_minute(tick_s))
    minutes = minutes_read(rows, WARM_MIN, world.timeline.total_minutes)
    shape = (world.environments, world.layout.domains, WIDTH)
    # The whole record takes longer to compute than anything else, and most of it is never read.
    history = np.full(shape, np.nan, np.float32)
    history[:, :, minutes] = recorded_minutes(world, minutes)
    return Given(history, 0, world.timeline.start_minute_of_week, rows, tick_s)


def _announced(world: World) -> tuple[Announcement, ...]:
    return announcements(world.scenario.calendar, world.cluster.domain_names, world.timeline)


def oracle_of(world: World) -> Oracle:
    """The true future."""
    tick_s = world.cluster.tick_seconds
    return Oracle(future_of(world, ticks_per_minute(tick_s)), world.layout.domains, tick_s)


def noisy_of(world: World) -> Noisy:
    """The true future, with errors."""
    tick_s = world.cluster.tick_seconds
    future = future_of(world, ticks_per_minute(tick_s))
    seeds = [int(seed) for seed in world.state.env["seed"]]
    return Noisy(future, seeds, world.layout.domains, tick_s)


FORECASTERS: Final[dict[str, Callable[[World], Forecaster[Any]]]] = {
    "calendar": calendar_of,
    "tft": tft_of,
    "seasonal": seasonal_of,
    "persistence": persistence_of,
    "noisy": noisy_of,
    "oracle": oracle_of,
}
NONE: Final = "none"
"""Name for running without a forecaster."""


def forecaster_of(name: str) -> Callable[[World], Forecaster[Any]] | None:
    """The builder of a forecaster by name; None for `none`."""
    if name == NONE:
        return None
    if name in FORECASTERS:
        return FORECASTERS[name]
    names = (NONE, *FORECASTERS)
    hint = did_you_mean(name, names)
    raise InputError(f"forecaster: {name}: {hint}expected one of {', '.join(names)}")
