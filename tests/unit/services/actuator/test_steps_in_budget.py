"""What a step is cut to frees less, so nothing may be added on what it would have freed."""

from typing import Any

import pytest
from msgspec.structs import replace

from models.control.tuned import tuned_parameters
from schemas.domain_observed import DomainObserved
from schemas.scale_applied import ScaleApplied
from schemas.scale_planned import ScalePlanned
from services._kit.clock import ManualClock
from services._kit.handler import Service
from services._kit.memory import MemoryBus
from services.actuator.decide import ActuatorHandler
from services.actuator.settings import Modes
from services.actuator.target import Reading, StepLimits
from services.aggregator.decide import AggregatorHandler
from services.soldier.decide import SoldierHandler
from tests.service_helpers import (
    CLUSTER,
    DOMAIN,
    REPLICAS,
    declared,
    granted,
    heartbeat,
    pools,
    sampled,
)
from tests.unit.services.actuator.actuator_helpers import GRACE_S, HOT, present

NAMES = tuple(f"payments-{index:04}" for index in range(1, 41))
CORES = float(len(NAMES) * REPLICAS)
"""What all of them hold, and their budget."""


def applied(limits: StepLimits | None, changes: dict[int, tuple[int, int]]) -> ScaleApplied:
    """What becomes of a plan that changes replicas and millicores of these apps."""
    clock = ManualClock(1000.0)
    bus = MemoryBus(clock)
    bus.add(lambda: Service(AggregatorHandler(CLUSTER, tuned_parameters(), GRACE_S)))
    bus.add(lambda: Service(SoldierHandler(CLUSTER, tuned_parameters(), GRACE_S)))
    inventory = [declared(name) for name in NAMES]
    bus.publish(*inventory, *pools(0), sampled(0, use=HOT, apps=list(NAMES)))
    bus.run()
    budget = granted(0, cores=CORES)
    bus.publish(budget, sampled(1, use=HOT, apps=list(NAMES)))
    bus.run()
    frame, plan = bus.events(DomainObserved)[-1], bus.events(ScalePlanned)[-1]
    columns: dict[str, Any] = {
        name: list(getattr(plan, f"{name}_before"))
        for name in ("replicas", "cpu_request", "memory_request")
    }
    for index, (replicas, cpu) in changes.items():
        columns["replicas"][index], columns["cpu_request"][index] = replicas, cpu
    handler = ActuatorHandler(CLUSTER, Modes(), None, None, limits=limits)
    for event in (*inventory, heartbeat(0)):
        handler.learn_recorded(event, clock.date(), clock)
    state = handler.start(DOMAIN)
    for event in (budget, frame):
        state = handler.handle(event, state, clock).state
    step = handler.handle(replace(plan, **columns), state, clock)
    reading = Reading(domain=DOMAIN, tick=1, apps={name: present() for name in NAMES})
    step = handler.written(reading, step.state, clock)
    assert step.state.pending is not None
    return step.state.pending.applied


def held(done: ScaleApplied) -> float:
    more = [
        replicas * cpu - before * cpu_before
        for replicas, cpu, before, cpu_before in zip(
            done.replicas, done.cpu_request, done.replicas_before, done.cpu_request_before,
            strict=True,
        )
    ]  # fmt: skip
    return CORES + sum(more) / 1000.0


@pytest.mark.parametrize("limits", [None, StepLimits(4, 10), StepLimits(2, 0)])
@pytest.mark.parametrize(
    "changes",
    [
        {0: (8, 1250)},  # fewer and larger pods, together as many cores
        {0: (1, 1000), 1: (19, 1000)},  # one gives what another one gets
        {0: (8, 1250), 1: (1, 1000), 2: (19, 1000)},
    ],
)
def test_a_plan_within_the_budget_stays_within_it_step_by_step(
    limits: StepLimits | None, changes: dict[int, tuple[int, int]]
) -> None:
    done = applied(limits, changes)
    assert held(done) <= CORES


def test_an_increase_that_needs_no_more_than_is_freed_is_made() -> None:
    done = applied(StepLimits(4, 10), {0: (8, 1000), 1: (12, 1000)})
    assert done.replicas == [8, 12]
