"""The breaker on the memory bus."""

import itertools
from dataclasses import replace
from typing import Any, Final

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.control.breaker import Thresholds
from schemas.breaker_changed import BreakerChanged
from schemas.domain_observed import DomainObserved, Pods
from schemas.fields import Event
from schemas.scale_applied import ScaleApplied
from services._kit.clock import ManualClock
from services._kit.errors import BadSettings, Refused
from services._kit.handler import Service
from services._kit.memory import MemoryBus
from services._kit.settings import KitSettings, load
from services.breaker.app import build
from services.breaker.decide import SETTLE_TICKS, WATCH_TICKS, BreakerHandler, BreakerState
from services.breaker.settings import Settings

SHORT: Final = Thresholds(
    missing_ticks=2, mismatch_ticks=2, error_ticks=3, burn_short_ticks=3, burn_long_ticks=6,
    quiet_ticks=3, probation_ticks=4,
)  # fmt: skip
APPS: Final = [f"payments/{letter}" for letter in "abcdef"]
TIME: Final = "2026-11-27T08:00:00Z"
DOMAIN: Final = "payments"


def frame(tick: int, errors: float | None = 0.0, replicas: int = 4, **other: Any) -> DomainObserved:
    count = len(APPS)
    pods = {name: [1] * count for name in Pods.__struct_fields__} | {"replicas": [replicas] * count}
    fields: dict[str, Any] = {
        "missing": [],
        "measured": {"rps": [10.0] * count, "errors": [errors] * count},
    }
    return DomainObserved(
        tick=tick, time=TIME, trace_id=f"t-{tick}", domain=DOMAIN, apps=APPS, pods=Pods(**pods),
        features={"headroom": [0.5] * count}, load_pods=[1.0] * count,
        usual_load_pods=[1.0] * count, **(fields | other),
    )  # fmt: skip


def applied(tick: int, replicas: int, before: int = 4, outcome: str = "applied") -> ScaleApplied:
    count = len(APPS)
    return msgspec.convert(
        {
            "tick": tick, "time": TIME, "domain": DOMAIN, "decision_id": f"d-{tick}", "epoch": 1,
            "apps": APPS, "outcomes": [outcome] * count, "reasons": ["need"] * count,
            "replicas": [replicas] * count, "replicas_before": [before] * count,
            "cpu_request": [1] * count, "memory_request": [1] * count,
        },
        ScaleApplied,
    )  # fmt: skip


def bus_of(stale_s: float | None = None, **other: Any) -> MemoryBus:
    bus = MemoryBus(**other)
    bus.add(lambda: Service(BreakerHandler(SHORT, stale_s)))
    return bus


def answers(bus: MemoryBus, *events: Event) -> list[BreakerChanged]:
    """What the breaker publishes after these events."""
    before = len(bus.events(BreakerChanged))
    bus.publish(*events)
    bus.run()
    return bus.events(BreakerChanged)[before:]


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
    assert len(bus.events(BreakerChanged)) == 2
    bus.advance(600.0)
    published = bus.events(BreakerChanged)[2:]
    assert states(published) == ["open"]
    assert (published[0].reason, published[0].heartbeat) == ("stale: no frame for 60 s", False)
    assert published[0].tick == 1


def test_returning_frames_lead_through_half_open_and_can_stop_again() -> None:
    bus = bus_of(stale_s=60.0)
    answers(bus, frame(0))
    bus.advance(61.0)
    published = answers(bus, *(frame(tick) for tick in range(1, 8)))
    assert states(published) == ["open"] * 2 + ["half-open"] * 4 + ["closed"]
    bus.advance(61.0)
    assert states(bus.events(BreakerChanged))[-1] == "open"


def test_an_open_breaker_sends_no_heartbeat_when_frames_stop() -> None:
    bus = bus_of(stale_s=60.0)
    lost = [msgspec.structs.replace(frame(tick), missing=APPS[:4]) for tick in range(2)]
    assert states(answers(bus, *lost)) == ["closed", "open"]
    bus.advance(600.0)
    assert len(bus.events(BreakerChanged)) == 2


def test_in_lock_step_silence_never_opens_it() -> None:
    bus = bus_of(stale_s=None)
    answers(bus, frame(0))
    bus.advance(10_000.0)
    assert states(bus.events(BreakerChanged)) == ["closed"]


def test_before_the_first_frame_it_publishes_nothing() -> None:
    bus = bus_of(stale_s=60.0)
    assert answers(bus, applied(0, 5)) == []
    bus.advance(600.0)
    assert bus.events(BreakerChanged) == []


def test_after_a_restart_the_time_without_frames_starts_again() -> None:
    bus = bus_of(stale_s=60.0)
    answers(bus, frame(0))
    bus.kill("breaker")
    bus.advance(300.0)
    bus.start("breaker")
    bus.advance(59.0)
    assert states(bus.events(BreakerChanged)) == ["closed"]
    bus.advance(2.0)
    assert states(bus.events(BreakerChanged)) == ["closed", "open"]


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
    assert set(states(answers(bus, *(frame(t) for t in range(end + 1, end + 5))))) == {"closed"}
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
    handler = BreakerHandler(SHORT, 60.0)
    whole, end = play(handler, events, None)
    first, middle = play(handler, events[:cut], None)
    second, same_end = play(BreakerHandler(SHORT, 60.0), events[cut:], middle)
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
    assert bus.events(BreakerChanged) == once


def test_a_state_saved_with_other_windows_can_be_loaded() -> None:
    _, data = play(BreakerHandler(SHORT, None), [frame(0), frame(1)], None)
    for length in (4, 6, 99):
        handler = BreakerHandler(SHORT._replace(burn_long_ticks=length), None)
        published, _ = play(handler, [frame(2)], data)
        assert published[0].state == "closed"
        assert handler.load(DOMAIN, data).memory.risk.shape == (1, 1, length)


def test_a_state_of_other_rules_is_refused_and_the_domain_starts_anew() -> None:
    class Older(BreakerHandler):
        def save(self, state: BreakerState) -> bytes:
            held = np.zeros((1, 1, 99), np.int32)
            return super().save(replace(state, memory=state.memory._replace(held=held)))

    data = Older(SHORT, None).save(Older(SHORT, None).start(DOMAIN))
    with pytest.raises(Refused, match="`held`"):
        BreakerHandler(SHORT, None).load(DOMAIN, data)
    handlers = iter([Older, Older, BreakerHandler])
    bus = MemoryBus()
    bus.add(lambda: Service(next(handlers)(SHORT, None)))
    assert len(answers(bus, frame(0))) == 1
    bus.kill("breaker")
    bus.start("breaker")
    assert states(answers(bus, frame(1)))[-1] == "closed"


def test_settings_are_the_thresholds_and_nothing_else() -> None:
    assert Settings().thresholds == Thresholds()
    own = {field.name for field in msgspec.structs.fields(Settings)}
    assert own == {*Thresholds._fields, "stale_seconds"}
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
