"""Metrics of the breaker."""

from typing import Any

from prometheus_client import generate_latest

from schemas.breaker_changed import BreakerChanged
from services._kit.clock import ManualClock
from services._kit.telemetry import Telemetry
from services.breaker.metrics import Metrics


def changed(state: Any, heartbeat: bool, cause: str = "", level: Any = "policy") -> BreakerChanged:
    return BreakerChanged(
        tick=1, time="2026-11-27T08:00:00Z", scope="payments", state=state, since_tick=1,
        heartbeat=heartbeat, cause=cause, level=level,
    )  # fmt: skip


def test_the_state_is_shown_and_trips_are_counted_by_cause_without_heartbeats() -> None:
    telemetry = Telemetry("breaker", ManualClock())
    metrics = Metrics(telemetry)
    for event in (
        changed("closed", heartbeat=False),
        changed("open", heartbeat=False, cause="missing"),
        changed("open", heartbeat=True, cause="missing"),
    ):
        metrics(event)
    text = generate_latest(telemetry.registry).decode()
    assert 'hirl_breaker_state{scope="payments",state="open"} 1.0' in text
    assert 'hirl_breaker_state{scope="payments",state="closed"} 0.0' in text
    assert 'hirl_breaker_trips_total{cause="missing",scope="payments"} 1.0' in text


def test_the_level_is_shown_and_falling_back_counts_as_a_trip() -> None:
    telemetry = Telemetry("breaker", ManualClock())
    metrics = Metrics(telemetry)
    for heartbeat in (False, True):
        metrics(changed("closed", heartbeat=heartbeat, cause="skill", level="reactive"))
    text = generate_latest(telemetry.registry).decode()
    assert 'hirl_breaker_level{level="reactive",scope="payments"} 1.0' in text
    assert 'hirl_breaker_level{level="policy",scope="payments"} 0.0' in text
    assert 'hirl_breaker_trips_total{cause="skill",scope="payments"} 1.0' in text
