"""The audit finds what was lost, made twice or made because of forged data, and can say so."""

from typing import Any

import pytest
from msgspec.structs import replace

from schemas.budget_granted import BudgetGranted
from schemas.scale_applied import ScaleApplied
from schemas.scale_planned import ScalePlanned
from services.admin.decisions import Decisions
from services.measure.chaos.audit import Evidence, Harm, Window, harm_of, merged
from services.measure.chaos.subject import Claims
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


def evidence(
    found: Decisions,
    journal: list[Entry],
    domains: tuple[str, ...] = DOMAINS,
    used: float = 0.0,
    full_at: float = 1.0,
) -> Evidence:
    """What is left of a system; the app used so many cores in each tick."""
    uses = {(one.tick, one.app): used for one in journal}
    return Evidence(found, journal, domains, uses, {"a": full_at})


def decisions(
    *outcomes: ScaleApplied, budget_tick: int = 126, plan: ScalePlanned | None = None
) -> Decisions:
    budget = replace(example(BudgetGranted), tick=budget_tick, domain="payments")
    return Decisions(
        forecasts={},
        budgets={(budget_tick, "payments"): budget},
        plans={(110, "payments"): plan or planned()},
        applied={(one.tick, one.domain): one for one in outcomes},
        requests={},
        contradictions=[],
        dead_letters=[],
    )


def test_a_change_that_is_planned_made_and_reported_is_no_harm() -> None:
    assert harm_of(WINDOW, evidence(decisions(applied()), [entry()])) == NONE


def test_a_plan_without_an_outcome_is_lost() -> None:
    assert harm_of(WINDOW, evidence(decisions(), [])).lost == 1


@pytest.mark.parametrize(("outcomes", "journal"), [([applied()], []), ([], [entry()])])
def test_a_change_that_only_one_side_has_is_lost(
    outcomes: list[ScaleApplied], journal: list[Entry]
) -> None:
    assert harm_of(WINDOW, evidence(decisions(*outcomes), journal)).lost >= 1


def test_a_decision_that_is_made_twice_is_doubled() -> None:
    assert harm_of(WINDOW, evidence(decisions(applied()), [entry(), entry()])).doubled == 1
    repeated = [entry(), entry(outcome="repeat")]
    assert harm_of(WINDOW, evidence(decisions(applied()), repeated)).doubled == 0


def wrong(
    claims: Claims, after: int = 3, used: float = 0.0, full_at: float = 1.0, **plan: Any
) -> int:
    """Wrong decreases if an app of five replicas of 100 millicores gets `after`."""
    window = WINDOW._replace(claims=claims)
    found = decisions(applied(), plan=replace(planned(), **plan))
    left = evidence(found, [entry(after=after)], used=used, full_at=full_at)
    return harm_of(window, left).wrong_decreases


@pytest.mark.parametrize(("after", "expected"), [(3, 1), (9, 0)])
def test_only_a_decrease_of_an_app_that_was_called_idle_is_wrong(after: int, expected: int) -> None:
    assert wrong(Claims(idle_apps=frozenset({"a"})), after) == expected
    assert wrong(Claims(), after) == 0


def test_an_app_that_was_called_idle_may_give_way_to_a_higher_need() -> None:
    assert wrong(Claims(idle_apps=frozenset({"a"})), reasons=["yield"]) == 0


@pytest.mark.parametrize(("after", "used", "expected"), [(3, 0.31, 1), (3, 0.3, 0), (6, 9.0, 0)])
def test_a_decrease_below_what_the_app_uses_is_wrong_whatever_is_claimed(
    after: int, used: float, expected: int
) -> None:
    assert wrong(Claims(), after, used) == expected


@pytest.mark.parametrize(
    ("used", "full_at", "expected"),
    [(0.31, 1.0, 1), (0.29, 1.0, 0), (0.29, 0.5, 1), (0.16, 0.5, 1), (0.14, 0.5, 0)],
)
def test_a_decrease_to_less_than_the_remaining_pods_can_carry_is_wrong(
    used: float, full_at: float, expected: int
) -> None:
    assert wrong(Claims(), 3, used, full_at) == expected


def test_a_decrease_in_a_tick_of_which_nothing_could_be_known_is_wrong() -> None:
    assert wrong(Claims(blind=frozenset({(110, "payments")}))) == 1
    assert wrong(Claims(blind=frozenset({(110, "fraud"), (111, "payments")}))) == 0


def test_a_decrease_under_a_budget_that_cannot_be_true_is_wrong() -> None:
    assert wrong(Claims(epochs=frozenset({2**31 - 1})), epoch=2**31 - 1) == 1
    assert wrong(Claims(epochs=frozenset({2**31 - 1})), epoch=18) == 0


def test_a_plan_that_was_deleted_before_it_could_be_read_is_not_lost() -> None:
    deleted = Claims(deleted=frozenset({(110, "payments")}))
    found = evidence(decisions(), [])
    assert harm_of(WINDOW._replace(claims=deleted), found).lost == 0
    assert harm_of(WINDOW, found).lost == 1


def test_decisions_whose_records_were_deleted_count_as_they_were_read_before() -> None:
    before, after = decisions(applied()), decisions()._replace(plans={}, budgets={})
    every = merged([before, after])
    assert (every.plans, every.applied) == (before.plans, before.applied)
    assert harm_of(WINDOW, evidence(every, [entry()])) == NONE


def test_holds_count_if_a_fault_causes_them() -> None:
    stale, ordinary = applied(outcome="held", reason="breaker-stale"), applied(outcome="held")
    assert harm_of(WINDOW, evidence(decisions(stale), [])).holds == 1
    assert harm_of(WINDOW, evidence(decisions(ordinary), [])).holds == 0


def test_a_domain_without_a_recent_budget_is_silenced() -> None:
    assert harm_of(WINDOW, evidence(decisions(applied(), budget_tick=102), [entry()])).silenced == 1


def test_what_happens_outside_of_the_window_is_not_blamed_on_the_fault() -> None:
    earlier = Window("earlier", 0, 50)
    found = evidence(decisions(), [entry(), entry()], ())
    assert harm_of(earlier, found)._replace(silenced=0) == NONE
