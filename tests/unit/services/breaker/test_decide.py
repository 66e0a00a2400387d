"""The breaker on the memory bus."""

import itertools
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.cluster.description import load_cluster
from models.control.breaker.cluster import ClusterThresholds
from models.control.breaker.limits import Thresholds
from schemas.breaker_changed import BreakerChanged
from schemas.domain_observed import DomainObserved, Pods
from schemas.fields import Event
from schemas.override_issued import OverrideIssued
from schemas.scale_applied import ScaleApplied
from services._kit.clock import ManualClock
from services._kit.errors import BadSettings
from services._kit.handler import Service
from services._kit.memory import MemoryBus
from services._kit.settings import KitSettings, load
from services.breaker.app import build
from services.breaker.applied import SETTLE_TICKS, WATCH_TICKS
from services.breaker.decide import BreakerHandler, BreakerState
from services.breaker.settings import Settings

SHORT: Final = Thresholds(
    missing_ticks=2, mismatch_ticks=2, held_ticks=2, error_ticks=3, burn_short_ticks=3,
    burn_long_ticks=6, regression_ticks=2, quiet_ticks=3, probation_ticks=4, resume_ticks=2,
)  # fmt: skip
APPS: Final = [f"data/{letter}" for letter in "abcdef"]
TIME: Final = "2026-11-27T08:00:00Z"
DOMAIN: Final = "data"
"""Of priority P2, whose thresholds are the configured ones."""
CLUSTER: Final = load_cluster()


def time_at(tick: int) -> str:
    """Ticks are ten seconds from TIME on."""
    moment = datetime.fromisoformat(TIME) + timedelta(seconds=10 * tick)
    return moment.isoformat().replace("+00:00", "Z")


def frame(tick: int, errors: float | None = 0.0, replicas: int = 4, **other: Any) -> DomainObserved:
    count = len(APPS)
    pods = {name: [1] * count for name in Pods.__struct_fields__} | {"replicas": [replicas] * count}
    fields: dict[str, Any] = {
        "missing": [],
        "measured": {"rps": [10.0] * count, "errors": [errors] * count},
    }
    return DomainObserved(
        tick=tick, time=time_at(tick), trace_id=f"t-{tick}", domain=DOMAIN, apps=APPS,
        pods=Pods(**pods),
        features={"headroom": [0.5] * count}, load_pods=[1.0] * count,
        usual_load_pods=[1.0] * count, **(fields | other),
    )  # fmt: skip


def applied(
    tick: int,
    replicas: int,
    before: int = 4,
    outcome: str = "applied",
    reason: str = "hold-budget",
) -> ScaleApplied:
    count = len(APPS)
    return msgspec.convert(
        {
            "tick": tick, "time": TIME, "domain": DOMAIN, "decision_id": f"d-{tick}", "epoch": 1,
            "apps": APPS, "outcomes": [outcome] * count, "reasons": [reason] * count,
            "replicas": [replicas] * count, "replicas_before": [before] * count,
            "cpu_request": [1] * count, "memory_request": [1] * count,
        },
        ScaleApplied,
    )  # fmt: skip


def bus_of(stale_s: float | None = None, **other: Any) -> MemoryBus:
    bus = MemoryBus(**other)
    bus.add(lambda: Service(BreakerHandler(CLUSTER, SHORT, stale_s)))
    return bus


def answers(bus: MemoryBus, *events: Event) -> list[BreakerChanged]:
    """What the breaker publishes after these events."""
    before = len(of_domain(bus))
    bus.publish(*events)
    bus.run()
    return of_domain(bus)[before:]


def of_domain(bus: MemoryBus, scope: str = DOMAIN) -> list[BreakerChanged]:
    """What was published about one scope."""
    return [event for event in bus.events(BreakerChanged) if event.scope == scope]


def states(published: list[BreakerChanged]) -> list[str]:
    return [event.state for event in published]


def test_every_frame_is_answered_by_one_event_with_its_tick_and_its_readings() -> None:
    published = answers(bus_of(), *(frame(tick, errors=0.01) for tick in range(5)))
    assert [event.tick for event in published] == [0, 1, 2, 3, 4]
    assert [event.heartbeat for event in published] == [False, True, True, True, True]
    assert {event.scope for event in published} == {DOMAIN}
    assert {event.since_tick for event in published} == {0}
    assert published[-1].trace_id == "t-4"
    assert published[-1].readings["errors"] == pytest.approx(0.01)
    assert published[-1].readings["errors_threshold"] == SHORT.error_share


def test_a_duplicate_frame_publishes_and_changes_nothing() -> None:
    bus = bus_of()
    answers(bus, applied(0, 5), *(frame(tick, errors=0.3) for tick in range(2)))
    saved = bus.state("breaker", DOMAIN)
    assert answers(bus, frame(1, errors=0.3), frame(0), applied(0, 5)) == []
    assert bus.state("breaker", DOMAIN) == saved


def test_errors_make_it_half_open_with_a_reason_until_a_calm_probation_closes_it() -> None:
    bus = bus_of()
    bad = answers(bus, *(frame(tick, errors=0.3) for tick in range(3)))
    assert states(bad) == ["closed", "closed", "half-open"]
    assert bad[-1].reason == "errors: 0.3, threshold 0.2"
    assert (bad[-1].heartbeat, bad[-1].since_tick) == (False, 2)
    published = answers(bus, *(frame(tick) for tick in range(3, 9)))
    assert states(published) == ["half-open"] * 3 + ["closed"] * 3
    assert [event.tick for event in published if not event.heartbeat] == [6]
    assert {event.reason for event in published[:3]} == {bad[-1].reason}
    assert {event.reason for event in published[3:]} == {""}


@pytest.mark.parametrize(
    "other",
    [
        {"missing": APPS[:4]},
        {"measured": {"rps": [None] * 6, "errors": [None] * 6}},
        {"measured": {"rps": [10.0] * 6, "errors": [None] * 4 + [0.0] * 2}},
        {"measured": {}},
        {"features": {}},
    ],
)
def test_samples_that_did_not_arrive_are_missing_and_open_it(other: dict[str, Any]) -> None:
    frames = [msgspec.structs.replace(frame(tick), **other) for tick in range(2)]
    published = answers(bus_of(), *frames)
    assert states(published) == ["closed", "open"]
    assert published[-1].reason.startswith("missing")


def test_a_gap_of_more_than_a_minute_between_frames_opens_it_at_once() -> None:
    assert states(answers(bus_of(), frame(0), frame(7))) == ["closed", "closed"]
    published = answers(bus_of(), frame(0), frame(8))
    assert states(published) == ["closed", "open"]
    assert published[-1].reason == "stale: 7, threshold 6"


def test_when_frames_stop_it_opens_once_and_publishes_nothing_more() -> None:
    bus = bus_of(stale_s=60.0)
    answers(bus, frame(0), frame(1))
    bus.advance(59.0)
    assert len(of_domain(bus)) == 2
    bus.advance(600.0)
    published = of_domain(bus)[2:]
    assert states(published) == ["open"]
    assert (published[0].reason, published[0].heartbeat) == ("stale: no frame for 60 s", False)
    assert published[0].tick == 1


def test_returning_frames_lead_through_half_open_and_can_stop_again() -> None:
    bus = bus_of(stale_s=60.0)
    answers(bus, frame(0))
    bus.advance(61.0)
    published = answers(bus, *(frame(tick) for tick in range(1, 5)))
    assert states(published) == ["open", "half-open", "half-open", "closed"]
    bus.advance(61.0)
    assert states(of_domain(bus))[-1] == "open"


def test_an_open_breaker_sends_no_heartbeat_when_frames_stop() -> None:
    bus = bus_of(stale_s=60.0)
    lost = [msgspec.structs.replace(frame(tick), missing=APPS[:4]) for tick in range(2)]
    assert states(answers(bus, *lost)) == ["closed", "open"]
    bus.advance(600.0)
    assert len(of_domain(bus)) == 2


def test_in_lock_step_silence_never_opens_it() -> None:
    bus = bus_of(stale_s=None)
    answers(bus, frame(0))
    bus.advance(10_000.0)
    assert states(of_domain(bus)) == ["closed"]


def test_before_the_first_frame_it_publishes_nothing() -> None:
    bus = bus_of(stale_s=60.0)
    assert answers(bus, applied(0, 5)) == []
    bus.advance(600.0)
    assert of_domain(bus) == []


def test_after_a_restart_the_time_without_frames_starts_again() -> None:
    bus = bus_of(stale_s=60.0)
    answers(bus, frame(0))
    bus.kill("breaker")
    bus.advance(300.0)
    bus.start("breaker")
    bus.advance(59.0)
    assert states(of_domain(bus)) == ["closed"]
    bus.advance(2.0)
    assert states(of_domain(bus)) == ["closed", "open"]


def test_changes_that_show_no_effect_open_it() -> None:
    published = answers(bus_of(), frame(0), applied(0, 9), *(frame(tick) for tick in range(1, 5)))
    assert states(published) == ["closed"] * 4 + ["open"]
    assert published[-1].reason == "mismatch: 1, threshold 0.3"


def test_lost_writes_open_it_even_if_every_tick_applies_another_number() -> None:
    asked = [applied(tick, 9 + tick) for tick in range(5)]
    frames = [frame(tick) for tick in range(5)]
    published = answers(bus_of(), *itertools.chain(*zip(frames, asked, strict=True)))
    assert states(published)[-1] == "open"


def test_late_held_or_resizing_changes_do_not_open_it() -> None:
    late = [frame(1), frame(2), *(frame(tick, replicas=9) for tick in range(3, 9))]
    frames = [frame(tick) for tick in range(1, 9)]
    for change, seen in [
        (applied(0, 9), late),
        (applied(0, 9, outcome="held"), frames),
        (applied(0, 9, outcome="superseded"), frames),
        (applied(0, 6, before=6), frames),
    ]:
        assert set(states(answers(bus_of(), frame(0), change, *seen))) == {"closed"}


def test_a_newer_change_makes_both_numbers_acceptable_until_it_has_settled() -> None:
    bus = bus_of()
    answers(bus, frame(0), applied(0, 9), *(frame(tick, replicas=9) for tick in range(1, 6)))
    published = answers(bus, applied(5, 12), frame(6, replicas=12), frame(7, replicas=9))
    assert [event.readings["mismatch"] for event in published] == [0.0, 0.0]
    published = answers(bus, frame(8, replicas=9))
    assert published[0].readings["mismatch"] == 1.0


def test_a_change_is_watched_for_a_limited_time() -> None:
    bus = bus_of()
    end = SETTLE_TICKS + WATCH_TICKS
    answers(bus, frame(0), applied(0, 9), *(frame(t, replicas=9) for t in range(1, end)))
    # Not open; decreases are held, because somebody took more than half of the domain away.
    after = answers(bus, *(frame(t) for t in range(end + 1, end + 5)))
    assert set(states(after)) == {"closed", "half-open"}
    assert after[-1].cause == "decreases"
    assert answers(bus, applied(0, 9)) == []
    assert answers(bus, frame(end + 5))[0].readings["mismatch"] == 0.0


errors = st.sampled_from([0.0, 0.0, 0.15, 0.3, None])
steps = st.lists(st.tuples(errors, st.integers(4, 6), st.booleans()), min_size=2, max_size=20)


def play(handler: BreakerHandler, step: list[Event], data: bytes | None) -> tuple[Any, bytes]:
    """Events and bytes after some events, from saved bytes."""
    clock = ManualClock()
    state = handler.start(DOMAIN) if data is None else handler.load(DOMAIN, data)
    published: list[Event] = []
    for event in step:
        # Ticks are believed as fast as the clock brings them.
        clock.move_to(10.0 * getattr(event, "tick", 0))
        answer = handler.handle(event, state, clock)
        state = answer.state
        published += answer.events
    return published, handler.save(state)


@settings(max_examples=25, deadline=None)
@given(steps, st.integers(0, 40))
def test_a_breaker_saved_and_loaded_at_any_point_decides_identically(
    chosen: list[tuple[float | None, int, bool]], cut: int
) -> None:
    events: list[Event] = []
    for tick, (share, replicas, changes) in enumerate(chosen):
        events.append(frame(tick, share, replicas))
        events += [applied(tick, replicas + 1, replicas)] if changes else []
    handler = BreakerHandler(CLUSTER, SHORT, 60.0)
    whole, end = play(handler, events, None)
    first, middle = play(handler, events[:cut], None)
    second, same_end = play(BreakerHandler(CLUSTER, SHORT, 60.0), events[cut:], middle)
    assert [*first, *second] == whole
    assert same_end == end


def test_delivered_twice_or_after_a_crash_it_decides_the_same() -> None:
    events = [frame(0), applied(0, 9), *(frame(tick) for tick in range(1, 9))]
    once = answers(bus_of(), *events)
    assert answers(bus_of(duplicate=lambda _: True), *events) == once
    bus = bus_of()
    answers(bus, *events[:5])
    bus.kill("breaker", redeliver=3)
    bus.start("breaker")
    answers(bus, *events[5:])
    assert of_domain(bus) == once


def test_a_state_saved_with_other_windows_can_be_loaded() -> None:
    _, data = play(BreakerHandler(CLUSTER, SHORT, None), [frame(0), frame(1)], None)
    for length in (4, 6, 99):
        handler = BreakerHandler(CLUSTER, SHORT._replace(burn_long_ticks=length), None)
        published, _ = play(handler, [frame(2)], data)
        assert published[0].state == "closed"
        assert handler.load(DOMAIN, data).memory.risk.shape == (1, 1, length)


class Older(BreakerHandler):
    """Saves states of other conditions."""

    def save(self, state: BreakerState) -> bytes:
        held = np.zeros((1, 1, 99), np.int32)
        return super().save(replace(state, memory=state.memory._replace(held=held)))


class Unknown(BreakerHandler):
    """Saves a phase that does not exist."""

    def save(self, state: BreakerState) -> bytes:
        phase = np.full((1, 1), 9, np.int8)
        return super().save(replace(state, memory=state.memory._replace(phase=phase)))


class Forgetful(BreakerHandler):
    """Saves states without the field `phase`."""

    def save(self, state: BreakerState) -> bytes:
        fields = msgspec.msgpack.decode(super().save(state))
        del fields["memory"]["phase"]
        return msgspec.msgpack.encode(fields)


class Garbled(BreakerHandler):
    """Saves bytes that are no state."""

    def save(self, state: BreakerState) -> bytes:
        return super().save(state)[:-3]


def test_a_state_of_other_conditions_keeps_its_phase() -> None:
    lost = [msgspec.structs.replace(frame(tick), missing=APPS[:4]) for tick in range(2)]
    for frames, expected in ((lost, "open"), ([frame(0), frame(1)], "closed")):
        _, data = play(Older(CLUSTER, SHORT, None), [*frames], None)
        published, _ = play(BreakerHandler(CLUSTER, SHORT, None), [frame(2)], data)
        assert published[0].state == expected


@pytest.mark.parametrize("before", [Unknown, Forgetful, Garbled])
def test_a_breaker_whose_saved_state_cannot_be_read_comes_back_open_and_recovers(
    before: type[BreakerHandler],
) -> None:
    handlers = iter((before, before, BreakerHandler))
    bus = MemoryBus()
    bus.add(lambda: Service(next(handlers)(CLUSTER, SHORT, None)))
    assert states(answers(bus, frame(0))) == ["closed"]
    bus.kill("breaker")
    bus.start("breaker")
    published = answers(bus, *(frame(tick) for tick in range(1, 9)))
    recovery = ["open"] * (SHORT.quiet_ticks - 1) + ["half-open"] * SHORT.probation_ticks
    assert states(published) == [*recovery, "closed", "closed"]
    assert published[0].reason == "state-lost"
    assert (published[0].heartbeat, published[0].since_tick) == (False, 1)
    assert published[-1].reason == ""


def test_an_open_breaker_stays_open_when_its_saved_state_lacks_the_tick() -> None:
    handler = BreakerHandler(CLUSTER, SHORT, None)
    lost = [msgspec.structs.replace(frame(tick), missing=APPS[:4]) for tick in range(2)]
    _, data = play(handler, [*lost], None)
    fields = msgspec.msgpack.decode(data)
    del fields["tick"]
    published, _ = play(handler, [frame(2)], msgspec.msgpack.encode(fields))
    assert published[0].state == "open"


def test_settings_are_the_thresholds_and_nothing_else() -> None:
    assert Settings().thresholds == Thresholds()
    own = {field.name for field in msgspec.structs.fields(Settings)}
    assert Settings().cluster_thresholds == ClusterThresholds()
    assert own == {
        *Thresholds._fields, *ClusterThresholds._fields, "stale_seconds", "cluster",
    }  # fmt: skip
    _, changed = load("breaker", Settings, {"HIRL_BREAKER_ERROR_SHARE": "0.4"})
    assert changed.thresholds.error_share == 0.4


@pytest.mark.parametrize(
    ("field", "value"),
    [("ERROR_TICKS", 1), ("BURN_SHORT_TICKS", 999), ("QUIET_TICKS", 999), ("ERROR_SHARE", 2)],
)
def test_settings_that_would_make_it_unsafe_are_refused(field: str, value: int) -> None:
    with pytest.raises(BadSettings):
        load("breaker", Settings, {f"HIRL_BREAKER_{field}": str(value)})


def test_speed_shortens_the_stale_time_and_lock_step_disables_it() -> None:
    handler = build(KitSettings(speed=10.0), Settings()).handler
    state = handler.handle(frame(0), handler.start(DOMAIN), ManualClock(100.0)).state
    assert handler.due(state) == pytest.approx(106.0)
    assert build(KitSettings(lock_step=True), Settings()).handler.due(state) is None


def test_a_frame_without_apps_is_judged() -> None:
    none: dict[str, Any] = {name: [] for name in Pods.__struct_fields__}
    empty = msgspec.structs.replace(
        frame(0),
        apps=[],
        pods=Pods(**none),
        measured={},
        features={},
        load_pods=[],
        usual_load_pods=[],
    )
    assert states(answers(bus_of(), empty)) == ["closed"]
    assert np.isfinite(list(answers(bus_of(), empty)[0].readings.values())).all()


def test_a_domain_trips_the_sooner_the_more_it_matters() -> None:
    ticks = {}
    for domain in ("payments", "merchant", "data", "internal"):
        bus = MemoryBus()
        bus.add(lambda: Service(BreakerHandler(CLUSTER, Thresholds(), None)))
        frames = [
            msgspec.structs.replace(frame(tick, errors=0.9), domain=domain) for tick in range(50)
        ]
        bus.publish(*frames)
        bus.run()
        tripped = [one.tick for one in of_domain(bus, domain) if one.state != "closed"]
        ticks[domain] = tripped[0] + 1
    assert ticks == {"payments": 15, "merchant": 22, "data": 30, "internal": 45}


def test_an_unknown_domain_has_the_strictest_thresholds() -> None:
    handler = BreakerHandler(CLUSTER, Thresholds(), None)
    assert handler.start("elsewhere").memory.risk.shape == (1, 1, 90)


def test_an_outage_of_our_own_is_over_a_few_ticks_after_it_and_does_not_add_up() -> None:
    bus = bus_of(stale_s=60.0)
    tick = 0
    for _ in range(5):
        answers(bus, frame(tick))
        bus.advance(100.0)
        tick += 10
        for later in range(5):
            published = answers(bus, frame(tick + later))
            bus.advance(10.0)
        assert states(published)[-1] == "closed"
        tick += 5


def test_a_gap_of_ticks_is_over_as_soon_as_an_outage() -> None:
    published = answers(bus_of(), frame(0), *(frame(tick) for tick in range(40, 45)))
    assert states(published) == ["closed", "open", "open", "half-open", "half-open", "closed"]


def slow(tick: int, replicas: int) -> DomainObserved:
    features = {"headroom": [-0.3] * len(APPS)}
    return msgspec.structs.replace(frame(tick, replicas=replicas), features=features)


def test_a_decrease_that_does_harm_is_rolled_back_at_a_limited_rate() -> None:
    bus = bus_of()
    answers(bus, *(frame(tick, replicas=100) for tick in range(32)))
    answers(bus, *(frame(32 + tick, replicas=100 - 9 * tick) for tick in range(1, 4)))
    first, _, last = answers(bus, *(slow(tick, 73) for tick in (36, 37, 38)))
    assert (first.state, first.cause, first.action) == ("half-open", "decreases", "increases-only")
    assert (last.state, last.cause, last.action) == ("half-open", "regression", "rollback")
    assert (last.since_tick, last.heartbeat) == (38, False)
    assert last.reason == "regression: 1, threshold 0.1"
    assert last.rollback is not None
    assert last.rollback.apps == APPS
    # A twentieth of the domain per tick.
    assert last.rollback.replicas == [76] * len(APPS)
    (full,) = answers(bus, slow(39, 100))
    assert (full.action, full.rollback) == ("rollback", None)


def test_good_replicas_and_the_order_to_roll_back_survive_a_restart() -> None:
    bus = bus_of()
    answers(bus, *(frame(tick, replicas=100) for tick in range(32)))
    answers(bus, frame(32, replicas=90), slow(33, 90))
    bus.kill("breaker")
    bus.start("breaker")
    (last,) = answers(bus, slow(34, 90))
    assert last.rollback is not None
    assert last.rollback.replicas == [94] * len(APPS)


def test_apps_that_come_and_go_keep_what_is_remembered_of_the_others() -> None:
    bus = bus_of()
    answers(bus, *(frame(tick, replicas=100) for tick in range(32)))
    kept = slow(33, 90)
    columns = {name: getattr(kept.pods, name)[1:] for name in Pods.__struct_fields__}
    fewer = {
        "apps": APPS[1:], "pods": Pods(**columns), "load_pods": [1.0] * 5,
        "usual_load_pods": [1.0] * 5, "features": {"headroom": [-0.3] * 5},
        "measured": {"rps": [10.0] * 5, "errors": [0.0] * 5},
    }  # fmt: skip
    answers(bus, frame(32, replicas=90))
    for tick in (33, 34):
        (last,) = answers(bus, msgspec.structs.replace(kept, tick=tick, **fewer))
    assert last.rollback is not None
    assert last.rollback.apps == APPS[1:]


def test_changes_that_cannot_be_made_open_it_and_intended_holds_do_not() -> None:
    for reason, expected in (
        ("no-frame", "open"), ("refused", "open"), ("paused", "closed"),
        ("breaker-open", "closed"), ("hold-cool-down", "closed"),
    ):  # fmt: skip
        bus = bus_of()
        answers(bus, frame(0))
        for tick in range(1, 4):
            held = applied(tick - 1, 9, outcome="held", reason=reason)
            # Delivered twice, counted once.
            published = answers(bus, held, held, frame(tick))
        assert states(published) == [expected], reason


def order(action: str, issued_at: str = TIME, **other: Any) -> OverrideIssued:
    fields: Any = {"breaker": action, "order": "breaker", "issued_at": issued_at} | other
    return OverrideIssued(scope=DOMAIN, kind="domain", reason="a test", **fields)


def test_an_order_opens_a_breaker_until_it_is_lifted() -> None:
    bus = MemoryBus(ManualClock())
    bus.add(lambda: Service(BreakerHandler(CLUSTER, SHORT, None)))
    bus.publish(frame(1), order("open"), *(frame(tick) for tick in range(2, 20)))
    bus.run()
    own = [one for one in bus.events(BreakerChanged) if one.scope == DOMAIN]
    assert {(one.state, one.cause) for one in own[1:]} == {("open", "order")}
    assert "a test" in own[-1].reason
    bus.publish(order("open", lifted=True), *(frame(tick) for tick in range(20, 40)))
    bus.run()
    assert bus.events(BreakerChanged)[-2].state == "closed"


def test_a_reset_closes_a_breaker_once() -> None:
    bus = MemoryBus(ManualClock())
    bus.add(lambda: Service(BreakerHandler(CLUSTER, SHORT, None)))
    bad = [frame(tick, None, missing=APPS) for tick in range(2, 6)]
    bus.publish(frame(1), *bad)
    bus.run()
    states = [one.state for one in bus.events(BreakerChanged) if one.scope == DOMAIN]
    assert states[-1] == "open"
    bus.publish(order("reset", "2026-11-27T08:00:55Z"))
    bus.publish(frame(6), *(frame(tick, None, missing=APPS) for tick in range(7, 12)))
    bus.run()
    states = [one.state for one in bus.events(BreakerChanged) if one.scope == DOMAIN]
    assert states[5] == "closed"
    assert states[-1] == "open", "the cause is still there"


def test_a_frame_from_the_far_future_does_not_silence_a_breaker() -> None:
    bus = bus_of(stale_s=60.0)
    for tick in range(4):
        answers(bus, frame(tick))
        bus.advance(10.0)
    assert answers(bus, msgspec.structs.replace(frame(5), tick=10**9)) == []
    assert [event.tick for event in answers(bus, frame(4))] == [4]
