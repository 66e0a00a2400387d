"""Holds are counted under reasons whose number is bounded; contradictions by domain."""

from typing import Any

import pytest

from schemas.scale_applied import ScaleApplied
from services._kit.clock import ManualClock
from services._kit.telemetry import Telemetry
from services.actuator.metrics import Metrics
from tests.service_helpers import APPS, DOMAIN, time_of


def held(reason: str, **more: Any) -> ScaleApplied:
    return ScaleApplied(
        tick=1,
        time=time_of(1),
        domain=DOMAIN,
        decision_id="d",
        epoch=0,
        apps=[APPS[0]],
        outcomes=["held"],
        reasons=[reason],
        replicas=[1],
        cpu_request=[1],
        memory_request=[1],
        replicas_before=[1],
        **more,
    )


@pytest.mark.parametrize(
    ("reason", "label"),
    [
        ("sample-contradicts-target", "sample-contradicts-target"),
        ("hold-budget", "hold-budget"),
        ("http://cluster answers 503", "other"),
    ],
)
def test_a_hold_is_counted_under_its_reason_if_that_is_a_known_one(reason: str, label: str) -> None:
    telemetry = Telemetry("actuator", ManualClock())
    Metrics(telemetry)(held(reason))
    found = telemetry.registry.get_sample_value("hirl_holds_total", {"reason": label})
    assert found == 1


def test_contradictions_are_counted_from_the_first_tick_on() -> None:
    telemetry = Telemetry("actuator", ManualClock())
    metrics, name = Metrics(telemetry), "hirl_contradicting_samples_total"
    metrics(held("preview"))
    assert telemetry.registry.get_sample_value(name, {"domain": DOMAIN}) == 0
    metrics(held("preview", contradictions=3))
    assert telemetry.registry.get_sample_value(name, {"domain": DOMAIN}) == 3


def test_orders_that_the_limit_holds_back_are_counted_until_they_take_effect() -> None:
    telemetry = Telemetry("actuator", ManualClock())
    metrics, name = Metrics(telemetry), "hirl_orders_waiting"
    for waiting in (0, 12, 0):
        metrics(held("preview", orders_waiting=waiting))
        assert telemetry.registry.get_sample_value(name, {"domain": DOMAIN}) == waiting
