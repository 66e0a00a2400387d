"""What a cluster would tell about itself, as events: all of it from the outside, no truth.

Every function maps arrays of a world with one environment to events; names and order of the apps
are made here and nowhere else.
"""

import copy
import math
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import numpy as np

from models.cluster.arrays import F32, F64, I32
from models.cluster.calendar import DAY_MINUTES, HISTORY_MINUTES
from models.cluster.inventory import REQUEST_TYPES, Inventory
from models.cluster.observation import ACTIVE, DOMAIN, Observation
from models.forecaster.simulated.history import past_of
from models.sim.config.timeline import announcements
from models.sim.world import World
from schemas.app_declared import AppDeclared, RequestMix
from schemas.columns import PODS
from schemas.demand_backfilled import DemandBackfilled
from schemas.event_scheduled import EventScheduled
from schemas.metrics_sampled import MetricsSampled
from schemas.pool_observed import PoolObserved
from services._kit.arrays import measured_columns
from services._kit.ticks import Axis

MONDAY: Final = datetime(2026, 1, 5, tzinfo=UTC)
"""Scenarios begin at a weekday and a time; the date is of no consequence, so it is always one."""
_LEAST_DIGITS: Final = 4


class Stamp(NamedTuple):
    """What every event of one tick carries."""

    tick: int
    time: str
    trace_id: str


def axis_of_world(world: World) -> Axis:
    """Where the ticks of a world lie: tick 0 is on the weekday and time of its scenario."""
    start = MONDAY + timedelta(minutes=world.timeline.start_minute_of_week)
    return Axis(0, start, world.cluster.tick_seconds)


def stamp_of(world: World, axis: Axis) -> Stamp:
    """Of the tick at which the world is now; the same whenever the same run is repeated."""
    seed = int(world.state.env["seed"][0])
    run = f"{world.scenario.name}/{seed}/{world.tick}".encode()
    return Stamp(world.tick, axis.time_at(world.tick), blake2b(run, digest_size=16).hexdigest())


def app_names(world: World) -> tuple[str, ...]:
    """Of every app by index; it keeps its name when it moves to another domain."""
    domains = world.cluster.domain_names
    declared = world.population.apps.domain
    digits = max(_LEAST_DIGITS, len(str(declared.size - 1)))
    return tuple(f"{domains[d]}-{app:0{digits}d}" for app, d in enumerate(declared.tolist()))


def active_apps(status: I32, domain: int) -> I32:
    """Indices of the apps that are declared in a domain now, in order."""
    there = (status[0, ACTIVE] == 1) & (status[0, DOMAIN] == domain)
    indices: I32 = np.flatnonzero(there).astype(np.int32)
    return indices


def declarations(
    world: World,
    inventory: Inventory,
    names: tuple[str, ...],
    apps: Iterable[int],
    trace_id: str = "",
) -> list[AppDeclared]:
    """Some apps as their owners declare them now; one that is gone is declared removed."""
    status = world.state.status[0]
    return [
        AppDeclared(
            trace_id=trace_id,
            app=names[app],
            domain=world.cluster.domain_names[int(status[DOMAIN, app])],
            ordinal=app,
            tier=int(inventory.tier[app]),
            min_replicas=int(inventory.min_replicas[app]),
            max_replicas=int(inventory.max_replicas[app]),
            latency_target_s=_finite(float(inventory.latency_target[app])),
            saturation=float(inventory.saturation[app]),
            request_mix=_mix(inventory.request_mix[app]),
            removed=bool(status[ACTIVE, app] == 0),
        )
        for app in apps
    ]


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _mix(shares: F32) -> RequestMix:
    return RequestMix(**dict(zip(REQUEST_TYPES, shares.tolist(), strict=True)))


def calendar_events(world: World, axis: Axis) -> list[EventScheduled]:
    """What was announced, the earliest first."""
    domains = world.cluster.domain_names
    placed = announcements(world.scenario.calendar, domains, world.timeline)
    # The bus keeps one entry of a name; a scenario may announce the same thing twice.
    earlier = [[other.name for other in placed[:place]] for place in range(len(placed))]
    return [
        EventScheduled(
            name=_unique(entry.name, before.count(entry.name)),
            domains=[domains[domain] for domain in entry.domains],
            starts_at=axis.time_at(entry.start_tick),
            ends_at=axis.time_at(entry.end_tick),
            expected_factor=entry.expected_factor,
        )
        for entry, before in zip(placed, earlier, strict=True)
    ]


def _unique(name: str, earlier: int) -> str:
    return name if earlier == 0 else f"{name}-{earlier + 1}"


def backfill(world: World, status: I32, axis: Axis) -> list[DemandBackfilled]:
    """The minutes of the 14 days before tick 0, per domain; `known` is that of tick 0.

    They come from the forecaster's own function, for a scenario that touches every minute of the
    day; so what it is given over the bus is what it would have computed. Of the oldest day it
    looks at the last minutes only: the others are not known.
    """
    whole_day = copy.copy(world)
    ticks = DAY_MINUTES * 60 // world.cluster.tick_seconds
    whole_day.timeline = world.timeline._replace(total_ticks=ticks)
    whole_day.state = world.state._replace(status=status)
    past = past_of(whole_day)
    days = past.days[0].reshape(past.days.shape[1], -1)
    minutes = np.concatenate([days, past.recent[0]], axis=1)
    unknown: list[float | None] = [None] * (HISTORY_MINUTES - minutes.shape[1])
    return [
        DemandBackfilled(
            domain=domain, until_tick=0, until=axis.time_at(0), rps=[*unknown, *series.tolist()]
        )
        for domain, series in zip(world.cluster.domain_names, minutes, strict=True)
    ]


def samples(
    world: World, seen: Observation, names: tuple[str, ...], stamp: Stamp, source: str
) -> list[MetricsSampled]:
    """A batch per domain with all of its apps; a domain without apps has an empty one."""
    return [
        _batch(name, active_apps(seen.status, place), seen, names, stamp, source)
        for place, name in enumerate(world.cluster.domain_names)
    ]


def _batch(
    domain: str, apps: I32, seen: Observation, names: tuple[str, ...], stamp: Stamp, source: str
) -> MetricsSampled:
    columns: dict[str, Any] = {}
    columns |= measured_columns(seen.measured[:, :, apps], seen.missing[:, apps])
    for row, name in enumerate(PODS, DOMAIN + 1):
        columns[name] = seen.status[0, row, apps].tolist()
    return MetricsSampled(
        **stamp._asdict(),
        domain=domain,
        source=source,
        final=True,
        apps=[names[app] for app in apps.tolist()],
        **columns,
    )


def pools(
    world: World, inventory: Inventory, seen: Observation, spent: F64, stamp: Stamp
) -> list[PoolObserved]:
    """Every pool as the cloud's and the cluster's API answer."""
    state = world.state
    launches = state.launch[0, : int(state.env["launch_length"][0])]
    waiting = np.bincount(launches["pool"], launches["count"], world.layout.pools)
    return [
        PoolObserved(
            **stamp._asdict(),
            pool=name,
            ready=int(row["ready"]),
            booting=int(row["coming"]) - int(waiting[place]),
            requested=int(waiting[place]),
            quota=int(row["quota"]),
            free_cores=float(row["free_cpu"]),
            free_memory_gib=float(row["free_memory"]),
            node_cores=float(inventory.pool_cpu[place]),
            node_memory_gib=float(inventory.pool_memory[place]),
            price_per_hour=float(inventory.pool_price[place]),
            spent=float(spent[place]),
        )
        for place, (name, row) in enumerate(
            zip(world.cluster.pool_names, seen.pool[0], strict=True)
        )
    ]
