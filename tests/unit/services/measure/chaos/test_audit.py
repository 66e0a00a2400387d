"""The audit finds what was lost, made twice or made because of forged data, and can say so."""

from typing import Any

import pytest
from msgspec.structs import replace

from schemas.budget_granted import BudgetGranted
from schemas.scale_applied import ScaleApplied
from schemas.scale_planned import ScalePlanned
from services.admin.decisions import Decisions
from services.measure.chaos.audit import Harm, Window, harm_of
from services.simcluster.target import Entry, Numbers
from tests.unit.services.system_helpers import example

WINDOW = Window("some fault", 100, 130)
DOMAINS = ("payments",)
NONE = Harm(0, 0, 0, 0, 0)


def planned(tick: int = 110, after: int = 3) -> ScalePlanned:
    """One app with five replicas, planned to have `after`."""
    columns: dict[str, Any] = {
        "replicas": [after], "replicas_before": [5],
        "cpu_request": [100], "cpu_request_before": [100],
        "memory_request": [128], "memory_request_before": [128],
    }  # fmt: skip
    changed = {"tick": tick, "domain": "payments", "apps": ["a"], "decision_id": f"d{tick}"}
    return replace(example(ScalePlanned), **changed, **columns, reasons=["scale-in"], need=[3.0])


def applied(tick: int = 110, outcome: str = "applied", reason: str = "scale-in") -> ScaleApplied:
    columns: dict[str, Any] = {
        name: [1] for name in ("replicas", "cpu_request", "memory_request")
    } | {f"{name}_before": [1] for name in ("replicas", "cpu_request", "memory_request")}
    changed = {"tick": tick, "domain": "payments", "apps": ["a"], "decision_id": f"d{tick}"}
    return replace(
        example(ScaleApplied), **changed, **columns, outcomes=[outcome], reasons=[reason]
    )


def entry(tick: int = 110, after: int = 3, outcome: Any = "applied") -> Entry:
    return Entry(
        sequence=0, tick=tick, arrived_tick=tick, domain="payments", app="a",
        decision_id=f"d{tick}", outcome=outcome, before=Numbers(5, 100, 128),
        after=Numbers(after, 100, 128), changed=after != 5,
    )  # fmt: skip


def decisions(*outcomes: ScaleApplied, budget_tick: int = 126) -> Decisions:
    budget = replace(example(BudgetGranted), tick=budget_tick, domain="payments")
    return Decisions(
        forecasts={},
        budgets={(budget_tick, "payments"): budget},
        plans={(110, "payments"): planned()},
        applied={(one.tick, one.domain): one for one in outcomes},
        requests={},
        contradictions=[],
        dead_letters=[],
    )


def test_a_change_that_is_planned_made_and_reported_is_no_harm() -> None:
    assert harm_of(WINDOW, decisions(applied()), [entry()], DOMAINS) == NONE


def test_a_plan_without_an_outcome_is_lost() -> None:
    assert harm_of(WINDOW, decisions(), [], DOMAINS).lost == 1


@pytest.mark.parametrize(("outcomes", "journal"), [([applied()], []), ([], [entry()])])
def test_a_change_that_only_one_side_has_is_lost(
    outcomes: list[ScaleApplied], journal: list[Entry]
) -> None:
    assert harm_of(WINDOW, decisions(*outcomes), journal, DOMAINS).lost >= 1


def test_a_decision_that_is_made_twice_is_doubled() -> None:
    assert harm_of(WINDOW, decisions(applied()), [entry(), entry()], DOMAINS).doubled == 1
    repeated = [entry(), entry(outcome="repeat")]
    assert harm_of(WINDOW, decisions(applied()), repeated, DOMAINS).doubled == 0


@pytest.mark.parametrize(("after", "wrong"), [(3, 1), (9, 0)])
def test_only_a_decrease_of_an_app_that_was_called_idle_is_wrong(after: int, wrong: int) -> None:
    window = WINDOW._replace(idle_apps=frozenset({"a"}))
    harm = harm_of(window, decisions(applied()), [entry(after=after)], DOMAINS)
    assert harm.wrong_decreases == wrong
    assert harm_of(WINDOW, decisions(applied()), [entry()], DOMAINS).wrong_decreases == 0


def test_holds_count_if_a_fault_causes_them() -> None:
    stale, ordinary = applied(outcome="held", reason="breaker-stale"), applied(outcome="held")
    assert harm_of(WINDOW, decisions(stale), [], DOMAINS).holds == 1
    assert harm_of(WINDOW, decisions(ordinary), [], DOMAINS).holds == 0


def test_a_domain_without_a_recent_budget_is_silenced() -> None:
    assert harm_of(WINDOW, decisions(applied(), budget_tick=102), [entry()], DOMAINS).silenced == 1


def test_what_happens_outside_of_the_window_is_not_the_fault() -> None:
    earlier = Window("earlier", 0, 50)
    assert harm_of(earlier, decisions(), [entry(), entry()], ())._replace(silenced=0) == NONE
