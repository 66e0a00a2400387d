"""`hirl explain` explains a decision from its records, and names records that are gone."""

from typing import get_args

import pytest
from msgspec.structs import replace

from schemas.app_declared import AppDeclared
from schemas.breaker_changed import Action, BreakerChanged
from schemas.budget_granted import BudgetGranted
from schemas.demand_forecast import DemandForecast
from schemas.domain_observed import DomainObserved
from schemas.override_issued import OverrideIssued
from schemas.scale_applied import ScaleApplied
from schemas.scale_planned import ScalePlanned
from services.admin.evidence import Evidence
from services.cli.bus.event_lines import summary
from services.cli.bus.explain import Explanation, explain_decision, meaning_of
from tests.unit.services.system_helpers import example

CHANGED, HELD, MISSING = (
    "payments/card-authorise",
    "payments/ledger-write",
    "payments/receipt-mail",
)


def evidence(app: str) -> Evidence:
    return Evidence(
        app=AppDeclared(app=app, domain="payments", ordinal=0, max_replicas=60),
        plan=example(ScalePlanned),
        frame=example(DomainObserved),
        budget=example(BudgetGranted),
        forecast=example(DemandForecast),
        applied=example(ScaleApplied),
        breaker=example(BreakerChanged),
        cluster_breaker=None,
        overrides=(),
    )


def section(explanation: Explanation, name: str) -> str:
    return "\n".join(
        line for part in explanation.sections if part.name == name for line in part.lines
    )


def test_a_change_is_explained_from_sample_to_outcome() -> None:
    explanation = explain_decision(evidence(CHANGED))
    assert explanation.outcome == "applied"
    assert "36 of 36 pods ready" in section(explanation, "observed")
    assert "25.40 pods, usually 24.80" in section(explanation, "demand")
    assert "epoch 1440" in section(explanation, "budget")
    assert "38.60 pods" in section(explanation, "need")
    assert "36 -> 39 replicas" in section(explanation, "planned")
    assert "applied: 36 -> 39 replicas" in section(explanation, "done")
    assert "closed" in section(explanation, "breaker")


def test_a_declared_saturation_that_pods_disprove_is_named() -> None:
    found = evidence(CHANGED)
    assert found.frame is not None
    assert "pods are full" not in section(explain_decision(found), "observed")
    apps = len(found.frame.apps)
    learned = {"full_at": [0.62] * apps, "doubt": [0.04] * apps}
    frame = replace(found.frame, features=found.frame.features | learned)
    text = section(explain_decision(found._replace(frame=frame)), "observed")
    assert "pods are full at 0.62 of their CPU, declared 1.00; +-4%" in text


def test_an_unchanged_app_is_explained() -> None:
    explanation = explain_decision(evidence(HELD))
    assert explanation.outcome == "no-change"
    assert "stays at 18 replicas" in section(explanation, "planned")


def test_a_missing_sample_is_named() -> None:
    assert "no valid sample" in section(explain_decision(evidence(MISSING)), "observed")


def test_a_hold_is_explained() -> None:
    found = evidence(CHANGED)
    held = replace(
        example(ScaleApplied), outcomes=["held"], reasons=["breaker-open"], replicas=[36]
    )
    explanation = explain_decision(found._replace(applied=held))
    assert explanation.outcome == "held"
    assert "the breaker is open and does not permit this change" in section(explanation, "done")


def test_the_breaker_of_the_cluster_is_named_where_it_is_not_closed() -> None:
    found = evidence(CHANGED)
    calm = replace(example(BreakerChanged), scope="cluster", state="closed", action="none")
    assert "cluster" not in section(
        explain_decision(found._replace(cluster_breaker=calm)), "breaker"
    )
    tripped = replace(calm, state="open", action="freeze", reason="cost above the cap")
    text = section(explain_decision(found._replace(cluster_breaker=tripped)), "breaker")
    assert "of the cluster: open" in text
    assert "(cost above the cap): nothing is changed" in text


def test_the_order_behind_a_change_is_named() -> None:
    found = evidence(CHANGED)
    assert found.applied is not None
    orders = ["o-17" if app == CHANGED else "" for app in found.applied.apps]
    explanation = explain_decision(found._replace(applied=replace(found.applied, orders=orders)))
    assert "by order o-17" in section(explanation, "done")


def test_missing_records_are_named() -> None:
    bare = evidence(CHANGED)._replace(
        frame=None, budget=None, forecast=None, applied=None, breaker=None
    )
    explanation = explain_decision(bare)
    assert explanation.outcome == "unknown"
    for name in ("observed", "demand", "budget", "risk"):
        assert "no longer kept" in section(explanation, name)


def test_overrides_are_part_of_the_explanation() -> None:
    explanation = explain_decision(evidence(CHANGED)._replace(overrides=(example(OverrideIssued),)))
    assert section(explanation, "override")


def test_a_reason_is_explained_with_what_the_target_added() -> None:
    assert (
        meaning_of("hold-second-owner: HPA web") == "something else scales its workload (HPA web)"
    )
    assert meaning_of("of a newer release") == "of a newer release"


def test_an_app_without_a_declared_maximum_says_so() -> None:
    app = AppDeclared(app="web", domain="shop", ordinal=0, min_replicas=2)
    assert "at least 2 replicas, no maximum declared" in summary(app)


@pytest.mark.parametrize(
    ("held", "words"),
    [
        (4_000.0, "the domain holds 4,000, 412 below its budget"),
        (4_450.0, "the domain holds 4,450, 38 of them from the reserve"),
        (9_000.0, "the domain holds 9,000, 4,588 above its budget: it may not grow"),
    ],
)
def test_what_a_domain_holds_is_compared_with_its_budget(held: float, words: str) -> None:
    found = evidence(CHANGED)
    assert found.plan.sums is not None
    assert found.budget is not None
    budget = replace(found.budget, cores=4_412.0, overdraft_cores=100.0)
    plan = replace(found.plan, sums=replace(found.plan.sums, held=held))
    text = section(explain_decision(found._replace(plan=plan, budget=budget)), "budget")
    assert words in text


def test_the_breaker_is_explained_without_its_heartbeat() -> None:
    breaker = replace(example(BreakerChanged), state="closed", since_tick=25, heartbeat=True)
    text = section(explain_decision(evidence(CHANGED)._replace(breaker=breaker)), "breaker")
    assert text == "closed since tick 25: changes pass"
    opened = replace(example(BreakerChanged, ".open"), reason="errors: 0.09", action=None)
    text = section(explain_decision(evidence(CHANGED)._replace(breaker=opened)), "breaker")
    assert text.endswith("(errors: 0.09): nothing is changed")


@pytest.mark.parametrize("action", get_args(Action))
def test_an_open_breaker_is_explained_by_its_action(action: Action) -> None:
    opened = replace(example(BreakerChanged, ".open"), action=action)
    text = section(explain_decision(evidence(CHANGED)._replace(breaker=opened)), "breaker")
    stops_all = text.endswith("nothing is changed")
    assert stops_all == (action == "freeze")


def test_a_decision_that_was_made_without_forecasts_says_so() -> None:
    found = evidence(CHANGED)
    plan = replace(found.plan, versions=found.plan.versions | {"level": "reactive"})
    reason = "fell back to reactive: skill"
    breaker = replace(example(BreakerChanged), state="closed", level="reactive", reason=reason)
    explanation = explain_decision(found._replace(plan=plan, breaker=breaker))
    words = "forecasts are not used, only what is needed now"
    assert f"decided at most by reactive: {words}" in section(explanation, "planned")
    assert section(explanation, "breaker").endswith(f"({reason}): changes pass; {words}")


def test_the_versions_of_the_policies_behind_a_decision_are_named() -> None:
    found = evidence(CHANGED)
    assert "advised" not in section(explain_decision(found), "planned")
    assert found.budget is not None
    plan = replace(
        found.plan, versions={"soldier": "soldier/11111111", "soldier-canary": "soldier/22222222"}
    )
    budget = replace(found.budget, versions={"commander": "commander/33333333"})
    explanation = explain_decision(found._replace(plan=plan, budget=budget))
    assert "advised by soldier/11111111 and soldier/22222222 for a canary" in section(
        explanation, "planned"
    )
    assert "advised by commander/33333333" in section(explanation, "budget")
