"""When the events of a scenario happen in one environment, for plots."""

from typing import NamedTuple

import numpy as np

from models.cluster.arrays import I64
from models.sim.config.events import (
    Crash,
    Deploy,
    Event,
    Inventory,
    Leak,
    MetricsOutage,
    Mix,
    Payload,
    Regime,
    SpotReclaim,
    Traffic,
    ZoneLoss,
)
from models.sim.config.targeting import select
from models.sim.world import World


class Span(NamedTuple):
    """An event from its first tick to the tick after its last; equal for instant events."""

    name: str
    start: float
    end: float


def event_spans(world: World, environment: int = 0) -> list[Span]:
    """The events with the jitter of this environment's seed, in file order.

    Without those that affect no app: a tier may be empty in a small cluster.
    """
    rows: dict[type, int] = {}
    spans = []
    for event in world.scenario.events:
        kind = _table_of(event)
        if isinstance(event, Deploy | Inventory) and _affected(world, event).size == 0:
            continue
        row = rows.get(kind, 0)
        start, end, used = _span(world, environment, event, row)
        rows[kind] = row + used
        spans.append(Span(event.name, start, end))
    return spans


def _table_of(event: Event) -> type:
    """The kind by which rows are counted: all waves share one table, and so do all faults."""
    if isinstance(event, Traffic | Payload | Mix | Regime):
        return Traffic
    return Leak if isinstance(event, Leak | Crash) else type(event)


def _span(world: World, e: int, event: Event, row: int) -> tuple[float, float, int]:
    """Start, end, and the number of rows that the event has in the compiled script."""
    script = world.given.script
    match event:
        case Traffic() | Payload() | Mix() | Regime():
            # A regime has a high and a low wave per cycle.
            count = 2 * event.cycles if isinstance(event, Regime) else 1
            waves = script.waves[e, row : row + count]
            end = waves["start"] + waves["ramp"] + waves["hold"] + waves["decay"]
            return float(waves["start"].min()), float(end.max()), count
        case ZoneLoss() | MetricsOutage() | Leak() | Crash():
            tables = {ZoneLoss: script.zones, MetricsOutage: script.outages}
            lasting = tables.get(type(event), script.faults)[e, row]
            return float(lasting["start"]), float(lasting["end"]), 1
        case SpotReclaim():
            tick = float(script.reclaims["tick"][e, row])
            return tick, tick, 1
        case Deploy():
            ticks = script.deploy_tick[e, _affected(world, event)]
            return float(ticks.min()), float(ticks.max()), 1
        case Inventory():
            tick = float(script.inventory["tick"][e, row])
            return tick, tick, _affected(world, event).size


def _affected(world: World, event: Deploy | Inventory) -> I64:
    apps = world.population.apps
    return np.flatnonzero(select(event.target, event.name, world.cluster, apps))
