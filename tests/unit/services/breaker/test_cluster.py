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
from schemas.override_issued import OverrideIssued
from schemas.pool_observed import PoolObserved
from services._kit.clock import ManualClock
from services._kit.handler import Service
from services._kit.memory import MemoryBus
from services.breaker.cluster import LEAD_TICKS, ClusterWatch
from services.breaker.decide import BreakerHandler
from services.breaker.state import BreakerState

CLUSTER: Final = load_cluster()
DOMAINS: Final = CLUSTER.domain_names
LIMITS: Final = Thresholds(
    missing_ticks=2, error_ticks=3, quiet_ticks=3, probation_ticks=4, resume_ticks=2
)
QUICK: Final = ClusterThresholds(
    domains_ticks=2, cost_ticks=2, silence_ticks=12, budgets_ticks=2, budgets_fallback_ticks=4
)
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


def test_one_domain_publishes_the_clusters_breaker_once_a_tick() -> None:
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
    run(bus, *(frame(tick, DOMAINS[2]) for tick in range(1, 5)))
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
    later = [event for tick in range(1, 14) for event in tick_of_all(tick)]
    assert run(bus, *later)[-1].cause == "silence"


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


def test_implausible_budgets_step_down_to_a_hold_and_plausible_ones_climb_back() -> None:
    bus = bus_of()
    run(bus, *tick_of_all(0))

    def follow(first: int, last: int, share: float) -> list[BreakerChanged]:
        """What is published in some ticks, with budgets each minute."""
        found = []
        for tick in range(first, last):
            if tick % 6 == 1 or tick == first:
                run(bus, *(budget(tick - 1, domain, share=share) for domain in DOMAINS))
            found += run(bus, frame(tick, DOMAINS[0]))
        return found

    found = follow(1, 14, share=0.5)
    assert [event.level for event in found] == [
        *["policy"] * 3, *["heuristic"] * 4, *["reactive"] * 4, *["hold"] * 2
    ]  # fmt: skip
    # Increases pass until nothing may decide; then the state says so, too.
    assert {event.action for event in found[2:11]} == {"increases-only"}
    assert {(event.state, event.action) for event in found[11:]} == {("open", "freeze")}
    assert [event.tick for event in found if not event.heartbeat] == [2, 4, 8, 12]
    after = follow(14, 28, share=0.18)
    assert list(dict.fromkeys(event.level for event in after)) == [
        "hold", "reactive", "heuristic", "policy"
    ]  # fmt: skip
    assert (after[-1].state, after[-1].action, after[-1].cause) == ("closed", "none", "")
    fallen = next(event for event in after if event.state == "closed")
    assert (fallen.action, fallen.reason) == ("fallback", "fell back to reactive: budgets")


def test_a_reset_of_the_cluster_restores_its_level_once() -> None:
    bus = bus_of()
    run(bus, *tick_of_all(0), *(budget(0, domain, share=0.5) for domain in DOMAINS))
    found = run(bus, *(frame(tick, DOMAINS[0]) for tick in range(1, 14)))
    assert (found[-1].state, found[-1].level) == ("open", "hold")
    order = OverrideIssued(
        scope="cluster", kind="cluster", order="breaker", breaker="reset", order_id="0a1b",
        reason="the Commander is mended", issued_at="2026-11-27T08:02:15Z",
    )  # fmt: skip
    run(bus, *(budget(13, domain, share=0.5) for domain in DOMAINS))
    reset, *after = run(bus, order, *(frame(tick, DOMAINS[0]) for tick in range(14, 27)))
    assert (reset.tick, reset.state, reset.level, reset.action) == (14, "closed", "policy", "none")
    assert (reset.since_tick, reset.heartbeat) == (14, False)
    assert reset.reason == "reset by order 0a1b: the Commander is mended"
    # The budgets are as they were, so it trips and falls back again, each after its whole time.
    assert [(event.tick, event.level) for event in after if not event.heartbeat] == [
        (16, "policy"), (18, "heuristic"), (22, "reactive"), (26, "hold")
    ]  # fmt: skip
    assert after[0].reason == ""


def test_another_domain_does_not_repeat_a_reset_of_the_cluster() -> None:
    bus = bus_of()
    run(bus, *tick_of_all(0), *(budget(0, domain, share=0.5) for domain in DOMAINS))
    run(bus, *(event for tick in range(1, 6) for event in tick_of_all(tick)))
    order = OverrideIssued(
        scope="cluster", kind="cluster", order="breaker", breaker="reset", reason="a test",
        issued_at="2026-11-27T08:00:55Z",
    )  # fmt: skip
    run(bus, order, *(event for tick in range(6, 9) for event in tick_of_all(tick)))
    assert of_cluster(bus)[-1].state == "half-open"
    first = run(bus, *(frame(tick, DOMAINS[1]) for tick in range(9, 9 + LEAD_TICKS + 1)))[0]
    assert (first.state, first.since_tick) == ("half-open", 8)


def test_another_domain_takes_over_with_the_same_level() -> None:
    bus = bus_of()
    run(bus, *tick_of_all(0), *(budget(0, domain, share=0.5) for domain in DOMAINS))
    for tick in range(1, 6):
        run(bus, *tick_of_all(tick))
    assert of_cluster(bus)[-1].level == "heuristic"
    later = [frame(tick, DOMAINS[1]) for tick in range(6, 6 + LEAD_TICKS + 1)]
    first = run(bus, *later)[0]
    assert (first.level, first.cause, first.heartbeat) == ("heuristic", "budgets", True)


def watch_of(domain: str) -> BreakerHandler:
    """A breaker that knows what others published so far."""
    handler = BreakerHandler(CLUSTER, LIMITS, None, QUICK)
    handler.learn(budget(0, domain, share=2.0), ManualClock())
    return handler


def of_scope(scope: str, tick: int, state: Any) -> BreakerChanged:
    return BreakerChanged(
        tick=tick, time=time_at(tick), scope=scope, state=state, since_tick=0,
        cause="" if state == "closed" else "budgets",
    )  # fmt: skip


def said(
    handler: BreakerHandler,
    tick: int,
    state: BreakerState | None = None,
    domain: str = DOMAINS[0],
) -> tuple[dict[str, str], BreakerState]:
    """States by scope that a domain publishes after a frame."""
    step = handler.handle(frame(tick, domain), state or handler.start(domain), ManualClock())
    events = [event for event in step.events if isinstance(event, BreakerChanged)]
    return {event.scope: event.state for event in events}, step.state


def test_a_domain_that_was_late_adds_nothing_to_ticks_that_another_one_has_led() -> None:
    handler = watch_of(DOMAINS[0])
    handler.learn(of_scope("cluster", 10, "closed"), ManualClock())
    assert ["cluster" in said(handler, tick)[0] for tick in (6, 10, 11)] == [False, False, True]


def test_a_cluster_breaker_from_the_far_future_silences_no_domain() -> None:
    handler = watch_of(DOMAINS[0])
    handler.learn(of_scope("cluster", 1_000_000, "closed"), ManualClock())
    assert "cluster" in said(handler, 6)[0]


def test_a_cluster_breaker_from_the_far_future_closes_nothing() -> None:
    handler = watch_of(DOMAINS[0])
    state = said(handler, 1)[1]
    published, state = said(handler, 2, state)
    assert published["cluster"] == "half-open"
    handler.learn(of_scope("cluster", 1_000_000, "closed"), ManualClock())
    assert said(handler, 3, state)[0]["cluster"] == "half-open"


def test_a_heartbeat_from_the_far_future_does_not_stand_for_a_silent_leader() -> None:
    handler = watch_of(DOMAINS[0])
    handler.learn(of_scope(DOMAINS[0], 1, "closed"), ManualClock())
    handler.learn(of_scope(DOMAINS[0], 1_000_000, "closed"), ManualClock())
    assert "cluster" in said(handler, 9, domain=DOMAINS[1])[0]


def test_budgets_and_pools_from_the_far_future_hide_no_later_ones() -> None:
    bus = bus_of()
    forged = [budget(9_999_999, domain, epoch=9_999_999) for domain in DOMAINS]
    run(bus, *tick_of_all(0), *forged, pool(9_999_999, 1))
    run(bus, *(budget(0, domain, share=0.5) for domain in DOMAINS))
    run(bus, pool(0, 99_999))
    last = run(bus, *tick_of_all(1), *tick_of_all(2))[-1]
    assert last.readings["budgets"] == 1.0
    assert last.readings["cost"] > 1.0


def test_domains_and_pools_that_the_cluster_file_lacks_count_for_nothing() -> None:
    bus = bus_of()
    huge = msgspec.structs.replace(pool(0, 2**31 - 1), pool="invented", price_per_hour=1000.0)
    run(bus, *tick_of_all(0), budget(0, "invented", epoch=2**31 - 1), huge)
    run(bus, *(budget(0, domain, share=0.5) for domain in DOMAINS))
    last = run(bus, *tick_of_all(1), *tick_of_all(2))[-1]
    assert (last.cause, last.readings["budgets"], last.readings["cost"]) == ("budgets", 1.0, 0.0)


def test_breakers_of_scopes_that_the_cluster_file_lacks_are_not_kept() -> None:
    watch = ClusterWatch(CLUSTER, QUICK, LIMITS)
    for scope in ("invented", "cluster", DOMAINS[0]):
        watch.learn(of_scope(scope, 1, "open"))
    assert [scope for scope, _ in watch.breakers.all_upto(1)] == ["cluster", DOMAINS[0]]


def test_a_domain_that_catches_up_does_not_lead_while_others_are_ahead() -> None:
    handler, clock = BreakerHandler(CLUSTER, LIMITS, 60.0, QUICK), ManualClock()
    own, state = DOMAINS[1], handler.start(DOMAINS[1])
    for tick in range(4):
        clock.move_to(10.0 * tick)
        state = handler.handle(frame(tick, own), state, clock).state
    clock.move_to(1000.0)  # its process was down; the first domain's was not
    handler.learn(of_scope(DOMAINS[0], 100, "closed"), clock)
    step = handler.handle(frame(10, own), state, clock)
    assert [event.scope for event in step.events if isinstance(event, BreakerChanged)] == [own]


@pytest.mark.parametrize("other_first", [True, False])
def test_of_two_leaders_of_one_tick_the_stricter_one_counts(*, other_first: bool) -> None:
    handler = watch_of(DOMAINS[0])
    published, state = said(handler, 1)
    assert published["cluster"] == "closed"
    events = [of_scope("cluster", 1, "half-open"), of_scope("cluster", 1, "closed")]
    for event in events if other_first else reversed(events):
        handler.learn(event, ManualClock())
    handler.learn(budget(6, DOMAINS[0], share=0.1), ManualClock())
    assert said(handler, 2, state)[0]["cluster"] == "half-open"
