"""Valid numbers that no cluster has: each tick is still planned, and nothing is taken from P0."""

from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

import msgspec
import pytest

from schemas.budget_granted import BudgetGranted
from schemas.domain_observed import DomainObserved, Pods
from schemas.fields import TickEvent
from schemas.metrics_sampled import PODS, MetricsSampled
from schemas.scale_planned import ScalePlanned
from services.devcluster.memory import MemorySystem
from tests.decision_helpers import match_of

APPS, SEED, TICKS, FORGED_AT = 20, 3, 11, 7
VICTIM = "payments"
LARGEST = 2**31 - 1

Forge = Callable[[MemorySystem], TickEvent]


def sample(**columns: float) -> Forge:
    """Samples of the next tick, with these columns the same for every app."""

    def forge(running: MemorySystem) -> TickEvent:
        before = running.bus.newest(MetricsSampled)[VICTIM]
        values = {name: [value] * len(before.apps) for name, value in columns.items()}
        return _moved(before, 1, final=True, **values)

    return forge


def frame(change: Callable[[DomainObserved], dict[str, Any]]) -> Forge:
    """The frame of the next tick."""

    def forge(running: MemorySystem) -> TickEvent:
        before = running.bus.newest(DomainObserved)[VICTIM]
        return _moved(before, 1, **change(before))

    return forge


def budget(**changes: float) -> Forge:
    """A budget that binds from the next tick on."""

    def forge(running: MemorySystem) -> TickEvent:
        before = running.bus.newest(BudgetGranted)[VICTIM]
        ahead = FORGED_AT - before.tick
        until = FORGED_AT + 18
        return _moved(before, ahead, epoch=before.epoch + 1, valid_until_tick=until, **changes)

    return forge


def _moved(event: TickEvent, ticks: int, **changes: Any) -> TickEvent:
    time = datetime.fromisoformat(event.time) + timedelta(seconds=10 * ticks)
    at = {"tick": event.tick + ticks, "time": f"{time:%Y-%m-%dT%H:%M:%SZ}"}
    return msgspec.structs.replace(event, **at, **changes)


def every_feature(value: float) -> Forge:
    return frame(lambda e: {"features": {name: [value] * len(e.apps) for name in e.features}})


def every_load(value: float) -> Forge:
    loads = ("load_pods", "usual_load_pods")
    return frame(lambda e: {name: [value] * len(e.apps) for name in loads})


def every_pod(value: int) -> Forge:
    columns = Pods.__struct_fields__
    return frame(lambda e: {"pods": Pods(**{name: [value] * len(e.apps) for name in columns})})


FORGED: dict[str, Forge] = {
    # An exporter that counts nanocores.
    "samples of 1e9 cores": sample(cpu_cores=1e9),
    "samples of 1e11 cores": sample(cpu_cores=1e11),
    "samples of 1e11 requests": sample(rps=1e11, throughput=1e11),
    "samples of the most pods of the largest size": sample(**dict.fromkeys(PODS, LARGEST)),
    "a frame with a load of 1e10": every_load(1e10),
    "a frame with a load of 1e38": every_load(1e38),
    "a frame with a load of 1e308": every_load(1e308),
    "a frame with a load below zero": every_load(-1e38),
    "a frame of features beyond a float32": every_feature(1e308),
    "a frame of features below zero": every_feature(-1e308),
    "a frame of the most pods": every_pod(LARGEST),
    "a budget that grows by 1e9": budget(growth=1e9),
    "a budget that grows by 1e30": budget(growth=1e30),
    "a budget that grows by 1e308": budget(growth=1e308),
    "a budget with a headroom of 1e308": budget(headroom=1e308),
    "a budget of 1e308 cores": budget(cores=1e308, memory_gib=1e308, overdraft_cores=1e308),
    "all of a budget": budget(growth=1e308, headroom=1e308, cores=1e308, memory_gib=1e308),
}


@pytest.mark.parametrize("name", FORGED)
def test_the_domain_is_planned_in_every_tick_and_loses_no_pod(name: str) -> None:
    running = MemorySystem(match_of(APPS, SEED).world)
    for tick in islice(running.ticks(), TICKS):
        if tick == FORGED_AT:
            running.bus.publish(FORGED[name](running))
    planned = [e.tick for e in running.bus.events(ScalePlanned) if e.domain == VICTIM]
    assert planned == list(range(TICKS))
    for entry in running.cluster.journal:
        if entry.domain == VICTIM and entry.tick > FORGED_AT:
            assert entry.before is not None
            assert entry.after is not None
            assert entry.after.replicas >= entry.before.replicas
            assert entry.after.cpu_request >= entry.before.cpu_request
