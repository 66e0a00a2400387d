import pytest

from schemas.demand_backfilled import DemandBackfilled
from schemas.demand_forecast import DemandForecast
from schemas.domain_observed import DomainObserved, Pods
from schemas.event_scheduled import EventScheduled
from services._kit.clock import ManualClock
from services._kit.frames import MEASURED
from services._kit.handler import Service
from services._kit.memory import MemoryBus
from services.forecaster.decide import ForecasterHandler
from tests.services_data import CLUSTER, declared, time_of

GRACE_S = 2.0
PAST_MIN = 20_160


def build(model: str = "calendar") -> MemoryBus:
    bus = MemoryBus(ManualClock(1000.0))
    bus.add(lambda: Service(ForecasterHandler(CLUSTER, model, 120, GRACE_S)))
    for place, domain in enumerate(CLUSTER.domain_names):
        bus.publish(declared(f"{domain}-0001", domain=domain, ordinal=place))
    return bus


def backfill(bus: MemoryBus, rps: float = 100.0) -> None:
    for domain in CLUSTER.domain_names:
        bus.publish(
            DemandBackfilled(domain=domain, until_tick=0, until=time_of(0), rps=[rps] * PAST_MIN)
        )


def frame(domain: str, tick: int, rps: float | None = 100.0) -> DomainObserved:
    some = None if rps is None else 1.0
    measured = {name: [some] for name in MEASURED} | {"rps": [rps]}
    return DomainObserved(
        tick=tick,
        time=time_of(tick),
        domain=domain,
        apps=[f"{domain}-0001"],
        pods=Pods(
            replicas=[1],
            cpu_request=[1000],
            memory_request=[1024],
            ready=[1],
            starting=[0],
            pending=[0],
            restarts=[0],
        ),
        measured=measured,
        features={},
        load=[1.0],
        usual=[1.0],
    )


def play(bus: MemoryBus, first: int, last: int, rps: float | None = 100.0) -> None:
    for tick in range(first, last + 1):
        bus.publish(*(frame(domain, tick, rps) for domain in CLUSTER.domain_names))
    bus.run()


def said(bus: MemoryBus, domain: str = "payments") -> list[DemandForecast]:
    return [event for event in bus.events(DemandForecast) if event.domain == domain]


@pytest.mark.parametrize("model", ["calendar", "seasonal", "persistence"])
def test_each_minute_has_a_forecast_of_each_domain(model: str) -> None:
    bus = build(model)
    backfill(bus)
    play(bus, 0, 12)
    assert [event.tick for event in said(bus)] == [0, 6, 12]
    newest = said(bus)[-1]
    assert newest.model == f"{model}/1"
    assert newest.rps[0][1] == pytest.approx(100, rel=0.05)
    assert newest.valid_until_tick > newest.tick


def test_without_a_record_it_says_nothing_rather_than_zero() -> None:
    bus = build()
    play(bus, 0, 12)
    assert said(bus) == []


def test_what_was_announced_is_believed() -> None:
    bus = build()
    backfill(bus)
    bus.publish(
        EventScheduled(
            name="sale",
            domains=["payments"],
            starts_at=time_of(6 * 12),
            ends_at=time_of(6 * 60),
            expected_factor=3.0,
        )
    )
    play(bus, 0, 12)
    assert said(bus)[-1].rps[1][1] == pytest.approx(300, rel=0.1)
    assert said(bus, "internal")[-1].rps[1][1] == pytest.approx(100, rel=0.1)


def test_an_announcement_that_comes_while_it_runs_counts_from_the_next_minute() -> None:
    bus = build()
    backfill(bus)
    play(bus, 0, 6)
    bus.publish(
        EventScheduled(
            name="sale",
            domains=["payments"],
            starts_at=time_of(6 * 14),
            ends_at=time_of(6 * 60),
            expected_factor=3.0,
        )
    )
    play(bus, 7, 12)
    assert said(bus)[-1].rps[1][1] == pytest.approx(300, rel=0.1)


def test_a_domain_without_a_frame_keeps_its_last_minute() -> None:
    bus = build()
    backfill(bus)
    play(bus, 0, 6)
    for tick in range(7, 13):
        bus.publish(*(frame(d, tick) for d in CLUSTER.domain_names if d != "payments"))
        bus.advance(GRACE_S + 0.1)
    assert said(bus)[-1].tick == 12
    assert said(bus)[-1].rps[0][1] == pytest.approx(100, rel=0.05)


def test_a_restart_goes_on_as_if_nothing_had_been() -> None:
    undisturbed, restarted = build(), build()
    for bus in (undisturbed, restarted):
        backfill(bus)
        play(bus, 0, 15, 100.0)
    restarted.kill("forecaster", redeliver=5)
    restarted.start("forecaster")
    for bus in (undisturbed, restarted):
        play(bus, 16, 36, 180.0)
    expected = {event.tick: event for event in said(undisturbed)}
    assert {event.tick: event for event in said(restarted)} == expected


def test_a_rule_whose_time_is_over_is_made_anew() -> None:
    bus = MemoryBus(ManualClock(1000.0))
    bus.add(lambda: Service(ForecasterHandler(CLUSTER, "seasonal", 3, GRACE_S)))
    for place, domain in enumerate(CLUSTER.domain_names):
        bus.publish(declared(f"{domain}-0001", domain=domain, ordinal=place))
    backfill(bus)
    play(bus, 0, 48)
    assert [event.tick for event in said(bus)] == list(range(0, 49, 6))
    assert said(bus)[-1].rps[0][1] == pytest.approx(100, rel=0.05)
