"""What a service saves is of use to a process that has another clock."""

from itertools import islice

import pytest

from services._kit.clock import ManualClock
from services._kit.memory import _Process
from services._kit.records import StateRecord
from services.devcluster import memory
from services.devcluster.memory import MemorySystem
from tests.decision_helpers import contest

TICKS = 8

Saves = list[tuple[str, str, StateRecord | None]]


def saves_at(moment_s: float, monkeypatch: pytest.MonkeyPatch) -> Saves:
    """All that is saved in a run whose clock has so many seconds more by `now`, not by `date`."""
    found: Saves = []
    save = _Process.save

    class Machine(ManualClock):
        def now(self) -> float:
            return super().now() + moment_s

    async def note(
        seat: _Process, key: str, state: StateRecord | None, partition: int | None
    ) -> None:
        found.append((seat.name, key, state))
        await save(seat, key, state, partition)

    with monkeypatch.context() as patch:
        patch.setattr(_Process, "save", note)
        patch.setattr(memory, "ManualClock", Machine)
        for _ in islice(MemorySystem(contest(20, 0).world).ticks(), TICKS):
            pass
    return found


def test_no_saved_state_has_a_value_of_now(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = (saves_at(moment_s, monkeypatch) for moment_s in (1e6, 3.7e7))
    assert {name for name, _, _ in one} == {
        "aggregator", "forecaster", "commander", "soldier", "actuator", "breaker",
    }  # fmt: skip
    assert one == other
