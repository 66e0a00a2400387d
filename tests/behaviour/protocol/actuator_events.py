"""What is sent to the actuator of the model, and what may happen to it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from schemas.breaker_changed import BreakerChanged
from schemas.codec import encode
from schemas.domain_observed import DomainObserved, Pods
from schemas.fields import Event
from schemas.override_issued import OverrideIssued
from schemas.scale_applied import ScaleApplied
from schemas.scale_planned import ScalePlanned
from schemas.topics import topic_of
from services._kit.engine import Engine
from services._kit.records import Delivery
from services.actuator.decide import ActuatorHandler
from services.actuator.state import ActuatorState
from services.simcluster.target import Numbers, Target
from tests.behaviour.protocol.target import Client
from tests.behaviour.protocol.turns import Commit, Request
from tests.service_helpers import DOMAIN, granted, time_of

APPS: Final = ("payments-0001", "payments-0002")
TOPICS: Final = tuple(topic_of(kind).name for kind in ActuatorHandler.inputs)
BEGIN: Final = 1000.0
GRACE_S: Final = 2.0
STALE_S: Final = 60.0
CPU, MEMORY = 1000, 2048

LOSS, DUPLICATE, NETWORK, FOREIGN, GRACE, MINUTE = range(6)
"""Kinds of faults: the owner crashes, or is paused while another process takes over; a record is
delivered again; a request or an answer is lost; an app is changed by somebody else; a grace period
ends; a minute passes without anything."""


@dataclass(frozen=True)
class Scenario:
    """What is sent, what may happen to it, and what is explored: the real parts or mutants."""

    replicas: Sequence[tuple[int, int]] = ((10, 10), (12, 9), (13, 9))
    """Of both apps, as observed in tick 1, as planned by it and observed in tick 2, and so on."""
    budgets: Sequence[int] = (0,)
    """Ticks of budgets, in the order of their topic."""
    reference: Sequence[BreakerChanged | OverrideIssued] = ()
    """Heartbeats and orders, which arrive at any time, in this order."""
    lock_step: bool = False
    faults: Mapping[int, int] = field(default_factory=dict)
    """Most faults by kind."""
    most_faults: int = 1
    handler: type[ActuatorHandler] = ActuatorHandler
    engine: type[Engine[ActuatorState]] = Engine
    client: type[Client] = Client
    target: type[Target] = Target
    fences: bool = True


def plans_of(scenario: Scenario) -> list[ScalePlanned]:
    """A plan for each tick."""
    count, steps = len(APPS), zip(scenario.replicas, scenario.replicas[1:], strict=False)
    return [
        ScalePlanned(
            tick=tick, time=time_of(tick), domain=DOMAIN, decision_id=f"{DOMAIN}/{tick}", epoch=0,
            policy="model/1", apps=list(APPS), replicas=list(after), cpu_request=[CPU] * count,
            memory_request=[MEMORY] * count, reasons=["scale-out", "scale-in"],
            replicas_before=list(before), cpu_request_before=[CPU] * count,
            memory_request_before=[MEMORY] * count,
        )
        for tick, (before, after) in enumerate(steps, 1)
    ]  # fmt: skip


def _frame(plan: ScalePlanned) -> DomainObserved:
    """What a plan was made from."""
    none = [0] * len(APPS)
    pods = Pods(
        replicas=plan.replicas_before, ready=plan.replicas_before, starting=none, pending=none,
        restarts=none, cpu_request=plan.cpu_request, memory_request=plan.memory_request,
    )  # fmt: skip
    return DomainObserved(
        tick=plan.tick, time=plan.time, domain=DOMAIN, apps=list(APPS), pods=pods, measured={},
        features={"missing": [0.0] * len(APPS)}, load_pods=[5.0] * len(APPS),
        usual_load_pods=[5.0] * len(APPS),
    )  # fmt: skip


def log_of(scenario: Scenario) -> tuple[tuple[Delivery, ...], ...]:
    """The records of each input topic."""
    plans = plans_of(scenario)
    frames, budgets = map(_frame, plans), map(granted, scenario.budgets)
    return tuple(
        tuple(_delivery(event, offset) for offset, event in enumerate(events))
        for events in (plans, frames, budgets)
    )


def _delivery(event: Event, offset: int) -> Delivery:
    (record,) = encode(event, "model")
    return Delivery(record.topic, 0, offset, record.key, record.value, record.headers, BEGIN)


def tick_of(delivery: Delivery) -> int:
    """Tick of a record."""
    assert delivery.value is not None
    tick: int = msgspec.json.decode(delivery.value)["tick"]
    return tick


def off() -> OverrideIssued:
    """An order to change nothing in the domain."""
    return OverrideIssued(scope=DOMAIN, kind="domain", order="mode", mode="off", reason="model")


def numbers(replicas: int) -> Numbers:
    """What an app has."""
    return Numbers(replicas, CPU, MEMORY)


# Names of steps in a trace.


def name_of_record(delivery: Delivery) -> str:
    return f"{delivery.topic.split('.')[1]} {delivery.offset + 1}"


def name_of_point(point: Commit | Request) -> str:
    if isinstance(point, Commit):
        outcomes = [msgspec.json.decode(value, type=ScaleApplied) for _, value in point.records]
        about = "".join(f", tick {one.tick} {'/'.join(one.outcomes)}" for one in outcomes)
        return f"it commits its state{about}"
    if point.method == "GET":
        return "GET"
    changes = len(msgspec.json.decode(point.body)["changes"])
    return f"PUT of tick {point.path.rsplit('/', 1)[1]} with {changes} changes"


def name_of_reference(event: BreakerChanged | OverrideIssued) -> str:
    if isinstance(event, BreakerChanged):
        return f"the breaker's heartbeat {event.state}@{event.tick}"
    return f"the order {event.mode}"
