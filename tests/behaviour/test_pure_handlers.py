"""No handler changes the state it is given, in a whole run of the system."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from itertools import islice
from typing import Any

import msgspec
import numpy as np
import pytest

from models.cluster.description import load_cluster
from models.control.breaker.limits import Thresholds
from models.forecaster.learned.artefact import CARD, SHIPPED
from services._kit.handler import Handler, Step
from services.actuator.decide import ActuatorHandler
from services.aggregator.decide import AggregatorHandler
from services.breaker.decide import BreakerHandler
from services.commander.decide import CommanderHandler
from services.devcluster.memory import MemorySystem
from services.forecaster.decide import ForecasterHandler
from services.soldier.decide import SoldierHandler
from tests.decision_helpers import match_of

APPS, SEED, TICKS = 40, 3, 14
CALLS = ("handle", "wake", "written")
HANDLERS: dict[type[Handler[Any]], set[str]] = {
    AggregatorHandler: {"handle", "wake"},
    ForecasterHandler: {"handle", "wake"},
    CommanderHandler: {"handle", "wake"},
    SoldierHandler: {"handle", "wake"},
    ActuatorHandler: {"handle", "wake", "written"},
    BreakerHandler: {"handle", "wake"},
}
"""Handlers, each with the methods that the system calls."""


def content(value: Any) -> Any:
    """Everything that a state holds, as values that compare equal only if nothing changed."""
    if isinstance(value, np.ndarray):
        return (value.dtype.str, value.shape, value.tobytes())
    if isinstance(value, Mapping):
        return [(content(key), content(part)) for key, part in value.items()]
    if isinstance(value, list | tuple | set | frozenset):
        parts = sorted(value) if isinstance(value, set | frozenset) else value
        return [content(part) for part in parts]
    if isinstance(value, msgspec.Struct):
        return content(msgspec.structs.asdict(value))
    if is_dataclass(value):
        return [(field.name, content(getattr(value, field.name))) for field in fields(value)]
    # A model is rebuilt, never changed; what it remembers is in the state beside it.
    return value


@contextmanager
def checked(kind: type[Handler[Any]], monkeypatch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    """Compare the state before and after each call; yields the names of the methods called."""
    called: set[str] = set()

    def wrapped(name: str) -> Callable[..., Step[Any]]:
        original = getattr(kind, name)

        def call(handler: Handler[Any], *arguments: Any) -> Step[Any]:
            state = arguments[0] if name == "wake" else arguments[1]
            before = content(state)
            step: Step[Any] = original(handler, *arguments)
            called.add(name)
            assert content(state) == before, f"{kind.__name__}.{name} changed its input state"
            return step

        return call

    with monkeypatch.context() as patch:
        for name in CALLS:
            patch.setattr(kind, name, wrapped(name))
        yield called


@pytest.mark.parametrize("kind", HANDLERS, ids=lambda kind: kind.name)
def test_a_handler_never_changes_its_input_state(
    kind: type[Handler[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    with checked(kind, monkeypatch) as called:
        running = MemorySystem(match_of(APPS, SEED).world)
        for tick in islice(running.ticks(), TICKS):
            if tick == TICKS // 2:  # loaded states too
                running.bus.kill(kind.name, redeliver=3)
                running.bus.start(kind.name)
    assert called == HANDLERS[kind]


@pytest.mark.skipif(not (SHIPPED / CARD).exists(), reason="no trained forecaster is shipped")
def test_the_trained_forecaster_never_changes_its_input_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with checked(ForecasterHandler, monkeypatch) as called:
        world = match_of(APPS, SEED, controller="heuristic:tft").world
        running = MemorySystem(world, forecast="tft")
        for tick in islice(running.ticks(), TICKS):
            if tick == TICKS // 2:  # loaded states too
                running.bus.kill("forecaster", redeliver=3)
                running.bus.start("forecaster")
    assert called == HANDLERS[ForecasterHandler]


def test_a_handler_that_updates_an_array_in_place_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("services.soldier.decide.copied", lambda state: state)
    with (
        pytest.raises(AssertionError, match=r"SoldierHandler.handle changed its input state"),
        checked(SoldierHandler, monkeypatch),
    ):
        for _ in islice(MemorySystem(match_of(APPS, SEED).world).ticks(), TICKS):
            pass


def test_content_tells_states_apart_by_their_last_bit() -> None:
    state = BreakerHandler(load_cluster(), Thresholds(), stale_s=None).start("payments")
    risk = state.memory.risk.copy()
    other = replace(state, memory=state.memory._replace(risk=risk))
    assert content(other) == content(state)
    risk[0, 0, 0] = np.nextafter(0.0, 1.0)
    assert content(other) != content(state)
