"""The arithmetic of `hirl bench override` on the broker's times."""

from typing import Any

import pytest
from rich.console import Console

from schemas.fields import Event
from schemas.override_issued import OverrideIssued
from schemas.scale_applied import ScaleApplied
from schemas.scale_planned import ScalePlanned
from services._kit.records import Delivery
from services.admin.reader import ReadRecord
from services.cli.benchmarks.override import show
from services.measure.overrides import Held, figures, held_orders

TIME = "2026-11-27T00:00:00Z"
NUMBERS: dict[str, Any] = {"replicas": [1], "cpu_request": [1], "memory_request": [1]}


def record(event: Event, at: float) -> ReadRecord:
    return ReadRecord(event, Delivery("t", 0, 0, b"", b"", (), at))


def order(name: str, at: float, domain: str = "payments") -> ReadRecord:
    return record(OverrideIssued(scope=domain, kind="domain", order_id=name), at)


def planned(tick: int, at: float, domain: str = "payments") -> ReadRecord:
    plan = ScalePlanned(
        tick=tick, time=TIME, domain=domain, decision_id="d", epoch=0, policy="p", apps=["a"],
        reasons=["scale-out"], **NUMBERS,
    )  # fmt: skip
    return record(plan, at)


def applied(tick: int, at: float, name: str, domain: str = "payments") -> ReadRecord:
    event = ScaleApplied(
        tick=tick, time=TIME, domain=domain, decision_id="d", epoch=0, apps=["a"],
        outcomes=["held"], reasons=["paused"], replicas_before=[1], orders=[name], **NUMBERS,
    )  # fmt: skip
    return record(event, at)


def test_an_order_lasts_until_the_first_outcome_that_names_it() -> None:
    (held,) = held_orders(
        ["new"],
        [order("old", 0.0), order("new", 3.0)],
        [planned(1, 1.0), planned(2, 11.0), planned(3, 21.0), planned(2, 4.0, "data")],
        [
            applied(1, 1.5, "old"),
            applied(2, 11.5, "new"),
            applied(3, 21.5, "new"),
            applied(2, 4.5, "new", "data"),
        ],
    )
    assert (held.order_ms, held.plan_ms) == pytest.approx((8500.0, 500.0))
    assert held.missed_ms == ()


def test_a_plan_after_the_order_that_passed_is_missed() -> None:
    (held,) = held_orders(
        ["new"],
        [order("new", 3.0)],
        [planned(1, 2.9), planned(2, 3.2), planned(3, 13.0)],
        [applied(1, 3.4, "old"), applied(2, 3.6, "old"), applied(3, 13.5, "new")],
    )
    assert list(held.missed_ms) == pytest.approx([200.0])
    found = figures([held, Held(1.0, 1.0, ())])
    assert (found["orders"], found["missed_plans"]) == (2, 1)
    assert found["longest_missed_ms"] == pytest.approx(200.0)


def test_the_table_names_what_was_missed() -> None:
    payload = figures([Held(5000.0, 300.0, (20.0,))]) | {"load": [1.0, 2.0]}
    with Console(record=True, width=100) as console:
        show(console, payload)
    text = console.export_text()
    assert "5,000" in text
    assert "1 plans came after an order" in text
