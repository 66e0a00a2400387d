"""Frames and plans that name apps which do not exist, or one app many times."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from schemas.domain_observed import DomainObserved, Pods
from schemas.scale_planned import ScalePlanned
from services._kit.errors import Refused
from tests.service_helpers import APPS, DOMAIN, REPLICAS, granted, time_of
from tests.unit.services.actuator.actuator_helpers import Alone, System

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


def test_an_app_that_is_left_out_for_a_tick_still_rests() -> None:
    alone = Alone()
    others = list(APPS[1:])
    alone.take(granted(0))
    (write,) = alone.take(frame_of(alone, 1), decrease(alone, 1))
    assert [change.app for change in write.changes] == [APPS[0]]
    alone.take(frame_of(alone, 2, others), decrease(alone, 2, others))
    alone.restart()
    (write,) = alone.take(frame_of(alone, 3), decrease(alone, 3))
    assert write.changes == []
    # It rests no longer than it would have done otherwise.
    assert alone.state.resting == {}


def frame_of(alone: Alone, tick: int, apps: Sequence[str] = APPS) -> DomainObserved:
    """The frame of a tick with some of the apps."""
    frame = alone.frames[1]
    at = [frame.apps.index(app) for app in apps]

    def only(values: Sequence[Any]) -> list[Any]:
        return [values[index] for index in at]

    return msgspec.structs.replace(
        frame,
        tick=tick,
        time=time_of(tick),
        apps=list(apps),
        pods=Pods(**{name: only(getattr(frame.pods, name)) for name in Pods.__struct_fields__}),
        features={name: only(values) for name, values in frame.features.items()},
        measured={},
        load_pods=only(frame.load_pods),
        usual_load_pods=only(frame.usual_load_pods),
    )


def decrease(alone: Alone, tick: int, apps: Sequence[str] = APPS) -> ScalePlanned:
    """A plan that takes a pod of the first app, if it is among them."""
    return msgspec.structs.replace(
        alone.plans[1],
        tick=tick,
        time=time_of(tick),
        decision_id=f"{DOMAIN}/{tick}/forged",
        apps=list(apps),
        replicas=[REPLICAS - (app == APPS[0]) for app in apps],
        cpu_request=[1000] * len(apps),
        memory_request=[2048] * len(apps),
        reasons=["scale-in"] * len(apps),
        need=[],
        replicas_before=[],
        cpu_request_before=[],
        memory_request_before=[],
    )
