"""The breaker on the memory bus: every frame is judged, and silence, too."""

from typing import Any

import msgspec
import numpy as np
import pytest

from models.control.breaker.limits import Thresholds
from schemas.breaker_changed import BreakerChanged
from schemas.domain_observed import Pods
from services._kit.handler import Service
from services._kit.memory import MemoryBus
from services.breaker.decide import BreakerHandler
from tests.unit.services.breaker.breaker_helpers import (
    APPS,
    CLUSTER,
    DOMAIN,
    SHORT,
    answers,
    applied,
    bus_of,
    frame,
    of_domain,
    states,
    time_at,
)


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


def after_gap(*ticks: int) -> list[BreakerChanged]:
    """What is published after frames of these ticks, each in its time."""
    bus = bus_of(stale_s=1e6)
    last, published = ticks[0], list[BreakerChanged]()
    for tick in ticks:
        bus.advance(10.0 * (tick - last))
        published += answers(bus, frame(tick))
        last = tick
    return published


def test_a_gap_of_more_than_a_minute_between_frames_opens_it_at_once() -> None:
    assert states(after_gap(0, 7)) == ["closed", "closed"]
    published = after_gap(0, 8)
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
    published = after_gap(0, *range(40, 45))
    assert states(published) == ["closed", "open", "open", "half-open", "half-open", "closed"]


@pytest.mark.parametrize("stale_s", [60.0, None], ids=["free-running", "lock-step"])
def test_a_frame_from_the_far_future_does_not_silence_a_breaker(stale_s: float | None) -> None:
    bus = bus_of(stale_s)
    for tick in range(4):
        answers(bus, frame(tick))
        bus.advance(10.0)
    assert answers(bus, msgspec.structs.replace(frame(5), tick=10**9)) == []
    assert [event.tick for event in answers(bus, frame(4))] == [4]


def test_in_lock_step_a_lost_frame_does_not_silence_a_breaker() -> None:
    bus = bus_of(stale_s=None)
    answers(bus, *(frame(tick) for tick in range(6)))
    published = answers(bus, *(frame(tick) for tick in range(7, 20)))
    # The cluster does not wait for a breaker, so frames go on; two confirm that one was lost.
    assert [event.tick for event in published] == list(range(9, 20))
    assert set(states(published)) == {"closed"}
    assert [letter.error for letter in bus.dead_letters] == ["tick-from-the-future"] * 2


def test_in_lock_step_three_forged_frames_open_a_breaker_and_do_not_silence_it() -> None:
    bus = bus_of(stale_s=None)
    answers(bus, *(frame(tick) for tick in range(6)))
    answers(bus, *(frame(tick) for tick in range(100, 103)))
    published = answers(bus, *(frame(tick) for tick in range(6, 12)))
    assert [event.tick for event in published] == list(range(6, 12))
    assert {event.cause for event in published} == {"state-lost"}


def test_in_lock_step_frames_more_than_an_hour_ahead_are_never_believed() -> None:
    bus = bus_of(stale_s=None)
    answers(bus, *(frame(tick) for tick in range(6)))
    assert answers(bus, *(frame(tick) for tick in range(1000, 1020))) == []
    published = answers(bus, *(frame(tick) for tick in range(6, 12)))
    assert [event.tick for event in published] == list(range(6, 12))
    assert set(states(published)) == {"closed"}


def test_in_lock_step_a_forged_frame_between_true_ones_changes_nothing() -> None:
    bus = bus_of(stale_s=None)
    answers(bus, *(frame(tick) for tick in range(4)))
    for tick in range(4, 12):
        assert answers(bus, frame(tick + 1000)) == []
        assert [event.tick for event in answers(bus, frame(tick))] == [tick]


@pytest.mark.parametrize("stale_s", [60.0, None], ids=["free-running", "lock-step"])
def test_an_outcome_from_the_far_future_hides_no_later_one(stale_s: float | None) -> None:
    bus = bus_of(stale_s)
    for tick in range(4):
        answers(bus, frame(tick))
        bus.advance(10.0)
    far = msgspec.structs.replace(applied(4, 9), tick=10**9, time=time_at(4))
    answers(bus, far)
    assert len(bus.dead_letters) == 1
    # The next change is not shown by any frame: that has to trip it, as without the forgery.
    found = answers(bus, applied(4, 9))
    for tick in range(4, 12):
        found += answers(bus, frame(tick, replicas=4))
        bus.advance(10.0)
    assert "open" in states(found)


def test_outcomes_before_the_first_frame_are_not_remembered() -> None:
    bus = bus_of(stale_s=60.0)
    answers(bus, msgspec.structs.replace(applied(0, 9), tick=10**9))
    found = answers(bus, frame(0), applied(1, 9))
    for tick in range(1, 9):
        bus.advance(10.0)
        found += answers(bus, frame(tick, replicas=4))
    assert "open" in states(found)
