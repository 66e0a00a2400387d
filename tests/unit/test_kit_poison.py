"""What fails each time stops a service twice, and is then done without."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from schemas.breaker_changed import BreakerChanged
from schemas.fields import Event
from schemas.topics import state_topic
from services._kit.clock import Clock, ManualClock
from services._kit.handler import Service, Step
from services._kit.memory import MemoryBus
from services._kit.poison import STATE_MEMORY_S
from tests.kit_example import (
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
    """Cannot put its first answer into bytes."""

    def save(self, state: ExampleState) -> bytes:
        if state.domain == "a" and state.count == 1:
            raise ZeroDivisionError("save")
        return super().save(state)


class FailsToWait(Example):
    """Does not know how long to wait for a budget."""

    def due(self, state: ExampleState) -> float | None:
        if state.domain == "a" and state.waiting:
            raise ZeroDivisionError("due")
        return super().due(state)


class FailsToLearn(Example):
    """Does not know one app."""

    def learn(self, event: Event) -> None:
        if event == declared("bad", "a"):
            raise ZeroDivisionError("learn")
        super().learn(event)


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
    assert letters(bus) == DROPPED
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


@pytest.mark.parametrize(
    ("kind", "events"),
    [
        (FailsToName, [sampled("a", 1)]),
        (FailsToStart, [sampled("a", 1)]),
        (FailsToSave, [granted("a", 1), sampled("a", 1)]),
    ],
)
def test_a_record_that_stops_the_service_wherever_is_dead_lettered_the_third_time(
    kind: type[Example], events: list[Event]
) -> None:
    bus = bus_with(kind)
    bus.publish(*events, granted("b", 1), sampled("b", 1))
    fail(bus, bus.run)
    fail(bus, bus.run)
    assert letters(bus) == []
    bus.run()
    assert [(one.key, one.error) for one in bus.dead_letters] == [("a", "poison")]
    # Nothing of it was said, and everybody else goes on.
    assert [said.scope for said in bus.events(BreakerChanged)] == ["b"]


def test_a_state_that_does_not_know_how_long_to_wait_is_dropped_the_third_time() -> None:
    bus = bus_with(FailsToWait)
    bus.publish(sampled("a", 1), sampled("b", 1), granted("b", 1))
    fail(bus, bus.run)
    fail(bus, bus.run)
    bus.run()
    assert letters(bus) == DROPPED
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
    (line,) = [line for line in caplog.records if "does not understand" in line.message]
    assert (line.levelno, line.exc_info is None) == (logging.WARNING, False)
