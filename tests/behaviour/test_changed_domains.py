"""Services go on when they start with other domains than those of their saved states."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import msgspec
import numpy as np
import pytest

from models.cluster.description import Cluster, load_cluster, with_domains
from models.control.tuned import tuned_parameters
from schemas.budget_granted import BudgetGranted
from schemas.domain_observed import DomainObserved
from schemas.scale_applied import ScaleApplied
from schemas.scale_planned import ScalePlanned
from services._kit.clock import ManualClock
from services._kit.handler import Service
from services._kit.memory import MemoryBus
from services.actuator.decide import ActuatorHandler
from services.actuator.settings import Modes
from services.actuator.target import Read, Reading, TargetRequest, Written
from services.aggregator.decide import AggregatorHandler
from services.commander.decide import CommanderHandler
from services.soldier.decide import SoldierHandler
from tests.service_helpers import declared, granted, pools, sampled

GRACE_S = 2.0
BEFORE: Final = load_cluster()
FIRST, MOVED, *OTHERS = BEFORE.domains
FEWER: Final = with_domains(BEFORE, (MOVED, *OTHERS))
SWAPPED: Final = with_domains(BEFORE, (MOVED, FIRST, *OTHERS))
RENAMED: Final = with_domains(BEFORE, (msgspec.structs.replace(FIRST, name="new"), MOVED, *OTHERS))
CHANGES: Final = pytest.mark.parametrize("after", [FEWER, SWAPPED, RENAMED])
APPS: Final = tuple(f"{MOVED.name}-{number:04}" for number in (1, 2, 3))


class Place:
    """Aggregator and Soldiers, with the apps of the second domain."""

    def __init__(self) -> None:
        self.cluster: Cluster = BEFORE
        self.bus = MemoryBus(ManualClock(1000.0))
        self.bus.add(lambda: Service(AggregatorHandler(self.cluster, tuned_parameters(), GRACE_S)))
        self.bus.add(lambda: Service(SoldierHandler(self.cluster, tuned_parameters(), GRACE_S)))
        self.bus.publish(*(declared(app, domain=MOVED.name) for app in APPS), *pools(0))
        self.bus.publish(declared("pay-0001", domain=FIRST.name))

    def ticks(self, first: int, last: int) -> None:
        for tick in range(first, last + 1):
            self.bus.publish(sampled(tick, domain=MOVED.name, apps=list(APPS)))
            self.bus.run()
            self.bus.advance(10.0)

    def start_with(self, cluster: Cluster) -> None:
        self.cluster = cluster
        for service in ("aggregator", "soldier"):
            self.bus.kill(service)
            self.bus.start(service)
        self.bus.run()


@CHANGES
def test_a_domain_reports_the_same_whatever_became_of_the_others(after: Cluster) -> None:
    unchanged, changed = Place(), Place()
    for place, cluster in ((unchanged, BEFORE), (changed, after)):
        place.ticks(0, 3)
        place.start_with(cluster)
        place.ticks(4, 6)
    expected, found = (place.bus.events(DomainObserved)[-1] for place in (unchanged, changed))
    assert found.tick == 6
    assert found.aggregates["rps"] == 300.0
    assert found.aggregates == expected.aggregates
    assert found.features == expected.features
    plans = [place.bus.events(ScalePlanned)[-1] for place in (unchanged, changed)]
    assert plans[0] == plans[1]


@CHANGES
@pytest.mark.parametrize(
    "build",
    [
        lambda cluster: SoldierHandler(cluster, tuned_parameters(), GRACE_S),
        lambda cluster: ActuatorHandler(cluster, Modes(), GRACE_S, 60.0),
    ],
    ids=["soldier", "actuator"],
)
def test_what_was_taken_from_a_domain_still_counts_against_it(
    build: Callable[[Cluster], Any], after: Cluster
) -> None:
    handler = build(BEFORE)
    state = replace(handler.start(MOVED.name), closed=7)
    history = getattr(state, "memory", state).history
    history.decreased[0, :, BEFORE.domain_names.index(MOVED.name)] = range(6)
    loaded = build(after).load(MOVED.name, handler.save(state))
    assert loaded.closed == 7
    kept = getattr(loaded, "memory", loaded).history.decreased
    expected = np.zeros((1, 6, len(after.domains)))
    expected[0, :, after.domain_names.index(MOVED.name)] = range(6)
    np.testing.assert_array_equal(kept, expected)


def test_a_soldier_of_a_removed_domain_rests_until_it_is_back() -> None:
    place = Place()
    place.bus.publish(sampled(0, domain=FIRST.name, apps=["pay-0001"]))
    place.bus.run()
    place.bus.publish(sampled(1, domain=FIRST.name, apps=["pay-0001"]))
    place.bus.run()
    assert [plan.tick for plan in place.bus.events(ScalePlanned)] == [0]
    place.start_with(RENAMED)
    place.bus.advance(60.0)
    assert [plan.tick for plan in place.bus.events(ScalePlanned)] == [0]
    place.start_with(BEFORE)
    place.bus.advance(60.0)
    assert [plan.tick for plan in place.bus.events(ScalePlanned)] == [0, 1]


def test_budgets_are_granted_while_a_new_domain_has_no_apps_yet() -> None:
    place = Place()
    place.bus.add(
        lambda: Service(
            CommanderHandler(BEFORE, tuned_parameters(), GRACE_S, await_forecasts=False)
        )
    )
    empty = sampled(0)
    nothing: dict[str, Any] = {
        name: [] for name in empty.__struct_fields__ if isinstance(getattr(empty, name), list)
    }
    for tick in range(13):
        for domain in BEFORE.domain_names:
            apps = {"apps": list(APPS)} if domain == MOVED.name else nothing
            place.bus.publish(sampled(tick, domain=domain, **apps))
        place.bus.advance(10.0)
    assert {one.domain for one in place.bus.events(BudgetGranted)} == {*BEFORE.domain_names}


class Nothing:
    """A target without workloads of the domain."""

    async def carry_out(self, request: TargetRequest) -> Reading | Written:
        if isinstance(request, Read):
            return Reading(domain=request.domain, tick=request.tick, apps={})
        return Written(domain=request.domain, tick=request.tick, answers={})


def test_a_plan_of_a_removed_domain_is_held_although_its_apps_are_in_another_one() -> None:
    place, cluster = Place(), [BEFORE]
    place.bus.add(lambda: Service(ActuatorHandler(cluster[0], Modes(), GRACE_S, 60.0), Nothing()))
    # Without a heartbeat of the breaker the plan waits for the grace period.
    place.bus.publish(granted(0, domain=FIRST.name))
    place.bus.publish(sampled(0, domain=FIRST.name, apps=["pay-0001"]))
    place.bus.advance(GRACE_S / 2)
    assert place.bus.events(ScalePlanned)
    place.bus.kill("actuator")
    cluster[0] = RENAMED
    place.bus.publish(declared("pay-0001", domain="new"))
    place.bus.start("actuator")
    place.bus.advance(60.0)
    (closed,) = place.bus.events(ScaleApplied)
    assert (closed.domain, closed.tick) == (FIRST.name, 0)
    assert (closed.outcomes, closed.reasons) == (["held"], ["not-declared"])
