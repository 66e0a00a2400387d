"""Correcting the machine's date does not change a duration."""

import time

import pytest

from services._kit.clock import SystemClock
from services._kit.telemetry import Health


@pytest.mark.parametrize("jump_s", [-86400.0, 86400.0])
def test_a_corrected_date_changes_no_duration(
    jump_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SystemClock()
    health, began, date = Health(clock, silence_seconds=60.0), clock.now(), clock.date()
    later = time.time() + jump_s
    monkeypatch.setattr(time, "time", lambda: later)
    assert 0 <= clock.now() - began < 60
    assert health.alive()
    assert clock.date() - date == pytest.approx(jump_s, abs=60)
