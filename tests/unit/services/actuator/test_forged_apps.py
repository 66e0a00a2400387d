"""Frames and plans that name apps which do not exist, or one app many times."""

from typing import Any

import msgspec
import pytest

from schemas.domain_observed import DomainObserved, Pods
from schemas.scale_planned import ScalePlanned
from services._kit.errors import Refused
from tests.service_helpers import APPS, DOMAIN, time_of
from tests.unit.services.actuator.actuator_helpers import System

TIMES = 20


def repeated(frame: DomainObserved, tick: int) -> DomainObserved:
    """The first app of a frame many times, idle."""
    columns = Pods.__struct_fields__
    return msgspec.structs.replace(
        frame,
        tick=tick,
        time=time_of(tick),
        apps=[APPS[0]] * TIMES,
        pods=Pods(**{name: getattr(frame.pods, name)[:1] * TIMES for name in columns}),
        features={name: values[:1] * TIMES for name, values in frame.features.items()},
        measured={},
        load_pods=[0.0] * TIMES,
        usual_load_pods=[0.0] * TIMES,
    )


def lowered(plan: ScalePlanned, tick: int) -> ScalePlanned:
    """A plan for the same, down to the minimum."""
    sizes = {name: getattr(plan, name)[:1] * TIMES for name in ("cpu_request", "memory_request")}
    return msgspec.structs.replace(
        plan,
        tick=tick,
        time=time_of(tick),
        decision_id=f"{plan.domain}/{tick}/forged",
        apps=[APPS[0]] * TIMES,
        replicas=[2] * TIMES,
        reasons=["scale-in"] * TIMES,
        need=[],
        replicas_before=[],
        cpu_request_before=[],
        memory_request_before=[],
        **sizes,
    )


def test_an_app_named_many_times_does_not_widen_the_blast_radius() -> None:
    system = System()
    system.apply()
    frame, plan = system.bus.events(DomainObserved)[-1], system.bus.events(ScalePlanned)[-1]
    before = len(system.target.journal)
    # As raw records: our own services cannot encode them.
    for event in (repeated(frame, 2), lowered(plan, 2)):
        topic = "domain-observed" if isinstance(event, DomainObserved) else "scale-planned"
        system.bus.put(f"hirl.{topic}.v1", event.domain.encode(), msgspec.json.encode(event))
    system.bus.run()
    assert system.target.journal[before:] == []
    assert {letter.error for letter in system.bus.dead_letters} == {"columns"}
    assert system.apply(2).tick == 2


def test_apps_that_nobody_declared_cost_no_state() -> None:
    system = System()
    system.apply()
    frame, plan = system.bus.events(DomainObserved)[-1], system.bus.events(ScalePlanned)[-1]
    engine = system.bus._processes["actuator"].engine
    assert engine is not None
    before = engine._store.get(DOMAIN)
    names = [f"forged-{number}" for number in range(1001)]
    ones: dict[str, Any] = {name: [1] * len(names) for name in ("cpu_request", "memory_request")}
    plan = msgspec.structs.replace(lowered(plan, 2), apps=names, **ones)
    plan = msgspec.structs.replace(plan, replicas=[1] * 1001, reasons=["scale-in"] * 1001)
    frame = msgspec.structs.replace(
        frame,
        tick=2,
        time=time_of(2),
        apps=names,
        pods=Pods(**{name: [1] * len(names) for name in Pods.__struct_fields__}),
        features={name: [0.0] * len(names) for name in frame.features},
        measured={},
        load_pods=[0.0] * len(names),
        usual_load_pods=[0.0] * len(names),
    )
    for event in (frame, plan):
        with pytest.raises(Refused, match="unknown-apps"):
            engine.handler.handle(event, before, system.clock)
