"""Orders about models: where a rollback leads, and what a lock keeps."""

from typing import Any

import pytest

from models.inputs.errors import InputError
from models.registry.gate import Limits
from models.registry.rollout import Ref, Rollout
from models.registry.rollout import ordered as follow
from schemas.model_judged import ModelJudged
from schemas.model_promoted import GateLimits, ModelPromoted, ObjectiveWeights, RolloutRules
from services._kit.models import order_of
from services.admin.orders import Author
from services.admin.promotions import (
    SHIPPED,
    History,
    check_unlocked,
    limits_of,
    promotion,
    rollback,
    with_changes,
    with_lock,
    with_rules,
)
from tests.planted_models import artefact_of, linear_policy

MIRA = Author("mira", authenticated=True)
A, B = "a" * 64, "b" * 64


def served(*versions: str) -> tuple[ModelJudged, ...]:
    return tuple(
        ModelJudged(
            tick=tick,
            time="2026-11-20T14:00:00Z",
            model="forecaster",
            scope="cluster",
            phase="serving",
            version=f"tft/{sha[:1]}",
            sha256=sha,
            incumbent=f"tft/{sha[:1]}",
        )
        for tick, sha in enumerate(versions)
    )


def taken_back(incumbent: str) -> ModelJudged:
    return ModelJudged(
        tick=9,
        time="2026-11-20T14:00:00Z",
        model="forecaster",
        scope="cluster",
        phase="rolled-back",
        version="tft/b",
        sha256=B,
        incumbent=incumbent,
    )


def ordered(**more: Any) -> ModelPromoted:
    return ModelPromoted(
        **{
            "model": "forecaster",
            "version": "tft/b",
            "sha256": B,
            "uri": "/srv/models",
            "promoted_at": "2026-11-20T14:00:00Z",
        }
        | more
    )


def back(history: History, to: str = "") -> tuple[str, str]:
    event = rollback(history, "forecaster", to, MIRA, "bad", 0.0)
    assert (event.status, event.issued_by, event.reason) == ("rolled-back", "mira", "bad")
    return event.version, event.sha256


def test_a_rollback_leads_to_what_served_before_and_else_to_what_ships() -> None:
    both = History((ordered(),), served(A, B))
    assert back(both) == ("tft/a", A)
    assert back(both, "bbbb") == ("tft/b", B)
    assert back(both, "tft/a") == ("tft/a", A)
    assert back(both, SHIPPED) == (SHIPPED, "")
    assert back(History((), ())) == (SHIPPED, "")
    assert back(History((ordered(),), served(B))) == (SHIPPED, "")
    with pytest.raises(InputError, match=r"these did: tft/a \(aaaaaaaaaaaa\)"):
        back(both, "cccc")


def test_a_rollback_during_a_canary_leads_to_what_decides_beside_it() -> None:
    canary = ordered(version="tft/c", sha256="c" * 64)
    assert back(History((ordered(), canary), served(A, B))) == ("tft/b", B)


def test_a_second_rollback_does_not_lead_forward_to_what_was_taken_back() -> None:
    to_a = ordered(version="tft/a", sha256=A, status="rolled-back")
    history = History((ordered(), to_a), (*served(A, B), taken_back("tft/a")))
    assert back(history) == (SHIPPED, "")


def test_a_rollback_keeps_the_lock_of_the_registry() -> None:
    history = History((ordered(locked=True),), served(A, B))
    assert rollback(history, "forecaster", "", MIRA, "bad", 0.0).locked
    assert not rollback(History((), ()), "forecaster", "", MIRA, "bad", 0.0).locked


def test_a_promotion_names_the_artefact_by_its_digest() -> None:
    artefact = artefact_of(linear_policy())
    event = promotion(History((), ()), artefact, "/srv/models", MIRA, "better", 0.0, "canary")
    assert (event.model, event.sha256, event.version) == (
        "commander", artefact.version, artefact.name
    )  # fmt: skip
    assert (event.hold_at, event.promoted_at) == ("canary", "1970-01-01T00:00:00.000Z")


def test_a_lock_keeps_what_is_served_and_refuses_promotions_until_it_is_lifted() -> None:
    history = History((ordered(),), ())
    locked = with_lock(history, "forecaster", MIRA, "sale", 0.0, locked=True)
    assert (locked.version, locked.sha256, locked.locked) == ("tft/b", B, True)
    with pytest.raises(InputError, match="is locked by mira"):
        check_unlocked(History((ordered(), locked), ()), "forecaster")
    unlocked = with_lock(History((locked,), ()), "forecaster", MIRA, "over", 1.0, locked=False)
    assert (unlocked.sha256, unlocked.locked, unlocked.unlock) == (B, False, True)
    check_unlocked(History((locked, unlocked), ()), "forecaster")


def test_an_order_without_a_reason_is_refused() -> None:
    with pytest.raises(InputError, match="--reason"):
        rollback(History((), ()), "forecaster", "", MIRA, " ", 0.0)


def test_ending_a_lock_does_not_begin_again_what_was_taken_back() -> None:
    history = History((ordered(),), (*served(A), taken_back("tft/a")))
    assert with_lock(history, "forecaster", MIRA, "over", 0.0, locked=False).sha256 == A
    later = History((ordered(),), (*served(A, B), taken_back("tft/a")))
    assert with_lock(later, "forecaster", MIRA, "over", 0.0, locked=False).sha256 == A
    nothing = History((ordered(),), (taken_back(""),))
    assert with_lock(nothing, "forecaster", MIRA, "over", 0.0, locked=False).sha256 == ""


def test_a_service_that_was_away_obeys_a_return_that_a_later_order_repeats() -> None:
    """Of the orders it reads the newest one only, such as the lock after a rollback."""
    for versions, target in (((A, B), A), ((B,), "")):
        history = History((ordered(),), served(*versions))
        returned = rollback(history, "forecaster", "", MIRA, "bad", 1.0)
        history = History((*history.ordered, returned), history.judged)
        for later in (
            with_lock(history, "forecaster", MIRA, "incident", 2.0, locked=True),
            with_rules(history, "forecaster", ["lock_ticks=6"], MIRA, "incident", 2.0),
        ):
            before = Rollout(order="earlier", incumbent=Ref("tft/b", B))
            after, _ = follow(before, order_of(later), 5)
            assert ("" if after.incumbent is None else after.incumbent.sha256) == target


def test_changed_rules_change_nothing_else_and_stay_in_later_orders() -> None:
    history = History((ordered(hold_at="canary", locked=True),), served(A))
    event = with_rules(history, "forecaster", ["stage_decisions=60"], MIRA, "slower", 0.0)
    assert (event.sha256, event.hold_at, event.locked, event.unlock) == (B, "canary", True, False)
    assert event.rules == RolloutRules(stage_decisions=60)
    history = History((*history.ordered, event), history.judged)
    settings = ["most_worse=0.01", "gate.drift=0.1", "weights.p0=12"]
    more = with_rules(history, "forecaster", settings, MIRA, "stricter", 0.0)
    assert more.rules == RolloutRules(
        stage_decisions=60,
        most_worse=0.01,
        gate=GateLimits(drift=0.1),
        weights=ObjectiveWeights(p0=12.0),
    )
    history = History((*history.ordered, more), history.judged)
    for later in (
        with_lock(history, "forecaster", MIRA, "x", 0.0, locked=False),
        rollback(history, "forecaster", "", MIRA, "x", 0.0),
    ):
        assert later.rules == more.rules
    assert [words for _, words in with_changes(history.ordered)] == [
        "", "; stage_decisions=60", "; most_worse=0.01, gate.drift=0.1, weights.p0=12"
    ]  # fmt: skip
    assert limits_of(history, "forecaster") == Limits(drift=0.1)
    assert limits_of(history, "soldier") == Limits()
    back = with_rules(history, "forecaster", ["gate.drift="], MIRA, "as it was", 0.0)
    assert limits_of(History((back,), ()), "forecaster") == Limits()


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ("stage_decisions", "expected NAME=VALUE"),
        ("gate=1", "expected NAME=VALUE"),
        ("gate.nothing=1", "expected NAME=VALUE"),
        ("stage_decisions=0", ">= 1"),
        ("stage_decisions=many", "int"),
        ("most_worse=nan", "rules: "),
        ("gate.drift=1.5", "<= 1"),
        ("weights.p0=-1", ">= 0"),
        ("gate.decision_ms=inf", "rules: "),
    ],
)
def test_rules_that_make_no_sense_are_refused_in_one_line(setting: str, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint) as refused:
        with_rules(History((), ()), "commander", [setting], MIRA, "x", 0.0)
    assert "\n" not in str(refused.value)


def test_every_threshold_of_the_gate_can_be_changed() -> None:
    assert GateLimits.__struct_fields__ == Limits.__struct_fields__


def test_rules_without_any_promotion_leave_what_ships() -> None:
    event = with_rules(History((), ()), "soldier", ["lock_ticks=6"], MIRA, "shorter", 0.0)
    assert (event.version, event.sha256, event.rules.lock_ticks) == (SHIPPED, "", 6)
