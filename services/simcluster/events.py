"""Events of the simulated cluster: only what a real cluster would report, no ground truth.

Each function maps arrays of a world with one environment to events. Names and order of the apps
are defined here only.
"""

import copy
import math
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import numpy as np

from models.cluster import rows
from models.cluster.arrays import F32, F64, I32
from models.cluster.calendar import DAY_MINUTES, HISTORY_MINUTES
from models.cluster.inventory import REQUEST_TYPES, Inventory
from models.cluster.observation import Observation
from models.forecaster.simulated.history import past_of
from models.sim.config.timeline import announcements
from models.sim.world import World
from schemas.app_declared import AppDeclared, RequestMix
from schemas.demand_backfilled import DemandBackfilled
from schemas.event_scheduled import EventScheduled
from schemas.metrics_sampled import PODS, MetricsSampled
from schemas.pool_observed import PoolObserved
from services._kit.arrays import measured_columns
from services._kit.ticks import Axis

MONDAY: Final = datetime(2026, 1, 5, tzinfo=UTC)
"""Scenarios define a weekday and a time; the date does not matter, so it is fixed."""
_LEAST_DIGITS: Final = 4
"""Numbers are padded, so that sorting names gives the order of the apps."""


class Stamp(NamedTuple):
    """Common fields of the events of one tick."""

    tick: int
    time: str
    trace_id: str


def axis_of_world(world: World) -> Axis:
    """Time axis of a world: tick 0 is at the weekday and time of its scenario."""
    start = MONDAY + timedelta(minutes=world.timeline.start_minute_of_week)
    return Axis(0, start, world.cluster.tick_seconds)


def stamp_of(world: World, axis: Axis) -> Stamp:
    """Stamp of the current tick; the same in every repetition of the run."""
    seed = int(world.state.env["seed"][0])
    # A hash of what identifies the tick, not a random id: a repeated run publishes equal events.
    run = f"{world.scenario.name}/{seed}/{world.tick}".encode()
    return Stamp(world.tick, axis.time_at(world.tick), blake2b(run, digest_size=16).hexdigest())


def app_names(world: World) -> tuple[str, ...]:
    """Name of every app by index; it stays the same when the app moves to another domain."""
    domains = world.cluster.domain_names
    declared = world.population.apps.domain
    digits = max(_LEAST_DIGITS, len(str(declared.size - 1)))
    return tuple(f"{domains[d]}-{app:0{digits}d}" for app, d in enumerate(declared.tolist()))


def active_apps(status: I32, domain: int) -> I32:
    """Indices of the apps declared in a domain now, ascending."""
    declared = (status[0, rows.ACTIVE] == 1) & (status[0, rows.DOMAIN] == domain)
    indices: I32 = np.flatnonzero(declared).astype(np.int32)
    return indices


def declarations(
    world: World,
    inventory: Inventory,
    names: tuple[str, ...],
    apps: Iterable[int],
    trace_id: str = "",
) -> list[AppDeclared]:
    """Current declarations of some apps; an inactive app is declared removed."""
    status = world.state.status[0]
    return [
        AppDeclared(
            trace_id=trace_id,
            app=names[app],
            domain=world.cluster.domain_names[int(status[rows.DOMAIN, app])],
            ordinal=app,
            tier=int(inventory.tier[app]),
            min_replicas=int(inventory.min_replicas[app]),
            max_replicas=int(inventory.max_replicas[app]),
            # Best-effort apps have an infinite target, which JSON cannot express.
            latency_target_s=_finite(float(inventory.latency_target[app])),
            saturation=float(inventory.saturation[0, app]),
            request_mix=_mix(inventory.request_mix[app]),
            removed=bool(status[rows.ACTIVE, app] == 0),
        )
        for app in apps
    ]


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _mix(shares: F32) -> RequestMix:
    return RequestMix(**dict(zip(REQUEST_TYPES, shares.tolist(), strict=True)))


def calendar_events(world: World, axis: Axis) -> list[EventScheduled]:
    """Announced events, the earliest first."""
    domains = world.cluster.domain_names
    announced = announcements(world.scenario.calendar, domains, world.timeline)
    # The topic keeps one record per name, but a scenario may announce a name twice.
    earlier = [[other.name for other in announced[:index]] for index in range(len(announced))]
    return [
        EventScheduled(
            name=_unique(entry.name, before.count(entry.name)),
            domains=[domains[domain] for domain in entry.domains],
            starts_at=axis.time_at(entry.start_tick),
            ends_at=axis.time_at(entry.end_tick),
            expected_factor=entry.expected_factor,
        )
        for entry, before in zip(announced, earlier, strict=True)
    ]


def _unique(name: str, earlier: int) -> str:
    return name if earlier == 0 else f"{name}-{earlier + 1}"


def backfill(world: World, status: I32, axis: Axis) -> list[DemandBackfilled]:
    """The minutes of the 14 days before tick 0, per domain; `status` is that of tick 0.

    They come from the forecaster's own function, for a scenario that covers every minute of the
    day, so the bus carries exactly what it would have computed. It only looks at the last minutes
    of the oldest day: the others are null.
    """
    # Shallow: the timeline and the state of the copy are replaced, and the arrays are only read.
    # The state is that of tick 0, so that a late request gets the same history.
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
    world: World, observed: Observation, names: tuple[str, ...], stamp: Stamp, source: str
) -> list[MetricsSampled]:
    """One batch per domain with all of its apps; empty for a domain without apps."""
    # A domain without apps gets a batch, too: `final` closes its tick, which lock-step waits for.
    return [
        _batch(name, active_apps(observed.status, domain), observed, names, stamp, source)
        for domain, name in enumerate(world.cluster.domain_names)
    ]


def _batch(
    domain: str, apps: I32, observed: Observation, names: tuple[str, ...], stamp: Stamp, source: str
) -> MetricsSampled:
    columns: dict[str, Any] = {}
    columns |= measured_columns(observed.measured[:, :, apps], observed.missing[:, apps])
    # After ACTIVE and DOMAIN, the rows of a status are in the order of PODS.
    for row, name in enumerate(PODS, rows.DOMAIN + 1):
        columns[name] = observed.status[0, row, apps].tolist()
    return MetricsSampled(
        **stamp._asdict(),
        domain=domain,
        source=source,
        final=True,
        apps=[names[app] for app in apps.tolist()],
        **columns,
    )


def pools(
    world: World, inventory: Inventory, observed: Observation, spent: F64, stamp: Stamp
) -> list[PoolObserved]:
    """Every pool as the APIs of the cloud and the cluster report it."""
    state = world.state
    launches = state.launch[0, : int(state.env["launch_length"][0])]
    # `coming` of the world counts booting and requested nodes; in the event they don't overlap.
    waiting = np.bincount(launches["pool"], launches["count"], world.layout.pools)
    return [
        PoolObserved(
            **stamp._asdict(),
            pool=name,
            ready=int(row["ready"]),
            booting=int(row["coming"]) - int(waiting[index]),
            requested=int(waiting[index]),
            quota=int(row["quota"]),
            free_cores=float(row["free_cpu"]),
            free_memory_gib=float(row["free_memory"]),
            node_cores=float(inventory.pool_cpu[index]),
            node_memory_gib=float(inventory.pool_memory[index]),
            price_per_hour=float(inventory.pool_price[index]),
            spent=float(spent[index]),
        )
        for index, (name, row) in enumerate(
            zip(world.cluster.pool_names, observed.pool[0], strict=True)
        )
    ]
