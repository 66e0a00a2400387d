"""An operator's order starts a key over, once, whether its service runs or not."""

import base64

import pytest

from models.control.tuned import tuned_parameters
from schemas.scale_planned import ScalePlanned
from schemas.state_reset import StateReset
from services._kit.clock import ManualClock
from services._kit.handler import Service
from services._kit.memory import MemoryBus
from services.aggregator.decide import AggregatorHandler
from services.soldier.decide import SoldierHandler
from tests.service_helpers import CLUSTER, DOMAIN, granted, inventory, pools, sampled


def order(state: str = f"soldier/{DOMAIN}", number: int = 1) -> StateReset:
    return StateReset(
        state=state,
        id=f"order-{number}",
        reason="obeys nonsense",
        issued_by="alice",
        issued_at="2026-11-18T00:00:00Z",
    )


@pytest.fixture
def bus() -> MemoryBus:
    bus = MemoryBus(ManualClock(1000.0))
    bus.add(lambda: Service(AggregatorHandler(CLUSTER, tuned_parameters(), 2.0)))
    bus.add(lambda: Service(SoldierHandler(CLUSTER, tuned_parameters(), 2.0)))
    bus.publish(*inventory(), *pools(0), granted(0), sampled(0), sampled(1))
    bus.run()
    assert epochs(bus) == [-1, 0]
    return bus


def epochs(bus: MemoryBus) -> list[int]:
    """Of each plan: without a budget, -1."""
    return [plan.epoch for plan in bus.events(ScalePlanned)]


def resets(bus: MemoryBus) -> list[str]:
    return [letter.key for letter in bus.dead_letters if letter.error == "reset"]


def test_a_running_service_starts_the_key_over_and_publishes_what_it_dropped(
    bus: MemoryBus,
) -> None:
    before = bus.state("soldier", DOMAIN)
    assert before is not None
    bus.publish(order())
    bus.run()
    (letter,) = bus.dead_letters
    assert (letter.service, letter.topic, letter.key) == (
        "soldier",
        "hirl.state-soldier.v1",
        DOMAIN,
    )
    assert letter.error == "reset"
    assert all(
        word in letter.detail for word in ("alice", "obeys nonsense", "order-1", "2026-11-18")
    )
    assert base64.b64decode(letter.value_base64) == before[: 64 * 1024]
    bus.publish(sampled(2))
    bus.advance(3.0)
    assert epochs(bus) == [-1, 0, -1], "the budget went with the state"


def test_a_stopped_service_carries_out_the_reset_when_it_starts(bus: MemoryBus) -> None:
    bus.kill("soldier")
    bus.publish(order())
    bus.run()
    assert resets(bus) == []
    bus.start("soldier")
    bus.publish(sampled(2))
    bus.advance(3.0)
    assert resets(bus) == [DOMAIN]
    assert epochs(bus) == [-1, 0, -1]


def test_an_order_is_carried_out_once_also_after_restarts(bus: MemoryBus) -> None:
    bus.publish(order())
    bus.run()
    bus.publish(granted(6), sampled(7))
    bus.advance(70.0)
    for _ in range(2):
        bus.kill("soldier")
        bus.start("soldier")
        bus.run()
    assert resets(bus) == [DOMAIN]
    bus.publish(order(number=2))
    bus.run()
    assert resets(bus) == [DOMAIN, DOMAIN]


def test_an_order_leaves_other_services_and_domains_alone(bus: MemoryBus) -> None:
    before = bus.state("aggregator", DOMAIN), bus.state("soldier", DOMAIN)
    bus.publish(order("soldier/fraud"), order("commander/cluster"))
    bus.run()
    assert (bus.state("aggregator", DOMAIN), bus.state("soldier", DOMAIN)) == before
    assert resets(bus) == []
