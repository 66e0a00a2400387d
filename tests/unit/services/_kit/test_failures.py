"""What fails each time stops a service twice, and is then done without."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from schemas.breaker_changed import BreakerChanged
from schemas.codec import Malformed
from schemas.fields import Event
from schemas.topics import state_topic
from services._kit.clock import Clock, ManualClock
from services._kit.failures import STATE_MEMORY_S
from services._kit.handler import Service, Step
from services._kit.memory import MemoryBus
from tests.kit_example_helpers import (
    Example,
    ExampleSettings,
    ExampleState,
    Journal,
    declared,
    granted,
    sampled,
)

WAIT_S = ExampleSettings().wait_seconds


class FailsLate(Example):
    """Cannot close a tick by grace."""

    def wake(self, state: ExampleState, clock: Clock) -> Step[ExampleState]:
        step = super().wake(state, clock)
        if step.events:
            raise ZeroDivisionError("wake")
        return step


class FailsWritten(Example):
    """Cannot take the result of a write of its first tick."""

    def written(self, result: Any, state: ExampleState, clock: Clock) -> Step[ExampleState]:
        if result == "did a 1":
            raise ZeroDivisionError("written")
        return super().written(result, state, clock)


class FailsToName(Example):
    """Does not know to which state a sample belongs."""

    def key(self, event: Event) -> str:
        if event == sampled("a", 1):
            raise ZeroDivisionError("key")
        return super().key(event)


class FailsToStart(Example):
    """Has no beginning for one domain."""

    def start(self, key: str) -> ExampleState:
        if key == "a":
            raise ZeroDivisionError("start")
        return super().start(key)


class FailsToSave(Example):
    """Cannot put an answer into bytes."""

    def save(self, state: ExampleState) -> bytes:
        if state.domain == "a" and state.count:
            raise ZeroDivisionError("save")
        return super().save(state)


class FailsToSay(Example):
    """Says what is no event."""

    def _answer(self, state: ExampleState, reason: str) -> BreakerChanged:
        answer = super()._answer(state, reason)
        return msgspec.structs.replace(answer, time="soon") if state.domain == "a" else answer


class FailsToLoad(Example):
    """Cannot read what it wrote of one domain, and not for its form."""

    def load(self, key: str, data: bytes) -> ExampleState:
        if key == "a":
            raise ZeroDivisionError("load")
        return super().load(key, data)


class FailsInPlace(Example):
    """Changes what waits before it fails."""

    def handle(self, event: Event, state: ExampleState, clock: Clock) -> Step[ExampleState]:
        if event == sampled("a", 3):
            object.__setattr__(state, "waiting", (*state.waiting, 99))
            raise ZeroDivisionError("handle")
        return super().handle(event, state, clock)


class NeverWakes(Example):
    """Does not know of any state of a domain how long to wait."""

    def due(self, state: ExampleState) -> float | None:
        if state.domain == "a":
            raise ZeroDivisionError("due")
        return super().due(state)


class OfTheCluster(Example):
    """Has no beginning at all."""

    scope = "cluster"

    def start(self, key: str) -> ExampleState:
        raise ZeroDivisionError(f"start of {key}")


class FailsToWait(Example):
    """Does not know how long to wait for a budget."""

    def due(self, state: ExampleState) -> float | None:
        if state.domain == "a" and state.waiting:
            raise ZeroDivisionError("due")
        return super().due(state)


class FailsToLearn(Example):
    """Does not know one app."""

    def learn(self, event: Event, clock: Clock) -> None:
        if event == declared("bad", "a"):
            raise ZeroDivisionError("learn")
        super().learn(event, clock)


def bus_with(kind: type[Example], journal: Path | None = None) -> MemoryBus:
    bus = MemoryBus(ManualClock(1000.0))
    executor = Journal(str(journal)) if journal else None
    bus.add(lambda: Service(kind(ExampleSettings()), executor))
    return bus


def fail(bus: MemoryBus, act: Callable[[], None]) -> None:
    """Stop as the example does, and start again as a supervisor does."""
    with pytest.raises(ZeroDivisionError):
        act()
    bus.start(Example.name)


def letters(bus: MemoryBus) -> list[tuple[str, str, str, str]]:
    return [(one.service, one.topic, one.key, one.error) for one in bus.dead_letters]


DROPPED = [(Example.name, state_topic(Example.name), "a", "poison")]


def test_a_state_that_cannot_be_woken_is_dropped_the_third_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bus = bus_with(FailsLate)
    bus.publish(granted("a", 1), sampled("a", 1), sampled("a", 2), sampled("b", 1), granted("b", 1))
    fail(bus, lambda: bus.advance(WAIT_S))
    fail(bus, lambda: bus.advance(WAIT_S))
    assert letters(bus) == []
    bus.advance(WAIT_S)
    assert letters(bus)[:1] == DROPPED
    assert any("drops the state of `a`" in line.message for line in caplog.records)
    assert bus.state(Example.name, "a") is None
    assert bus.state(Example.name, "b") is not None
    # It starts anew, and what waited in it does not come again.
    bus.kill(Example.name)
    bus.start(Example.name)
    bus.publish(granted("a", 3), sampled("a", 3))
    bus.advance(WAIT_S)
    last = bus.newest(BreakerChanged)["a"]
    assert (last.tick, last.since_tick) == (3, 1)


def test_a_state_that_cannot_take_a_result_is_dropped_the_third_time(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    bus = bus_with(FailsWritten, journal)
    bus.publish(sampled("a", 1, source="write"), sampled("a", 2, source="write"))
    fail(bus, bus.run)
    fail(bus, bus.run)
    bus.run()
    assert letters(bus) == DROPPED
    assert journal.read_text().splitlines() == ["a 1", "a 1", "a 1", "a 2"]
    assert [answer.reason for answer in bus.events(BreakerChanged)] == ["did a 2"]


def deaths(bus: MemoryBus) -> int:
    """How often it has to be started again until it comes to rest."""
    for count in range(100):
        try:
            bus.run()
        except (ZeroDivisionError, Malformed):
            bus.start(Example.name)
        else:
            return count
    raise AssertionError("it dies for ever")


def test_a_record_that_belongs_to_no_key_is_dead_lettered_the_third_time() -> None:
    bus = bus_with(FailsToName)
    bus.publish(sampled("a", 1), granted("b", 1), sampled("b", 1))
    assert deaths(bus) == 2
    assert [(one.key, one.error) for one in bus.dead_letters] == [("a", "poison")]
    assert [said.scope for said in bus.events(BreakerChanged)] == ["b"]


TICKS = range(1, 11)


@pytest.mark.parametrize(
    ("kind", "lost"), [(FailsToStart, 20), (FailsToSave, 10), (FailsToSay, 10)]
)
def test_a_key_that_fails_with_each_of_its_records_stops_the_service_twice_in_all(
    kind: type[Example], lost: int
) -> None:
    bus = bus_with(kind)
    for tick in TICKS:
        bus.publish(granted("a", tick), sampled("a", tick), granted("b", tick), sampled("b", tick))
    assert deaths(bus) == 2
    records = [one for one in bus.dead_letters if one.offset >= 0]
    assert [(one.key, one.error) for one in records] == [("a", "poison")] * lost
    # Nothing of it was said, and everybody else goes on.
    assert [said.tick for said in bus.events(BreakerChanged) if said.scope == "b"] == list(TICKS)
    assert {said.scope for said in bus.events(BreakerChanged)} == {"b"}


def test_a_state_that_cannot_be_loaded_for_no_reason_of_form_is_dropped_the_third_time() -> None:
    crew = iter([Example, *[FailsToLoad] * 4])
    bus = MemoryBus()
    bus.add(lambda: Service(next(crew)(ExampleSettings())))
    bus.publish(granted("a", 1), sampled("a", 1))
    bus.run()
    bus.kill(Example.name)
    bus.start(Example.name)
    assert deaths(bus) == 2
    assert letters(bus) == DROPPED
    assert bus.state(Example.name, "a") is None


def test_a_cluster_state_that_cannot_start_stops_twice_and_dead_letters_its_records() -> None:
    bus = bus_with(OfTheCluster)
    bus.publish(*(sampled("a", tick) for tick in TICKS))
    assert deaths(bus) == 2
    state, *records = letters(bus)
    assert state == (Example.name, state_topic(Example.name), "cluster", "poison")
    assert len(records) == len(TICKS)


def test_a_failure_that_comes_back_after_an_hour_is_counted_from_one() -> None:
    bus = bus_with(FailsToStart)
    for tick in (1, 2):
        bus.publish(sampled("a", tick))
        assert deaths(bus) == 2
        bus.kill(Example.name)
        bus.start(Example.name)
        assert isinstance(bus.clock, ManualClock)
        bus.clock.advance(STATE_MEMORY_S + 1)
    assert len(bus.dead_letters) == 2


def test_a_record_that_is_given_up_leaves_no_trace_in_the_state_and_names_what_went_with_it() -> (
    None
):
    bus = bus_with(FailsInPlace)
    bus.publish(granted("a", 1), sampled("a", 1), sampled("a", 2), sampled("a", 3))
    assert deaths(bus) == 2
    # Tick 2 waited for its budget: it is in no state that was saved.
    assert [(one.offset, one.error) for one in bus.dead_letters] == [
        (2, "poison"),
        (1, "unsettled"),
    ]
    bus.publish(granted("a", 99), sampled("a", 4))
    bus.run()
    said = [(one.tick, one.since_tick) for one in bus.events(BreakerChanged)]
    assert said == [(1, 1), (4, 2)]
    # All of them are acknowledged: a restart brings nothing back.
    bus.kill(Example.name)
    bus.start(Example.name)
    bus.run()
    assert len(bus.dead_letters) == 2


def test_what_waits_in_a_state_that_is_dropped_is_named() -> None:
    bus = bus_with(FailsLate)
    bus.publish(sampled("a", 1), sampled("a", 2))
    fail(bus, lambda: bus.advance(WAIT_S))
    fail(bus, lambda: bus.advance(WAIT_S))
    bus.advance(WAIT_S)
    assert letters(bus)[:1] == DROPPED
    assert [(one.offset, one.error) for one in bus.dead_letters[1:]] == [
        (0, "unsettled"),
        (1, "unsettled"),
    ]


def test_a_state_that_can_never_be_woken_is_dropped_once_per_event_and_not_for_ever() -> None:
    bus = bus_with(NeverWakes)
    bus.publish(sampled("a", 1))
    assert deaths(bus) == 2
    first = [one for one in letters(bus) if one in DROPPED]
    bus.publish(sampled("a", 2))
    bus.run()
    assert [one for one in letters(bus) if one in DROPPED] == [*first, *DROPPED]


def test_a_state_that_does_not_know_how_long_to_wait_is_dropped_the_third_time() -> None:
    bus = bus_with(FailsToWait)
    bus.publish(sampled("a", 1), sampled("b", 1), granted("b", 1))
    assert deaths(bus) == 2
    assert letters(bus)[:1] == DROPPED
    assert [said.scope for said in bus.events(BreakerChanged)] == ["b"]


def test_failures_of_a_state_that_are_far_apart_do_not_add_up() -> None:
    bus = bus_with(FailsLate)
    bus.publish(sampled("a", 1))
    for _ in range(5):
        fail(bus, lambda: bus.advance(WAIT_S))
        assert isinstance(bus.clock, ManualClock)
        bus.clock.advance(STATE_MEMORY_S + 1)
    assert letters(bus) == []


def test_reference_data_that_cannot_be_learned_is_dead_lettered_the_third_time() -> None:
    bus = bus_with(FailsToLearn)
    bus.publish(declared("bad", "a"), declared("good", "a"), granted("a", 1), sampled("a", 1))
    fail(bus, bus.run)
    fail(bus, bus.run)
    bus.run()
    assert [(one.key, one.error) for one in bus.dead_letters] == [("bad", "poison")]
    assert bus.events(BreakerChanged)[0].readings == {"apps": 1}
    # Every start reads it again, and must not count from one.
    bus.kill(Example.name)
    bus.start(Example.name)
    bus.run()
    assert len(bus.dead_letters) == 2


def test_reference_data_is_forgiven_when_it_can_be_learned() -> None:
    crew = iter([FailsToLearn, FailsToLearn, FailsToLearn, Example, FailsToLearn, FailsToLearn])
    bus = MemoryBus()
    bus.add(lambda: Service(next(crew)(ExampleSettings())))
    bus.publish(declared("bad", "a"))
    fail(bus, bus.run)
    fail(bus, bus.run)
    bus.run()
    bus.kill(Example.name)
    bus.start(Example.name)
    fail(bus, bus.run)
    assert bus.dead_letters == []


@pytest.mark.parametrize(
    "error",
    [KeyError("renamed"), ValueError("form"), TypeError("fields"), msgspec.ValidationError("type")],
)
def test_a_state_that_cannot_be_loaded_starts_anew(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    class Newer(Example):
        def load(self, key: str, data: bytes) -> ExampleState:
            del key, data
            raise error

    bus = bus_with(Newer)
    for tick in (1, 2):
        bus.publish(granted("a", tick), sampled("a", tick))
        bus.run()
        bus.kill(Example.name)
        bus.start(Example.name)
    assert [answer.since_tick for answer in bus.events(BreakerChanged)] == [1, 1]
    (line,) = [line for line in caplog.records if "has a wrong form" in line.message]
    assert (line.levelno, line.exc_info is None) == (logging.WARNING, False)
