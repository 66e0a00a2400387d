from pathlib import Path
from random import Random

import pytest

from schemas.breaker_changed import BreakerChanged
from schemas.fields import Event
from schemas.rejected import Rejected
from services._kit import state_records
from services._kit.memory import MemoryBus, Order, oldest
from services._kit.settings import KitSettings
from services._kit.state_records import TooLarge
from tests.kit_conformance_helpers import Conformance
from tests.kit_example_helpers import LARGEST_RECORD_BYTES, Example, ExampleSettings, build


class InMemory:
    """The memory bus with the example on it. It delivers only when a test reads from it."""

    prefix = ""
    name = Example.name

    def __init__(self, journal: Path, order: Order = oldest) -> None:
        self.bus = MemoryBus(order=order)
        self._journal = journal
        self._settings = ExampleSettings(journal=str(journal))
        self._added = False
        self._broken = False

    def start(self, *, patient: bool = True) -> None:
        del patient  # time stands still
        if self._added:
            self.bus.start(Example.name)
        else:
            self.bus.add(lambda: build(KitSettings(), self._settings))
        self._added = True

    revive = start

    def kill(self) -> None:
        self.bus.run()
        self.bus.kill(Example.name)

    def terminate(self) -> int:
        self.kill()
        return 0

    def publish(self, *events: Event) -> None:
        self.bus.publish(*events)

    def put(self, topic: str, key: bytes, value: bytes) -> None:
        self.bus.put(topic, key, value)

    def answers(self, count: int) -> list[BreakerChanged]:
        self.bus.run()
        found = self.bus.events(BreakerChanged)
        if len(found) < count:
            self.bus.advance(60)
        return self.bus.events(BreakerChanged)

    def dead_letters(self, count: int) -> list[Rejected]:
        self.bus.run()
        assert len(self.bus.dead_letters) == count
        return self.bus.dead_letters

    def failed(self) -> None:
        with pytest.raises((ZeroDivisionError, TooLarge)):
            self.bus.run()

    def writes(self, count: int) -> list[str]:
        self.bus.run()
        done = self._journal.read_text().splitlines()
        assert len(done) >= count
        return done


@pytest.fixture(autouse=True)
def small_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_records, "LARGEST_RECORD_BYTES", LARGEST_RECORD_BYTES)


@pytest.fixture
def bus(tmp_path: Path) -> InMemory:
    return InMemory(tmp_path / "journal")


class TestMemory(Conformance):
    """The memory bus, which delivers in the order of writing."""


class TestShuffled(Conformance):
    """The same where topics overtake each other, as they do on Kafka."""

    @pytest.fixture(params=range(3))
    def bus(self, tmp_path: Path, request: pytest.FixtureRequest) -> InMemory:
        return InMemory(tmp_path / "journal", Random(request.param).choice)
