"""The cluster's breaker, kept together by the breakers of the domains."""

from typing import Any, Final

import msgspec
import pytest

from models.cluster.description import load_cluster
from models.control.breaker.cluster import ClusterThresholds
from models.control.breaker.limits import Thresholds
from schemas.breaker_changed import BreakerChanged
from schemas.budget_granted import BudgetGranted
from schemas.domain_observed import DomainObserved, Pods
from schemas.fields import Event
from schemas.pool_observed import PoolObserved
from services._kit.handler import Service
from services._kit.memory import MemoryBus
from services.breaker.cluster import LEAD_TICKS
from services.breaker.decide import BreakerHandler

CLUSTER: Final = load_cluster()
DOMAINS: Final = CLUSTER.domain_names
LIMITS: Final = Thresholds(
    missing_ticks=2, error_ticks=3, quiet_ticks=3, probation_ticks=4, resume_ticks=2
)
QUICK: Final = ClusterThresholds(domains_ticks=2, cost_ticks=2, silence_ticks=12, budgets_ticks=2)
TIME: Final = "2026-11-27T08:00:00Z"


def time_at(tick: int) -> str:
    minute, second = divmod(10 * tick, 60)
    return f"2026-11-27T08:{minute:02d}:{second:02d}Z"


def frame(tick: int, domain: str, **changes: Any) -> DomainObserved:
    apps = [f"{domain}/a", f"{domain}/b"]
    pods: dict[str, Any] = {name: [4, 4] for name in Pods.__struct_fields__}
    plain = DomainObserved(
        tick=tick, time=time_at(tick), domain=domain, apps=apps, pods=Pods(**pods),
        measured={"rps": [10.0, 10.0], "errors": [0.0, 0.0]}, features={"headroom": [0.5, 0.5]},
        load_pods=[1.0, 1.0], usual_load_pods=[1.0, 1.0],
    )  # fmt: skip
    return msgspec.structs.replace(plain, **changes)


def budget(tick: int, domain: str, **changes: Any) -> BudgetGranted:
    plain = BudgetGranted(
        tick=tick, time=TIME, domain=domain, epoch=tick // 6, valid_until_tick=tick + 18,
        share=0.18, reserve_share=0.1, cores=100.0, memory_gib=400.0,
    )  # fmt: skip
    return msgspec.structs.replace(plain, **changes)


def pool(tick: int, ready: int) -> PoolObserved:
    return PoolObserved(
        tick=tick, time=TIME, pool="shared", ready=ready, booting=0, quota=9999, free_cores=1.0,
        free_memory_gib=1.0,
    )  # fmt: skip


def failing(tick: int, domain: str) -> DomainObserved:
    return frame(tick, domain, missing=[f"{domain}/a", f"{domain}/b"])


def bus_of(stale_s: float | None = None) -> MemoryBus:
    bus = MemoryBus()
    bus.add(lambda: Service(BreakerHandler(CLUSTER, LIMITS, stale_s, QUICK)))
    return bus


def run(bus: MemoryBus, *events: Event) -> list[BreakerChanged]:
    """What was published about the cluster after these events."""
    before = len(of_cluster(bus))
    for event in events:  # one by one, so that each is judged with all that was published before
        bus.publish(event)
        bus.run()
    return of_cluster(bus)[before:]


def of_cluster(bus: MemoryBus) -> list[BreakerChanged]:
    return [event for event in bus.events(BreakerChanged) if event.scope == "cluster"]


def tick_of_all(tick: int) -> list[Event]:
    return [frame(tick, domain) for domain in DOMAINS]


def test_one_domain_speaks_for_the_cluster_once_a_tick() -> None:
    bus = bus_of()
    published = run(bus, *tick_of_all(0), *tick_of_all(1), *tick_of_all(2))
    assert [(event.tick, event.state, event.action) for event in published] == [
        (tick, "closed", "none") for tick in range(3)
    ]
    assert [event.heartbeat for event in published] == [False, True, True]


def test_another_domain_takes_over_with_the_same_state_when_the_first_stops() -> None:
    bus = bus_of()
    run(bus, *tick_of_all(0), *(budget(0, domain, share=0.5) for domain in DOMAINS))
    assert run(bus, *tick_of_all(1), *tick_of_all(2))[-1].state == "half-open"
    later = [frame(tick, domain) for tick in range(3, 3 + LEAD_TICKS + 2) for domain in DOMAINS[1:]]
    (first, *_) = published = run(bus, *later)
    assert first.tick == 2 + LEAD_TICKS + 1
    assert (first.state, first.since_tick, first.heartbeat) == ("half-open", 2, True)
    assert first.reason.startswith("budgets: shares and reserve sum to")
    assert len(published) == 2


def test_it_trips_when_most_domains_trip_and_not_when_one_does() -> None:
    bus = bus_of()
    run(bus, *tick_of_all(0))
    for tick in range(1, 5):
        run(bus, *(failing(tick, domain) for domain in DOMAINS[:2]))
    assert of_cluster(bus)[-1].state == "closed"
    for tick in range(5, 9):
        run(bus, *(failing(tick, domain) for domain in DOMAINS[:3]))
    last = of_cluster(bus)[-1]
    assert (last.state, last.cause, last.action) == ("half-open", "domains", "no-scale-in")
    assert last.readings["domains"] == pytest.approx(0.6)


def test_an_outage_of_all_frames_does_not_trip_it() -> None:
    bus = bus_of(stale_s=60.0)
    run(bus, *tick_of_all(0))
    bus.advance(200.0)
    states = {event.scope: event.state for event in bus.events(BreakerChanged)}
    assert {states[domain] for domain in DOMAINS} == {"open"}
    published = []
    for tick in range(20, 30):
        published += run(bus, *tick_of_all(tick))
        bus.advance(10.0)
    assert {event.state for event in published} == {"closed"}
    newest = bus.newest(BreakerChanged)
    assert {newest[domain].state for domain in DOMAINS} == {"closed"}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"share": 0.5}, "budgets: shares and reserve sum to 2.600"),
        ({"cores": 0.0}, "budgets: payments has no budget"),
        ({"share": 0.0}, "budgets: payments has no budget"),
    ],
)
def test_implausible_budgets_hold_decreases_everywhere(
    changes: dict[str, Any], reason: str
) -> None:
    bus = bus_of()
    run(bus, *tick_of_all(0), *(budget(0, domain, **changes) for domain in DOMAINS))
    last = run(bus, *tick_of_all(1), *tick_of_all(2))[-1]
    assert (last.state, last.action) == ("half-open", "increases-only")
    assert last.reason.startswith(reason)


def test_a_silent_commander_holds_decreases_until_it_is_back() -> None:
    bus = bus_of()
    run(bus, *tick_of_all(0), *(budget(0, domain) for domain in DOMAINS))
    states = [run(bus, *tick_of_all(tick))[-1].state for tick in range(1, 15)]
    assert states == ["closed"] * 12 + ["half-open"] * 2
    run(bus, *(budget(14, domain) for domain in DOMAINS))
    states = [run(bus, *tick_of_all(tick))[-1].state for tick in (15, 16)]
    assert states == ["half-open", "closed"]


def test_a_budget_from_the_far_future_does_not_hide_the_silence() -> None:
    bus = bus_of()
    run(bus, *tick_of_all(0), budget(0, "payments"), budget(99_999, "data"))
    assert run(bus, *tick_of_all(13))[-1].cause == "silence"


def test_a_cost_above_the_cap_lets_only_decreases_pass() -> None:
    bus = bus_of()
    most = int(1.2 * CLUSTER.spend_cap_per_hour / 3.07 / 0.886) + 1
    run(bus, pool(0, most), *tick_of_all(0))
    last = run(bus, *tick_of_all(1))[-1]
    assert (last.state, last.action, last.cause) == ("open", "decreases-only", "cost")


def test_after_a_restart_an_open_cluster_breaker_stays_open() -> None:
    bus = bus_of()
    run(bus, *tick_of_all(0), *(budget(0, domain, share=0.5) for domain in DOMAINS))
    run(bus, *tick_of_all(1), *tick_of_all(2))
    bus.kill("breaker")
    bus.start("breaker")
    last = run(bus, *tick_of_all(3))[-1]
    assert (last.state, last.since_tick) == ("half-open", 2)
