"""Whatever fails each time stops a service twice; then the service goes on without it."""

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


class FailsInWake(Example):
    """Fails when the grace period closes a tick."""

    def wake(self, state: ExampleState, clock: Clock) -> Step[ExampleState]:
        step = super().wake(state, clock)
        if step.events:
            raise ZeroDivisionError("wake")
        return step


class FailsInWritten(Example):
    """Fails in `written` for the first tick."""

    def written(self, result: Any, state: ExampleState, clock: Clock) -> Step[ExampleState]:
        if result == "did a 1":
            raise ZeroDivisionError("written")
        return super().written(result, state, clock)


class FailsInKey(Example):
    """Fails in `key` for one sample."""

    def key(self, event: Event) -> str:
        if event == sampled("a", 1):
            raise ZeroDivisionError("key")
        return super().key(event)


class FailsToStart(Example):
    """Fails in `start` for one domain."""

    def start(self, key: str) -> ExampleState:
        if key == "a":
            raise ZeroDivisionError("start")
        return super().start(key)


class FailsToSave(Example):
    """Fails in `save` after the first answer of one domain."""

    def save(self, state: ExampleState) -> bytes:
        if state.domain == "a" and state.count:
            raise ZeroDivisionError("save")
        return super().save(state)


class FailsToEncode(Example):
    """Publishes an invalid event for one domain."""

    def _answer(self, state: ExampleState, reason: str) -> BreakerChanged:
        answer = super()._answer(state, reason)
        return msgspec.structs.replace(answer, time="soon") if state.domain == "a" else answer


class FailsToLoad(Example):
    """Fails in `load` for one domain, with an error that is not about its form."""

    def load(self, key: str, data: bytes) -> ExampleState:
        if key == "a":
            raise ZeroDivisionError("load")
        return super().load(key, data)


class FailsAfterChange(Example):
    """Changes the state that it was given, then fails."""

    def handle(self, event: Event, state: ExampleState, clock: Clock) -> Step[ExampleState]:
        if event == sampled("a", 3):
            object.__setattr__(state, "waiting", (*state.waiting, 99))
            raise ZeroDivisionError("handle")
        return super().handle(event, state, clock)


class AlwaysFailsInDue(Example):
    """Fails in `due` for every state of one domain."""

    def due(self, state: ExampleState) -> float | None:
        if state.domain == "a":
            raise ZeroDivisionError("due")
        return super().due(state)


class ClusterFailsToStart(Example):
    """Fails in `start` for its only state."""

    scope = "cluster"

    def start(self, key: str) -> ExampleState:
        raise ZeroDivisionError(f"start of {key}")


class FailsInDue(Example):
    """Fails in `due` while a tick of one domain waits."""

    def due(self, state: ExampleState) -> float | None:
        if state.domain == "a" and state.waiting:
            raise ZeroDivisionError("due")
        return super().due(state)


class FailsToLearn(Example):
    """Fails in `learn` for one app."""

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
    """Expect the service to stop, and start it again as a supervisor does."""
    with pytest.raises(ZeroDivisionError):
        act()
    bus.start(Example.name)


def letters(bus: MemoryBus) -> list[tuple[str, str, str, str]]:
    return [(one.service, one.topic, one.key, one.error) for one in bus.dead_letters]


DROPPED = [(Example.name, state_topic(Example.name), "a", "poison")]


def test_a_state_that_cannot_be_woken_is_dropped_the_third_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bus = bus_with(FailsInWake)
    bus.publish(granted("a", 1), sampled("a", 1), sampled("a", 2), sampled("b", 1), granted("b", 1))
    fail(bus, lambda: bus.advance(WAIT_S))
    fail(bus, lambda: bus.advance(WAIT_S))
    assert letters(bus) == []
    bus.advance(WAIT_S)
    assert letters(bus)[:1] == DROPPED
    assert any("drops the state of `a`" in line.message for line in caplog.records)
    assert bus.state(Example.name, "a") is None
    assert bus.state(Example.name, "b") is not None
    # The key starts over, and inputs that waited in the dropped state are not redelivered.
    bus.kill(Example.name)
    bus.start(Example.name)
    bus.publish(granted("a", 3), sampled("a", 3))
    bus.advance(WAIT_S)
    last = bus.newest(BreakerChanged)["a"]
    assert (last.tick, last.since_tick) == (3, 1)


def test_a_state_that_fails_in_written_is_dropped_the_third_time(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    bus = bus_with(FailsInWritten, journal)
    bus.publish(sampled("a", 1, source="write"), sampled("a", 2, source="write"))
    fail(bus, bus.run)
    fail(bus, bus.run)
    bus.run()
    assert letters(bus) == DROPPED
    assert journal.read_text().splitlines() == ["a 1", "a 1", "a 1", "a 2"]
    assert [answer.reason for answer in bus.events(BreakerChanged)] == ["did a 2"]


def restarts(bus: MemoryBus) -> int:
    """How often the service stops and is started again until all records are handled."""
    for count in range(100):
        try:
            bus.run()
        except (ZeroDivisionError, Malformed):
            bus.start(Example.name)
        else:
            return count
    raise AssertionError("the service never stops failing")


def test_a_record_whose_key_fails_is_dead_lettered_the_third_time() -> None:
    bus = bus_with(FailsInKey)
    bus.publish(sampled("a", 1), granted("b", 1), sampled("b", 1))
    assert restarts(bus) == 2
    assert [(one.key, one.error) for one in bus.dead_letters] == [("a", "poison")]
    assert [answer.scope for answer in bus.events(BreakerChanged)] == ["b"]


TICKS = range(1, 11)


@pytest.mark.parametrize(
    ("kind", "lost"), [(FailsToStart, 20), (FailsToSave, 10), (FailsToEncode, 10)]
)
def test_a_key_that_fails_with_every_record_stops_the_service_only_twice(
    kind: type[Example], lost: int
) -> None:
    bus = bus_with(kind)
    for tick in TICKS:
        bus.publish(granted("a", tick), sampled("a", tick), granted("b", tick), sampled("b", tick))
    assert restarts(bus) == 2
    records = [one for one in bus.dead_letters if one.offset >= 0]
    assert [(one.key, one.error) for one in records] == [("a", "poison")] * lost
    # Nothing of the broken key was published, and other keys go on.
    answers = bus.events(BreakerChanged)
    assert [answer.tick for answer in answers] == list(TICKS)
    assert {answer.scope for answer in answers} == {"b"}


def test_a_state_whose_load_fails_unexpectedly_is_dropped_the_third_time() -> None:
    handlers = iter([Example, *[FailsToLoad] * 4])
    bus = MemoryBus()
    bus.add(lambda: Service(next(handlers)(ExampleSettings())))
    bus.publish(granted("a", 1), sampled("a", 1))
    bus.run()
    bus.kill(Example.name)
    bus.start(Example.name)
    assert restarts(bus) == 2
    assert letters(bus) == DROPPED
    assert bus.state(Example.name, "a") is None


def test_a_cluster_state_that_cannot_start_stops_twice_and_dead_letters_its_records() -> None:
    bus = bus_with(ClusterFailsToStart)
    bus.publish(*(sampled("a", tick) for tick in TICKS))
    assert restarts(bus) == 2
    state, *records = letters(bus)
    assert state == (Example.name, state_topic(Example.name), "cluster", "poison")
    assert len(records) == len(TICKS)


def test_a_failure_that_comes_back_after_an_hour_is_counted_from_one() -> None:
    bus = bus_with(FailsToStart)
    for tick in (1, 2):
        bus.publish(sampled("a", tick))
        assert restarts(bus) == 2
        bus.kill(Example.name)
        bus.start(Example.name)
        assert isinstance(bus.clock, ManualClock)
        bus.clock.advance(STATE_MEMORY_S + 1)
    assert len(bus.dead_letters) == 2


def test_a_key_that_fails_all_the_time_is_not_counted_from_one_after_a_restart() -> None:
    bus = bus_with(FailsToStart)
    bus.publish(sampled("a", 1))
    assert restarts(bus) == 2
    assert isinstance(bus.clock, ManualClock)
    for tick in range(2, 10):
        bus.clock.advance(STATE_MEMORY_S / 6)
        bus.publish(sampled("a", tick))
        bus.run()
    bus.kill(Example.name)
    bus.start(Example.name)
    bus.publish(sampled("a", 10))
    assert restarts(bus) == 0


def test_a_broken_key_does_not_save_a_count_per_event() -> None:
    bus = bus_with(FailsToStart)
    bus.publish(sampled("a", 1))
    assert restarts(bus) == 2
    bus.fail_next(Example.name, "save")
    bus.publish(*(sampled("a", tick) for tick in range(2, 50)))
    bus.run()


def test_giving_up_a_record_restores_the_saved_state_and_dead_letters_lost_inputs() -> None:
    bus = bus_with(FailsAfterChange)
    bus.publish(granted("a", 1), sampled("a", 1), sampled("a", 2), sampled("a", 3))
    assert restarts(bus) == 2
    # Tick 2 waited for its budget: it is in no state that was saved.
    assert [(one.offset, one.error) for one in bus.dead_letters] == [
        (2, "poison"),
        (1, "unsettled"),
    ]
    bus.publish(granted("a", 99), sampled("a", 4))
    bus.run()
    answers = [(one.tick, one.since_tick) for one in bus.events(BreakerChanged)]
    assert answers == [(1, 1), (4, 2)]
    # All of them are acknowledged: a restart brings nothing back.
    bus.kill(Example.name)
    bus.start(Example.name)
    bus.run()
    assert len(bus.dead_letters) == 2


def test_inputs_that_wait_in_a_dropped_state_are_dead_lettered() -> None:
    bus = bus_with(FailsInWake)
    bus.publish(sampled("a", 1), sampled("a", 2))
    fail(bus, lambda: bus.advance(WAIT_S))
    fail(bus, lambda: bus.advance(WAIT_S))
    bus.advance(WAIT_S)
    assert letters(bus)[:1] == DROPPED
    assert [(one.offset, one.error) for one in bus.dead_letters[1:]] == [
        (0, "unsettled"),
        (1, "unsettled"),
    ]


def test_a_state_that_can_never_be_woken_is_dropped_only_once_per_event() -> None:
    bus = bus_with(AlwaysFailsInDue)
    bus.publish(sampled("a", 1))
    assert restarts(bus) == 2
    first = [one for one in letters(bus) if one in DROPPED]
    bus.publish(sampled("a", 2))
    bus.run()
    assert [one for one in letters(bus) if one in DROPPED] == [*first, *DROPPED]


def test_a_state_whose_due_fails_is_dropped_the_third_time() -> None:
    bus = bus_with(FailsInDue)
    bus.publish(sampled("a", 1), sampled("b", 1), granted("b", 1))
    assert restarts(bus) == 2
    assert letters(bus)[:1] == DROPPED
    assert [answer.scope for answer in bus.events(BreakerChanged)] == ["b"]


def test_failures_of_a_state_more_than_an_hour_apart_do_not_add_up() -> None:
    bus = bus_with(FailsInWake)
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
    # Every start reads it again, and must not count from one or publish its letter again.
    bus.kill(Example.name)
    bus.start(Example.name)
    bus.run()
    assert len(bus.dead_letters) == 1


def test_learning_reference_data_resets_its_failure_count() -> None:
    handlers = iter([FailsToLearn, FailsToLearn, FailsToLearn, Example, FailsToLearn, FailsToLearn])
    bus = MemoryBus()
    bus.add(lambda: Service(next(handlers)(ExampleSettings())))
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
def test_a_state_of_a_wrong_form_starts_over(
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


class Cautious(Example):
    """Marks a state that replaces a lost one, and drops the key that cannot be saved."""

    def lost(self, key: str) -> ExampleState:
        return ExampleState(domain=key, closed=77)


def closed_of(bus: MemoryBus) -> int:
    data = bus.state(Example.name, "a")
    assert data is not None
    return Cautious(ExampleSettings()).load("a", data).closed


def test_a_handler_decides_what_follows_a_saved_state_that_cannot_be_read() -> None:
    class Newer(Cautious):
        def load(self, key: str, data: bytes) -> ExampleState:
            del key, data
            raise KeyError("renamed")

    handlers = iter([Example, Example, Newer])
    bus = MemoryBus()
    bus.add(lambda: Service(next(handlers)(ExampleSettings())))
    bus.publish(granted("a", 1), sampled("a", 1))
    bus.run()
    bus.kill(Example.name)
    bus.start(Example.name)
    bus.publish(granted("a", 2))
    bus.run()
    assert closed_of(bus) == 77


def test_a_state_that_was_dropped_stays_lost_after_another_restart() -> None:
    class Broken(Cautious):
        def load(self, key: str, data: bytes) -> ExampleState:
            del key, data
            raise ZeroDivisionError("load")

    handlers = iter([Example, Example, *[Broken] * 3, Cautious])
    bus = MemoryBus()
    bus.add(lambda: Service(next(handlers)(ExampleSettings())))
    bus.publish(granted("a", 1), sampled("a", 1))
    bus.run()
    bus.kill(Example.name)
    bus.start(Example.name)
    assert restarts(bus) == 2
    assert letters(bus) == DROPPED
    assert closed_of(bus) == 77
