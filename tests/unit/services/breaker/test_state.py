"""What a breaker remembers, saved by itself or by another release."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.fields import Event
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
    applied,
    bus_of,
    frame,
    of_domain,
    play,
    states,
)

errors = st.sampled_from([0.0, 0.0, 0.15, 0.3, None])
steps = st.lists(st.tuples(errors, st.integers(4, 6), st.booleans()), min_size=2, max_size=20)


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


def test_a_breaker_decides_the_same_after_duplicates_and_crashes() -> None:
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


class Ragged(BreakerHandler):
    """Saves fewer columns of one array than there are apps."""

    def save(self, state: BreakerState) -> bytes:
        changes = state.changes._replace(good=state.changes.good[:, 1:])
        return super().save(replace(state, changes=changes))


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


@pytest.mark.parametrize("before", [Unknown, Ragged, Forgetful, Garbled])
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


def test_a_breaker_whose_saved_state_is_gone_comes_back_open() -> None:
    bus = bus_of()
    answers(bus, frame(0))
    bus.kill("breaker")
    bus._processes["breaker"].saved.clear()
    bus.start("breaker")
    (back,) = answers(bus, frame(1))
    assert (back.state, back.cause, back.since_tick) == ("open", "state-lost", 1)


def test_an_open_breaker_stays_open_when_its_saved_state_lacks_the_tick() -> None:
    handler = BreakerHandler(CLUSTER, SHORT, None)
    lost = [msgspec.structs.replace(frame(tick), missing=APPS[:4]) for tick in range(2)]
    _, data = play(handler, [*lost], None)
    fields = msgspec.msgpack.decode(data)
    del fields["tick"]
    published, _ = play(handler, [frame(2)], msgspec.msgpack.encode(fields))
    assert published[0].state == "open"
