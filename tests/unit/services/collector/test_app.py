"""Whatever was saved, the collector starts."""

import pytest

from services.collector.app import _tick_of
from services.collector.collect import NO_TICK


@pytest.mark.parametrize(("saved", "tick"), [(b'{"tick":17}', 17), (b"", NO_TICK), (None, NO_TICK)])
def test_the_collector_continues_after_the_saved_tick(saved: bytes | None, tick: int) -> None:
    assert _tick_of(saved) == tick


@pytest.mark.parametrize(
    "saved",
    [b"{", b"17", b'{"tick":-2}', b'{"tick":1' + b"0" * 400 + b"}", b'"\xff"', b"[" * 100_000],
)
def test_a_forged_tick_is_not_believed_and_stops_nothing(saved: bytes) -> None:
    assert _tick_of(saved) == NO_TICK
