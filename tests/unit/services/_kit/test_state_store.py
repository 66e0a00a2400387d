import logging

import pytest

from services._kit import state_records
from services._kit.memory import MemoryBus
from services._kit.settings import KitSettings
from tests.kit_example_helpers import (
    LARGEST_RECORD_BYTES,
    Example,
    ExampleSettings,
    build,
    granted,
    sampled,
)

SECOND = "!part/2/a"


@pytest.fixture
def bus(monkeypatch: pytest.MonkeyPatch) -> MemoryBus:
    """With a state of several parts."""
    monkeypatch.setattr(state_records, "LARGEST_RECORD_BYTES", LARGEST_RECORD_BYTES)
    bus = MemoryBus()
    bus.add(lambda: build(KitSettings(), ExampleSettings()))
    bus.publish(granted("a", 7), sampled("a", 7), sampled("a", 7, source="large"))
    bus.run()
    assert SECOND in saved(bus)
    return bus


def saved(bus: MemoryBus) -> dict[str, state_records.StateRecord]:
    return bus._processes[Example.name].saved


@pytest.mark.parametrize("moment", ["publish", "save"])
def test_a_process_that_dies_before_a_save_leaves_the_save_before(
    bus: MemoryBus, moment: str
) -> None:
    before = bus.state(Example.name, "a")
    bus.fail_next(Example.name, moment)  # type: ignore[arg-type]  # a literal
    bus.publish(sampled("a", 8, source="light"))
    with pytest.raises(Exception, match=f"before {moment}"):
        bus.run()
    assert bus.state(Example.name, "a") == before
    bus.start(Example.name)
    bus.run()
    after = bus.state(Example.name, "a")
    assert after is not None
    assert len(after) < 100
    assert SECOND not in saved(bus)


def test_a_torn_state_starts_over_and_the_next_save_removes_what_is_left(
    bus: MemoryBus, caplog: pytest.LogCaptureFixture
) -> None:
    del saved(bus)[SECOND]
    bus.kill(Example.name)
    bus.start(Example.name)
    with caplog.at_level(logging.WARNING):
        bus.publish(granted("a", 9), sampled("a", 9))
        bus.run()
    assert "the saved state of `a` is not whole: part 2 of" in caplog.text
    assert list(saved(bus)) == ["a"]
    assert not bus.dead_letters


def test_dropping_a_state_removes_all_its_parts(bus: MemoryBus) -> None:
    for _ in range(3):
        bus.publish(sampled("a", 8, source="oversized"))
        try:
            bus.run()
        except state_records.TooLarge:
            bus.start(Example.name)
    bus.run()
    assert not [key for key in saved(bus) if not key.startswith("!failures")]


@pytest.mark.parametrize(
    "forged", [b"", b"\x91" * 10**6, b"\x81\xa1a" * 10**5, b"\x81\xa1\xff\x00", b"\xc1"]
)
def test_a_forged_state_starts_over_and_does_not_stop_the_service(
    bus: MemoryBus, forged: bytes
) -> None:
    saved(bus)["a"] = state_records.StateRecord(forged)
    bus.kill(Example.name)
    bus.start(Example.name)
    bus.publish(granted("a", 9), sampled("a", 9))
    bus.run()
    assert list(saved(bus)) == ["a"]
