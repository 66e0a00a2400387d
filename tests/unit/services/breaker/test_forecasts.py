"""Forecasts that go wrong make a domain fall back, and sound ones bring it back."""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
import pytest

from schemas.breaker_changed import BreakerChanged
from schemas.demand_forecast import DemandForecast
from schemas.domain_observed import DomainObserved
from schemas.fields import Event
from services._kit.clock import ManualClock
from services._kit.handler import Service
from services._kit.memory import MemoryBus
from services.breaker.decide import BreakerHandler
from services.breaker.state import BreakerState
from tests.unit.services.breaker.breaker_helpers import (
    APPS,
    CLUSTER,
    DOMAIN,
    SHORT,
    answers,
    frame,
    of_domain,
    order,
    play,
    time_at,
)

PER_MINUTE = 6
NOTHING = 0.0
"""What services publish in the place of numbers that are not believed."""
QUICK = SHORT._replace(skill_share=0.5, skill_ticks=6, output_ticks=2)
Factor = Callable[[int], float]


def traffic(tick: int) -> float:
    return 100.0 + 30.0 * math.sin(tick / 60)


def busy(tick: int) -> DomainObserved:
    """A frame with memory and pods, as exporters report them."""
    count = len(APPS)
    measured = {
        "rps": [traffic(tick)] * count, "errors": [0.0] * count, "latency_p50_s": [0.01] * count,
        "latency_p99_s": [0.02] * count, "throughput": [traffic(tick)] * count,
        "cpu_cores": [1.0] * count, "memory_gib": [1.0] * count, "measured_pods": [4.0] * count,
    }  # fmt: skip
    return frame(tick, measured=measured)


def forecast(tick: int, factor: float = 1.0, **changes: Any) -> DemandForecast:
    """Of the traffic in five minutes, times a factor."""
    rps = factor * len(APPS) * traffic(tick + 5 * PER_MINUTE)
    plain = DemandForecast(
        tick=tick, time=time_at(tick), domain=DOMAIN, model="test/1", valid_until_tick=tick + 30,
        horizons_minutes=[5, 15, 30], quantiles=[0.1, 0.5, 0.9],
        rps=[[0.95 * rps, rps, 1.05 * rps]] * 3, peak_rps=[1.05 * rps] * 3,
    )  # fmt: skip
    return msgspec.structs.replace(plain, **changes)


def events(first: int, last: int, factor: Factor) -> Iterator[Event]:
    """Frames, and the forecast of each minute after the frame that it was made from."""
    for tick in range(first, last):
        yield busy(tick)
        if tick % PER_MINUTE == 0:
            yield forecast(tick, factor(tick))


def wrong_after(tick: int, factor: float) -> Factor:
    return lambda now: factor if now >= tick else 1.0


def judged(history: Iterable[Event]) -> list[BreakerChanged]:
    """What the breaker publishes about its domain."""
    published, _ = play(BreakerHandler(CLUSTER, QUICK, None), list(history), None)
    return [event for event in published if event.scope == DOMAIN]


def broken_on(bus: MemoryBus) -> list[BreakerChanged]:
    """The same on a bus, one event after the other, with forecasts that are soon of nothing."""
    return [one for event in events(0, 20, wrong_after(6, NOTHING)) for one in answers(bus, event)]


def levels(published: list[BreakerChanged]) -> list[tuple[str, int]]:
    """Runs of levels and the tick at which each began."""
    runs = itertools.groupby(published, key=lambda event: event.level)
    return [(level, next(run).tick) for level, run in runs]


@pytest.fixture(scope="module")
def fallen() -> list[BreakerChanged]:
    """Three times the traffic is forecast for nine minutes."""

    def factor(tick: int) -> float:
        return 3.0 if 120 <= tick < 174 else 1.0

    return judged(events(0, 290, factor))


def test_forecasts_that_err_far_more_than_persistence_are_not_used_until_they_are_sound(
    fallen: list[BreakerChanged],
) -> None:
    down, up, end = levels(fallen)[1:]
    assert (down[0], up[0], end[0]) == ("reactive", "heuristic", "policy")
    # Outcomes come after five minutes.
    assert 120 + 30 < down[1] < 174 + 30 < up[1]
    assert end[1] - up[1] == QUICK.probation_ticks


def test_a_fallback_is_an_event_with_its_evidence_and_heartbeats_follow(
    fallen: list[BreakerChanged],
) -> None:
    first = next(event for event in fallen if event.level == "reactive")
    assert (first.state, first.action, first.cause) == ("closed", "fallback", "skill")
    assert (first.reason, first.heartbeat) == ("fell back to reactive: skill", False)
    assert first.readings["skill"] > first.readings["skill_threshold"] == QUICK.skill_share
    after = fallen[fallen.index(first) + 1]
    assert (after.level, after.heartbeat) == ("reactive", True)
    assert (fallen[-1].action, fallen[-1].reason, fallen[-1].cause) == ("none", "", "")


def test_sound_forecasts_and_none_at_all_change_nothing() -> None:
    sound = judged(events(0, 120, lambda _: 1.0))
    none = judged(busy(tick) for tick in range(120))
    assert levels(sound) == levels(none) == [("policy", 0)]
    assert sound[-1].readings["skill"] == 0.0
    assert "skill" not in none[-1].readings


def test_forecasts_that_were_not_believed_are_broken_output() -> None:
    published = judged(events(0, 40, wrong_after(12, NOTHING)))
    assert levels(published)[1:] == [("reactive", 12 + PER_MINUTE + QUICK.output_ticks - 1)]
    assert published[-1].cause == "output"


def test_the_same_forecast_while_traffic_moves_is_broken_output() -> None:
    stuck = forecast(60)

    def repeated(tick: int) -> Iterator[Event]:
        yield busy(tick)
        if tick % PER_MINUTE == 0:
            yield forecast(tick) if tick < 60 else msgspec.structs.replace(stuck, tick=tick)

    published = judged(itertools.chain(*map(repeated, range(200))))
    assert levels(published)[1][0] == "reactive"
    assert published[-1].cause == "output"
    assert published[-1].readings["output"] > QUICK.output_share


def test_a_restart_in_the_middle_changes_nothing() -> None:
    history = list(events(0, 24, wrong_after(6, NOTHING)))
    handler = BreakerHandler(CLUSTER, QUICK, None)
    whole, end = play(handler, history, None)
    for cut in (2, 9, 20):
        _, middle = play(handler, history[:cut], None)
        rest, same_end = play(BreakerHandler(CLUSTER, QUICK, None), history[cut:], middle)
        assert rest == whole[len(whole) - len(rest) :]
        assert same_end == end


def test_frames_and_forecasts_delivered_twice_change_nothing() -> None:
    once = broken_on(quick_bus())
    assert broken_on(quick_bus(duplicate=lambda _: True)) == once
    assert once[-1].level == "reactive"


def test_a_forecast_from_the_future_hides_no_other() -> None:
    bus = quick_bus()
    answers(bus, busy(0))
    assert answers(bus, forecast(6 * 10**6)) == []
    assert broken_on(bus)[-1].level == "reactive"


@pytest.mark.parametrize(
    "other",
    [
        {"horizons_minutes": [5], "rps": [[1.0] * 3], "peak_rps": [1.0]},
        {"quantiles": [0.5], "rps": [[1.0]] * 3},
        {"quantiles": [0.2, 0.5, 0.8]},
    ],
)
def test_a_forecast_of_other_horizons_or_quantiles_is_a_dead_letter(other: dict[str, Any]) -> None:
    bus = quick_bus()
    for event in (busy(0), forecast(0, **other), busy(1)):
        answers(bus, event)
    (letter,) = bus.dead_letters
    assert (letter.topic, letter.error) == ("hirl.demand-forecast.v1", "other-horizons")
    assert len(of_domain(bus)) == 2


def test_a_domain_may_be_half_open_and_have_fallen_back() -> None:
    failing = dict(busy(0).measured) | {"errors": [0.5] * len(APPS)}
    history = [*events(0, 20, wrong_after(6, NOTHING))]
    history += [frame(tick, measured=failing) for tick in range(20, 24)]
    last = judged(history)[-1]
    assert (last.state, last.cause, last.level) == ("half-open", "errors", "reactive")
    assert last.action == "no-scale-in"


def test_an_operators_reset_restores_the_level_once() -> None:
    bus = quick_bus()
    assert broken_on(bus)[-1].level == "reactive"
    bus.publish(order("reset", time_at(20)))
    published = [one for tick in range(20, 30) for one in answers(bus, busy(tick))]
    assert [level for level, _ in levels(published)] == ["policy", "reactive"]


class Garbled(BreakerHandler):
    """Saves bytes that are no state."""

    def save(self, state: BreakerState) -> bytes:
        return super().save(state)[:-3]


def test_a_breaker_that_lost_its_state_does_not_forget_that_it_fell_back() -> None:
    handlers = iter((Garbled, Garbled, BreakerHandler))
    bus = MemoryBus(ManualClock())
    bus.add(lambda: Service(next(handlers)(CLUSTER, QUICK, None)))
    assert broken_on(bus)[-1].level == "reactive"
    bus.kill("breaker")
    bus.start("breaker")
    (published,) = answers(bus, busy(20))
    assert (published.state, published.cause) == ("open", "state-lost")
    assert published.level == "reactive"


def test_a_state_of_a_release_that_did_not_judge_forecasts_can_be_loaded() -> None:
    handler = BreakerHandler(CLUSTER, QUICK, None)
    _, data = play(handler, [busy(0)], None)
    fields = msgspec.msgpack.decode(data)
    del fields["forecasts"], fields["fallback"]
    published, _ = play(handler, [*events(1, 20, lambda _: 1.0)], msgspec.msgpack.encode(fields))
    assert {(event.state, event.level) for event in published} == {("closed", "policy")}


def quick_bus(**other: Any) -> MemoryBus:
    bus = MemoryBus(ManualClock(), **other)
    bus.add(lambda: Service(BreakerHandler(CLUSTER, QUICK, None)))
    return bus
