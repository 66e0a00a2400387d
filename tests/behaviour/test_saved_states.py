"""Saved states hold no monotonic times, so a process with another clock can load them."""

from itertools import islice

import pytest

from services._kit.clock import ManualClock
from services._kit.memory import _Process
from services._kit.state_records import StateRecord
from services.devcluster import memory
from services.devcluster.memory import MemorySystem
from tests.decision_helpers import match_of

TICKS = 8

Saves = list[tuple[str, str, StateRecord | None]]


def saves_at(offset_s: float, monkeypatch: pytest.MonkeyPatch) -> Saves:
    """All states saved in a run whose `now` is ahead by `offset_s`; its `date` is not."""
    found: Saves = []
    save = _Process.save

    class OffsetClock(ManualClock):
        def now(self) -> float:
            return super().now() + offset_s

    async def record(
        process: _Process, key: str, state: StateRecord | None, partition: int | None
    ) -> None:
        found.append((process.name, key, state))
        await save(process, key, state, partition)

    with monkeypatch.context() as patch:
        patch.setattr(_Process, "save", record)
        patch.setattr(memory, "ManualClock", OffsetClock)
        for _ in islice(MemorySystem(match_of(20, 0).world).ticks(), TICKS):
            pass
    return found


def test_no_saved_state_depends_on_the_monotonic_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = (saves_at(offset_s, monkeypatch) for offset_s in (1e6, 3.7e7))
    assert {name for name, _, _ in one} == {
        "aggregator", "forecaster", "commander", "soldier", "actuator", "breaker",
    }  # fmt: skip
    assert one == other
