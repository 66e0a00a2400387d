from typing import Any

import numpy as np
import pytest

from schemas.domain_observed import DomainObserved
from services._kit.clock import ManualClock
from services._kit.cluster_file import parameters_of
from services._kit.handler import Service
from services._kit.memory import MemoryBus
from services.aggregator.decide import AggregatorHandler
from tests.services_data import APPS, CLUSTER, declared, inventory, pools, sampled

GRACE_S = 2.0


@pytest.fixture
def bus() -> MemoryBus:
    bus = MemoryBus(ManualClock(1000.0))
    bus.add(lambda: Service(AggregatorHandler(CLUSTER, parameters_of(), GRACE_S)))
    bus.publish(*inventory(), *pools(0))
    return bus


def frames(bus: MemoryBus) -> list[DomainObserved]:
    bus.run()
    return bus.events(DomainObserved)


def test_a_tick_closes_when_its_source_has_nothing_more(bus: MemoryBus) -> None:
    bus.publish(sampled(0, apps=list(APPS[:2]), final=True))
    (frame,) = frames(bus)
    assert frame.closed_by == "final"
    assert frame.apps == list(APPS)
    assert frame.missing == [APPS[2]]


def test_a_tick_closes_when_every_declared_app_has_reported(bus: MemoryBus) -> None:
    bus.publish(sampled(0, apps=list(APPS[:2]), final=False))
    assert frames(bus) == []
    bus.publish(sampled(0, apps=list(APPS[2:]), final=False))
    (frame,) = frames(bus)
    assert frame.closed_by == "complete"
    assert frame.missing == []


def test_a_tick_closes_after_the_grace_period_and_says_what_is_missing(bus: MemoryBus) -> None:
    bus.publish(sampled(0, apps=list(APPS[:1]), final=False))
    bus.advance(GRACE_S - 0.1)
    assert frames(bus) == []
    bus.advance(0.2)
    (frame,) = frames(bus)
    assert frame.closed_by == "grace"
    assert frame.missing == list(APPS[1:])


def test_ticks_close_in_order_and_once(bus: MemoryBus) -> None:
    bus.publish(sampled(0, apps=list(APPS[:1]), final=False), sampled(1), sampled(1), sampled(0))
    bus.advance(2 * GRACE_S)
    bus.publish(sampled(0), sampled(1))
    assert [frame.tick for frame in frames(bus)] == [0, 1]


def test_what_did_not_arrive_is_missing_and_never_zero(bus: MemoryBus) -> None:
    bus.publish(sampled(0), sampled(1, rps=[None, 100.0, 100.0]))
    _, frame = frames(bus)
    assert frame.missing == [APPS[0]]
    assert frame.measured["rps"][0] is None
    # The last valid sample goes on, and so does the load that was read off it.
    assert frame.features["rps"][0] == pytest.approx(100, rel=0.01)
    assert frame.load[0] > 0


def test_zeros_of_an_exporter_on_error_are_missing(bus: MemoryBus) -> None:
    dead: dict[str, Any] = {
        name: [0.0] * 3 for name in ("rps", "cpu_cores", "memory_gib", "latency_p99_s")
    }
    bus.publish(sampled(0), sampled(1, **dead))
    _, frame = frames(bus)
    assert frame.missing == list(APPS)


def test_single_pods_add_up_to_their_app(bus: MemoryBus) -> None:
    bus.publish(sampled(0))
    pods = [f"pod-{n}" for n in range(10)]
    batch = sampled(
        1,
        apps=[APPS[0]] * 10,
        pods=pods,
        final=False,
        rps=[20.0] * 10,
        cpu_cores=[0.5] * 10,
        latency_p99_s=[0.05] * 9 + [0.4],
    )
    bus.publish(batch, sampled(1, apps=list(APPS[1:]), final=False))
    _, frame = frames(bus)
    assert frame.closed_by == "complete"
    assert frame.measured["rps"][0] == pytest.approx(200)
    assert frame.measured["cpu_cores"][0] == pytest.approx(5)
    assert frame.measured["measured_pods"][0] == 10
    assert frame.measured["latency_p99_s"][0] == pytest.approx(0.4)


def test_apps_that_are_not_declared_are_not_looked_at(bus: MemoryBus) -> None:
    bus.publish(sampled(0, apps=[*APPS, "stranger"]))
    (frame,) = frames(bus)
    assert frame.apps == list(APPS)


def test_an_app_that_comes_later_joins_the_next_frame(bus: MemoryBus) -> None:
    bus.publish(sampled(0))
    before = frames(bus)[-1]
    bus.publish(declared("payments-0000"))
    bus.publish(sampled(1, apps=["payments-0000", *APPS]))
    after = frames(bus)[-1]
    assert after.apps == ["payments-0000", *APPS]
    assert after.features["sample_age"] == [0.0] * 4
    assert np.allclose(after.load[1:], before.load, rtol=0.3)


def test_a_restart_remembers_the_demand(bus: MemoryBus) -> None:
    for tick in range(5):
        bus.publish(sampled(tick, use=0.6))
    frames(bus)
    bus.kill("aggregator", redeliver=2)
    bus.start("aggregator")
    bus.publish(sampled(5, rps=[None] * 3))
    frame = frames(bus)[-1]
    assert frame.tick == 5
    assert all(load > 5 for load in frame.load)


def test_a_domain_that_nobody_knows_is_a_dead_letter(bus: MemoryBus) -> None:
    bus.publish(sampled(0, domain="nowhere"))
    assert frames(bus) == []
    (letter,) = bus.dead_letters
    assert letter.error == "unknown-domain"
    assert "payments" in letter.detail
