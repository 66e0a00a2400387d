"""Frames and plans that name apps which do not exist, or one app many times."""

import msgspec

from schemas.domain_observed import DomainObserved, Pods
from schemas.scale_planned import ScalePlanned
from tests.service_helpers import APPS, time_of
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
