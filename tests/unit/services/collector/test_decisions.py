"""Statuses show the last decision, and are not written for every doubt."""

from schemas.scale_applied import Outcome, ScaleApplied
from services._kit.clock import ManualClock
from services.collector.decisions import Decisions
from tests.service_helpers import time_of


def audit(tick: int, outcome: Outcome, reason: str, replicas: int = 4) -> ScaleApplied:
    return ScaleApplied(
        tick=tick, time=time_of(tick), domain="payments", epoch=3, decision_id=f"payments/{tick}",
        apps=["shop/web"], outcomes=[outcome], reasons=[reason], replicas=[replicas],
        cpu_request=[250], memory_request=[512], replicas_before=[4],
    )  # fmt: skip


def shown(found: Decisions) -> tuple[str, str] | None:
    status = found.of("shop/web")
    return None if status is None else (status["reason"], status["time"])


def test_a_change_is_shown_at_once_and_a_hold_at_most_once_a_minute() -> None:
    clock = ManualClock(1000.0)
    found = Decisions(clock)
    assert shown(found) is None
    found.learn(audit(1, "held", "hold-cooldown"))
    assert shown(found) == ("hold-cooldown", time_of(1))
    clock.advance(10)
    found.learn(audit(2, "held", "hold-tolerance"))
    assert shown(found) == ("hold-cooldown", time_of(1))
    found.learn(audit(3, "applied", "demand", 6))
    assert shown(found) == ("demand", time_of(3))
    found.learn(audit(4, "held", "hold-cooldown", 6))
    assert shown(found) == ("demand", time_of(3))
    clock.advance(60)
    assert shown(found) == ("hold-cooldown", time_of(4))


def test_a_hold_that_lasts_says_since_when() -> None:
    clock = ManualClock(1000.0)
    found = Decisions(clock)
    for tick in range(1, 20):
        found.learn(audit(tick, "held", "hold-paused"))
        clock.advance(10)
        assert shown(found) == ("hold-paused", time_of(1))


def test_a_late_audit_changes_nothing() -> None:
    found = Decisions(ManualClock(1000.0))
    found.learn(audit(9, "applied", "demand"))
    found.learn(audit(8, "applied", "older"))
    assert shown(found) == ("demand", time_of(9))


def test_apps_that_are_gone_are_forgotten() -> None:
    found = Decisions(ManualClock(1000.0))
    found.learn(audit(9, "applied", "demand"))
    found.keep({"shop/web"})
    assert shown(found) == ("demand", time_of(9))
    found.keep({"shop/api"})
    assert shown(found) is None
