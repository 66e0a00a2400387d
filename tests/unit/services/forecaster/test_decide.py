import zlib
from typing import Any

import msgspec
import numpy as np
import pytest

from models.cluster.arrays import F32
from models.cluster.calendar import HISTORY_MINUTES
from models.cluster.description import load_cluster, with_domains
from models.forecaster import calendar, seasonal
from models.forecaster.port import Forecaster
from schemas.demand_backfilled import DemandBackfilled
from schemas.demand_forecast import DemandForecast
from schemas.event_scheduled import EventScheduled
from schemas.topics import topic_of
from services._kit.clock import ManualClock
from services._kit.handler import Service
from services._kit.memory import MemoryBus
from services._kit.state_records import LARGEST_RECORD_BYTES
from services.forecaster import model
from services.forecaster.builder import ModelBuilder
from services.forecaster.decide import ForecasterHandler, ForecasterState
from services.forecaster.progress import RecentMinutes, no_minutes, with_minute
from tests.service_helpers import CLUSTER, declared, time_of
from tests.unit.services.forecaster.forecaster_service_helpers import GRACE_S, declare_apps, frame

PAST_MIN = 20_160


def build(name: str = "calendar", rule_minutes: int = 120) -> MemoryBus:
    bus = MemoryBus(ManualClock(1000.0))
    bus.add(lambda: Service(ForecasterHandler(CLUSTER, name, rule_minutes, GRACE_S)))
    declare_apps(bus)
    return bus


def backfill(bus: MemoryBus, rps: float = 100.0, until_tick: int = 0, without: str = "") -> None:
    until = time_of(until_tick)
    for domain in (name for name in CLUSTER.domain_names if name != without):
        minutes: list[float | None] = [rps] * PAST_MIN
        bus.publish(
            DemandBackfilled(domain=domain, until_tick=until_tick, until=until, rps=minutes)
        )


def forge_history(bus: MemoryBus, until_tick: int, until: str, domain: str = "payments") -> None:
    rps: list[float | None] = [1.0] * PAST_MIN
    bus.publish(DemandBackfilled(domain=domain, until_tick=until_tick, until=until, rps=rps))


def play(bus: MemoryBus, first: int, last: int, rps: float | None = 100.0) -> None:
    for tick in range(first, last + 1):
        bus.publish(*(frame(domain, tick, rps) for domain in CLUSTER.domain_names))
    bus.run()


def forecasts(bus: MemoryBus, domain: str = "payments") -> list[DemandForecast]:
    return [event for event in bus.events(DemandForecast) if event.domain == domain]


def sale(first: int, last: int) -> EventScheduled:
    return EventScheduled(
        name="sale",
        domains=["payments"],
        starts_at=time_of(first),
        ends_at=time_of(last),
        expected_factor=3.0,
    )


@pytest.mark.parametrize("name", ["calendar", "seasonal", "persistence"])
def test_each_minute_has_a_forecast_of_each_domain(name: str) -> None:
    bus = build(name)
    backfill(bus)
    play(bus, 0, 12)
    assert [event.tick for event in forecasts(bus)] == [0, 6, 12]
    newest = forecasts(bus)[-1]
    assert newest.model == f"{name}/1"
    assert newest.rps[0][1] == pytest.approx(100, rel=0.05)
    assert newest.valid_until_tick > newest.tick


def test_without_a_recorded_history_there_is_no_forecast() -> None:
    bus = build()
    play(bus, 0, 12)
    assert forecasts(bus) == []


def test_a_domain_without_a_recorded_history_takes_no_forecast_from_the_others() -> None:
    bus = build()
    backfill(bus, without="payments")
    play(bus, 0, 12)
    assert forecasts(bus) == []
    assert [event.tick for event in forecasts(bus, "fraud")] == [0, 6, 12]
    assert forecasts(bus, "fraud")[-1].rps[0][1] == pytest.approx(100, rel=0.05)


def test_a_domain_without_a_recorded_history_is_forecast_from_observed_minutes_later() -> None:
    bus = build(rule_minutes=30)
    backfill(bus, without="payments")
    play(bus, 0, 6 * 40)
    newest = forecasts(bus)[-1]
    assert newest.tick == 6 * 40
    assert newest.rps[0][1] == pytest.approx(100, rel=0.05)
    assert "no history" in newest.review_reason


def test_a_history_that_arrives_late_counts_from_the_next_minute() -> None:
    bus = build()
    backfill(bus, without="payments")
    play(bus, 0, 12)
    backfill(bus)
    play(bus, 13, 18)
    assert forecasts(bus)[-1].rps[0][1] == pytest.approx(100, rel=0.05)
    assert forecasts(bus)[-1].review_reason == ""


def test_an_announced_event_raises_the_forecast() -> None:
    bus = build()
    backfill(bus)
    bus.publish(sale(6 * 12, 6 * 60))
    play(bus, 0, 12)
    assert forecasts(bus)[-1].rps[1][1] == pytest.approx(300, rel=0.1)
    assert forecasts(bus, "internal")[-1].rps[1][1] == pytest.approx(100, rel=0.1)


def test_an_event_announced_later_counts_from_the_next_minute() -> None:
    bus = build()
    backfill(bus)
    play(bus, 0, 6)
    bus.publish(sale(6 * 14, 6 * 60))
    play(bus, 7, 12)
    assert forecasts(bus)[-1].rps[1][1] == pytest.approx(300, rel=0.1)


def test_a_domain_without_a_frame_keeps_its_last_minute() -> None:
    bus = build()
    backfill(bus)
    play(bus, 0, 6)
    for tick in range(7, 13):
        bus.publish(*(frame(d, tick) for d in CLUSTER.domain_names if d != "payments"))
        bus.advance(GRACE_S + 0.1)
    assert forecasts(bus)[-1].tick == 12
    assert forecasts(bus)[-1].rps[0][1] == pytest.approx(100, rel=0.05)


def test_a_restart_changes_no_forecast() -> None:
    undisturbed, restarted = build(), build()
    for bus in (undisturbed, restarted):
        backfill(bus)
        play(bus, 0, 15, 100.0)
    restarted.kill("forecaster", redeliver=5)
    restarted.start("forecaster")
    for bus in (undisturbed, restarted):
        play(bus, 16, 36, 180.0)
    expected = {event.tick: event for event in forecasts(undisturbed)}
    assert {event.tick: event for event in forecasts(restarted)} == expected


def test_a_rule_is_built_again_when_its_stretch_is_over() -> None:
    bus = MemoryBus(ManualClock(1000.0))
    bus.add(lambda: Service(ForecasterHandler(CLUSTER, "seasonal", 3, GRACE_S)))
    declare_apps(bus)
    backfill(bus)
    play(bus, 0, 48)
    assert [event.tick for event in forecasts(bus)] == list(range(0, 49, 6))
    assert forecasts(bus)[-1].rps[0][1] == pytest.approx(100, rel=0.05)


def test_an_event_removed_by_a_tombstone_has_no_effect() -> None:
    bus = build()
    backfill(bus)
    bus.publish(sale(6 * 12, 6 * 60))
    play(bus, 0, 6)
    bus.put(topic_of(EventScheduled).name, b"sale", None)
    play(bus, 7, 12)
    assert forecasts(bus)[-1].rps[1][1] == pytest.approx(100, rel=0.1)


def test_an_event_centuries_away_has_no_effect() -> None:
    bus = build()
    backfill(bus)
    far = {"starts_at": "9999-12-30T00:00:00Z", "ends_at": "9999-12-31T00:00:00Z"}
    bus.publish(msgspec.structs.replace(sale(0, 1), **far))
    play(bus, 0, 6)
    assert forecasts(bus)[-1].rps[0][1] == pytest.approx(100, rel=0.05)


def test_an_app_of_an_unknown_domain_is_dead_lettered_and_the_service_goes_on() -> None:
    bus = build()
    backfill(bus)
    bus.publish(declared("typo-0001", domain="paymnets"), frame("nowhere", 0))
    play(bus, 0, 6)
    assert [event.tick for event in forecasts(bus)] == [0, 6]
    assert [letter.error for letter in bus.dead_letters] == ["unknown-domain"] * 2


def test_an_app_whose_frame_comes_before_its_declaration_counts_when_it_is_declared() -> None:
    bus = MemoryBus(ManualClock(1000.0))
    bus.add(lambda: Service(ForecasterHandler(CLUSTER, "persistence", 120, GRACE_S)))
    backfill(bus)
    play(bus, 0, 6)
    declare_apps(bus)
    play(bus, 7, 36, 150.0)
    assert forecasts(bus)[-1].rps[0][1] == pytest.approx(150, rel=0.05)


def observed(first: int, last: int, recorded: int) -> RecentMinutes:
    """Of each minute its number."""
    recent = no_minutes(1)
    for minute in range(first, last + 1):
        recent = with_minute(recent, minute, [float(minute)], recorded)
    return recent


def test_minutes_are_found_by_their_number_after_a_newer_history_arrives() -> None:
    recent = observed(0, 719, recorded=0)
    assert recent.between(0, 600, 719).tolist() == list(range(601, 720))
    later = with_minute(recent, 720, [720.0], 600)
    assert (later.first, later.end) == (601, 721), "what is recorded is not kept"
    assert later.between(0, 600, 720).tolist() == list(range(601, 721))


def test_minutes_that_were_not_observed_are_gaps() -> None:
    recent = with_minute(observed(1, 2, recorded=0), 5, [5.0], 0)
    np.testing.assert_array_equal(
        recent.between(0, 0, 6), np.array([1, 2, np.nan, np.nan, 5, np.nan], np.float32)
    )


def test_a_history_beyond_the_present_leaves_no_minute_to_keep() -> None:
    recent = with_minute(observed(0, 5, recorded=-1), 6, [6.0], 10)
    assert recent.rps.shape == (1, 0)
    assert with_minute(recent, 11, [11.0], 10).rps.tolist() == [[11.0]]


def test_minutes_are_kept_as_long_as_a_rule_looks_back_and_a_pause_takes_no_room() -> None:
    recent = with_minute(observed(0, 5, recorded=-1), 10**8, [7.0], -1)
    assert recent.rps.shape == (1, HISTORY_MINUTES)
    assert np.isfinite(recent.rps).sum() == 1


def test_a_newer_recorded_history_replaces_observed_minutes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    histories: list[F32] = []

    def building(name: str, history: F32, *others: Any) -> Forecaster[Any]:
        histories.append(history)
        return model.build_rule(name, history, *others)

    monkeypatch.setattr("services.forecaster.builder.build_rule", building)
    bus = MemoryBus(ManualClock(1000.0))
    bus.add(lambda: Service(ForecasterHandler(CLUSTER, "seasonal", 12, GRACE_S)))
    declare_apps(bus)
    backfill(bus)
    play(bus, 0, 60, 100.0)
    backfill(bus, 300.0, until_tick=60)
    play(bus, 61, 72, 400.0)
    assert len(histories) == 2, "made at the start, and again when its time is over"
    # The record ends with minute 10; minute 11 was seen, minute 12 is under way.
    assert histories[-1][0, 0, -4:].tolist() == [300.0, 300.0, 400.0, 400.0]


def test_the_state_of_twelve_domains_fits_into_a_record_after_two_weeks() -> None:
    noise = np.random.default_rng(0).standard_normal((12, HISTORY_MINUTES))
    recent = RecentMinutes(1, (1000 * (1 + 0.05 * noise)).astype(np.float32))
    data = ForecasterHandler(CLUSTER, "calendar", 120, GRACE_S).save(ForecasterState(recent))
    assert len(zlib.compress(data, level=1)) < 0.9 * LARGEST_RECORD_BYTES


def test_an_event_that_replaces_another_one_has_to_show_by_itself() -> None:
    bus = build()
    backfill(bus)
    bus.publish(sale(6 * 2, 6 * 90))
    play(bus, 0, 6 * 10, 300.0)
    bus.put(topic_of(EventScheduled).name, b"sale", None)
    bus.publish(msgspec.structs.replace(sale(6 * 20, 6 * 90), name="second-sale"))
    play(bus, 6 * 10 + 1, 6 * 11, 100.0)
    assert forecasts(bus)[-1].rps[1][1] > 200, "the second sale is yet to come"


def announcement(name: str, factor: float, cancelled: bool = False) -> EventScheduled:
    event = msgspec.structs.replace(sale(60, 240), name=name, cancelled=cancelled)
    return msgspec.structs.replace(event, expected_factor=factor)


def test_a_factor_beyond_the_bound_is_a_dead_letter_and_changes_no_forecast() -> None:
    plain, forged = build(), build()
    forged.publish(announcement("forged", 1e9))
    for bus in (plain, forged):
        backfill(bus)
        play(bus, 0, 60)
    assert [one.rps for one in forecasts(forged)] == [one.rps for one in forecasts(plain)]
    (letter,) = forged.dead_letters
    assert letter.error == "implausible-factor"
    assert "largest_factor" in letter.detail


def test_a_refused_factor_leaves_the_entry_that_it_was_to_replace() -> None:
    bus = build()
    backfill(bus)
    bus.publish(announcement("sale", 3.0), announcement("sale", 1e9))
    play(bus, 0, 60)
    assert max(forecasts(bus)[-1].rps[0]) > 250


def test_overlapping_announcements_are_bounded_together() -> None:
    bus = build()
    for number in range(6):
        bus.publish(announcement(f"sale-{number}", 5.0))
    bus.run()
    assert len(bus.dead_letters) == 5


def test_a_cancellation_takes_effect_whatever_its_factor() -> None:
    bus = build()
    backfill(bus)
    bus.publish(announcement("sale", 3.0), announcement("sale", 1e9, cancelled=True))
    play(bus, 0, 60)
    assert bus.dead_letters == []
    assert max(forecasts(bus)[-1].rps[0]) < 150


def test_a_forecast_beyond_the_history_predicts_nothing_and_asks_for_a_review(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ModelBuilder, "_check_factor", lambda *_: None)
    bus = build()
    backfill(bus)
    bus.publish(announcement("forged", 1e9))
    play(bus, 0, 60)
    newest = forecasts(bus)[-1]
    assert newest.rps == [[0.0] * 3] * 3
    assert "more than 20 times" in newest.review_reason


FORGED_HISTORIES = {
    "far ahead": (2**31 - 1, "9999-01-01T00:00:00Z"),
    "of another time": (0, "1999-01-01T00:00:00Z"),
    "two days ahead": (17_280, "2026-01-07T00:00:00Z"),
}


@pytest.mark.parametrize("name", FORGED_HISTORIES)
@pytest.mark.parametrize("when", ["before the first tick", "while it runs", "before a restart"])
def test_a_history_that_cannot_be_true_leaves_the_observed_minutes(name: str, when: str) -> None:
    bus = build("persistence")
    backfill(bus)
    if when == "before the first tick":
        forge_history(bus, *FORGED_HISTORIES[name])
    play(bus, 0, 12)
    if when != "before the first tick":
        forge_history(bus, *FORGED_HISTORIES[name])
    if when == "before a restart":
        bus.kill("forecaster")
        bus.start("forecaster")
    play(bus, 13, 24)
    newest = forecasts(bus)[-1]
    assert newest.tick == 24
    assert newest.rps[0][1] == pytest.approx(100, rel=0.05)
    assert "history" in newest.review_reason
    assert forecasts(bus, "fraud")[-1].review_reason == ""


def test_a_history_that_was_recorded_after_the_frames_is_believed() -> None:
    bus = build()
    backfill(bus, until_tick=360)
    play(bus, 0, 12)
    assert forecasts(bus)[-1].review_reason == ""
    assert forecasts(bus)[-1].rps[0][1] == pytest.approx(100, rel=0.05)


def test_a_model_without_numbers_predicts_nothing_and_asks_for_a_review(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = seasonal.values_and_peaks

    def broken(*given: Any) -> tuple[F32, F32]:
        values, peaks = plain(*given)
        values[:, 0, 1] = np.nan
        return values, peaks

    monkeypatch.setattr(calendar, "values_and_peaks", broken)
    bus = build()
    backfill(bus)
    play(bus, 0, 12)
    newest = forecasts(bus, CLUSTER.domain_names[0])[-1]
    assert (newest.rps, newest.peak_rps) == ([[0.0] * 3] * 3, [0.0] * 3)
    assert newest.review_reason == "a forecast without usable numbers"
    # JSON has no NaN: a consumer would have taken it for a malformed record.
    assert bus.dead_letters == []
    assert forecasts(bus, CLUSTER.domain_names[1])[-1].review_reason == ""


def test_other_domains_keep_what_was_observed_of_those_that_are_left() -> None:
    """In the same number: rows of one domain must not become those of another."""
    cluster = load_cluster()
    present = cluster.domain_names
    observed = np.arange(3.0 * len(present), dtype=np.float32).reshape(len(present), 3)
    state = ForecasterState(RecentMinutes(7, observed), domains=present)
    handler = ForecasterHandler(cluster, "calendar", 120, GRACE_S)
    renamed = with_domains(
        cluster,
        (
            *cluster.domains[1:],
            msgspec.structs.replace(cluster.domains[0], name="new"),
        ),
    )
    other = ForecasterHandler(renamed, "calendar", 120, GRACE_S)
    accepted = other.load("cluster", handler.save(state))
    assert accepted.domains == renamed.domain_names
    np.testing.assert_array_equal(accepted.recent.rps[:-1], observed[1:])
    assert np.isnan(accepted.recent.rps[-1]).all()
    same = handler.load("cluster", handler.save(state))
    np.testing.assert_array_equal(same.recent.rps, observed)
