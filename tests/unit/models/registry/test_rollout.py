"""A candidate moves on stage by stage, and whatever goes wrong leads back to what worked."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.registry.rollout import (
    Change,
    Order,
    Ref,
    Rollout,
    Rules,
    Sample,
    Stage,
    chosen,
    failed,
    given_up,
    loaded,
    observed,
    ordered,
    share_of,
)

OLD, NEW = Ref("a/1", "1" * 64), Ref("a/2", "2" * 64)
RULES = Rules(shadow_decisions=3, stage_decisions=2)
START = Rollout(incumbent=OLD)


def promoted(rollout: Rollout = START, order: str = "1", tick: int = 0) -> Rollout:
    rollout, change = ordered(rollout, Order(order, NEW), tick)
    assert change == Change("loading", NEW, "ordered")
    rollout, change = loaded(rollout, NEW.sha256, "", tick, RULES)
    assert change is not None
    assert change.phase == "shadow"
    return rollout


def play(rollout: Rollout, ticks: range, sample: Sample = Sample()) -> tuple[Rollout, list[str]]:  # noqa: B008
    phases = []
    for tick in ticks:
        rollout, change = observed(rollout, sample, tick, RULES)
        if change is not None:
            phases.append(f"{change.phase} {share_of(rollout, RULES):g}")
    return rollout, phases


def test_a_good_candidate_passes_shadow_and_three_shares_and_the_old_one_stays_open() -> None:
    rollout, phases = play(promoted(), range(1, 20))
    assert phases == ["canary 0.05", "canary 0.3", "canary 1", "serving 0"]
    assert (rollout.incumbent, rollout.previous, rollout.candidate) == (NEW, OLD, None)
    assert set(rollout.needed()) == {OLD, NEW}


def test_nothing_is_applied_in_shadow() -> None:
    assert share_of(promoted(), RULES) == 0
    assert share_of(START, RULES) == 0


@pytest.mark.parametrize("at", [1, 4, 6, 8])
def test_a_fault_in_any_stage_takes_it_back_in_the_same_tick_and_locks(at: int) -> None:
    rollout, _ = play(promoted(), range(1, at))
    rollout, change = observed(rollout, Sample(fault="headroom: no number"), at, RULES)
    assert change is not None
    assert (change.phase, change.version) == ("rolled-back", NEW)
    assert change.reason == "headroom: no number"
    assert rollout.incumbent == OLD
    assert rollout.stage == Stage.NONE
    again, change = ordered(rollout, Order("2", NEW), at + 1)
    assert change is not None
    assert change.phase == "refused"
    assert "unlock" in change.reason
    assert again.candidate is None
    promoted(rollout, "3", at + RULES.lock_ticks)
    unlocked, change = ordered(rollout, Order("4", NEW, unlock=True), at + 1)
    assert unlocked.candidate == NEW


@pytest.mark.parametrize(("cost", "phases"), [(1.019, 4), (1.021, 1)])
def test_a_candidate_that_costs_two_percent_more_is_taken_back(cost: float, phases: int) -> None:
    sample = Sample(cost_incumbent=1.0, cost_candidate=cost)
    rollout, found = play(promoted(), range(1, 20), sample)
    assert len(found) == phases
    assert (rollout.incumbent == NEW) == (phases == 4)


def test_what_cannot_be_loaded_never_replaces_what_works() -> None:
    rollout, _ = ordered(START, Order("1", NEW), 0)
    rollout, change = loaded(rollout, NEW.sha256, "is not signed", 0, RULES)
    assert change == Change("refused", NEW, "is not signed")
    assert rollout.incumbent == OLD
    assert rollout.candidate is None


def test_what_another_domain_refused_while_it_is_loaded_here_is_refused_without_a_lock() -> None:
    rollout, _ = ordered(START, Order("1", NEW), 0)
    rollout, change = given_up(rollout, NEW.sha256, "data: is not signed", 0, RULES)
    assert change == Change("refused", NEW, "data: is not signed")
    assert (rollout.incumbent, rollout.candidate, rollout.locked_until) == (OLD, None, -1)
    taken, change = given_up(promoted(), NEW.sha256, "data: no number", 5, RULES)
    assert change is not None
    assert change.phase == "rolled-back"
    assert taken.locked_until == 5 + RULES.lock_ticks


def test_an_incumbent_that_cannot_be_loaded_after_a_restart_is_tried_again() -> None:
    rollout, change = loaded(START, OLD.sha256, "the store is away", 100, RULES)
    assert change is not None
    assert change.phase == "heuristic"
    assert (rollout.incumbent, rollout.retry_at) == (OLD, 100 + RULES.retry_ticks)
    rollout, _ = loaded(rollout, OLD.sha256, "", 160, RULES)
    assert rollout.fallback_reason == ""


def test_an_incumbent_that_errs_gives_way_to_what_it_replaced() -> None:
    rollout, _ = play(promoted(), range(1, 20))
    rollout, change = failed(rollout, NEW.sha256, "need: no number", 30, RULES)
    assert change is not None
    assert (change.phase, rollout.incumbent, rollout.previous) == ("rolled-back", OLD, None)
    assert rollout.locked_until == 30 + RULES.lock_ticks
    rollout, _ = failed(rollout, OLD.sha256, "again", 31, RULES)
    assert rollout.incumbent is None
    assert failed(rollout, OLD.sha256, "x", 32, RULES) == (rollout, None)


def test_a_spare_that_errs_is_dropped_and_the_incumbent_is_tried_again() -> None:
    away = Rollout(incumbent=NEW, previous=OLD, fallback_reason="the store is away", retry_at=90)
    rollout, change = failed(away, OLD.sha256, "need: no number", 30, RULES)
    assert change is not None
    assert (change.phase, change.version) == ("rolled-back", OLD)
    assert (rollout.incumbent, rollout.previous, rollout.retry_at) == (NEW, None, 90)


def test_another_incumbent_does_not_inherit_why_the_one_before_could_not_be_opened() -> None:
    away = Rollout(incumbent=NEW, previous=OLD, fallback_reason="the store is away", retry_at=90)
    for rollout, _ in (
        failed(away, NEW.sha256, "need: no number", 30, RULES),
        ordered(away, Order("2", OLD, at_once=True), 30),
    ):
        assert (rollout.incumbent, rollout.fallback_reason, rollout.retry_at) == (OLD, "", -1)


def test_a_rollback_to_what_decides_already_ends_the_candidate_and_keeps_the_spare() -> None:
    rollout = replace(promoted(), previous=Ref("a/0", "0" * 64))
    rollout, change = ordered(rollout, Order("2", OLD, at_once=True), 5)
    assert change == Change("rolled-back", NEW, "ordered")
    assert (rollout.incumbent, rollout.previous) == (OLD, Ref("a/0", "0" * 64))
    assert ordered(rollout, Order("3", OLD, at_once=True), 6)[1] is None


def test_an_order_seen_twice_or_a_tick_seen_twice_changes_nothing() -> None:
    rollout = promoted()
    assert ordered(rollout, Order("1", NEW), 5) == (rollout, None)
    rollout, _ = observed(rollout, Sample(), 1, RULES)
    assert observed(rollout, Sample(), 1, RULES) == (rollout, None)


def test_a_fault_after_the_clock_was_set_back_takes_it_back_like_any_other() -> None:
    rollout, _ = play(promoted(), range(100_000, 100_005))
    assert rollout.stage == Stage.CANARY
    rollout, change = observed(rollout, Sample("NaN"), 7, RULES)
    assert change is not None
    assert (change.phase, change.reason) == ("rolled-back", "NaN")
    assert rollout.candidate is None


def test_a_rollback_is_obeyed_at_once_whatever_the_stage() -> None:
    for tick in (1, 4, 8, 20):
        rollout, _ = play(promoted(), range(1, tick))
        rollout, change = ordered(rollout, Order("2", None, at_once=True), tick)
        assert change is not None
        assert change.phase == "rolled-back"
        assert rollout.incumbent is None
        assert rollout.candidate is None


@pytest.mark.parametrize(("hold", "last"), [("shadow", Stage.SHADOW), ("canary", Stage.CANARY)])
def test_a_stage_waits_for_an_operator_where_it_is_told_to(hold: str, last: Stage) -> None:
    rollout, _ = play(replace(promoted(), hold_at=hold), range(1, 50))
    assert rollout.stage == last
    assert rollout.incumbent == OLD
    rollout, _ = ordered(rollout, Order("2", NEW, hold_at="serving"), 50)
    rollout, _ = play(rollout, range(51, 80))
    assert rollout.incumbent == NEW


def test_nothing_is_begun_while_the_registry_is_locked() -> None:
    rollout, change = ordered(START, Order("1", NEW, locked=True), 0)
    assert change is not None
    assert change.phase == "refused"
    assert rollout.candidate is None


def test_a_lock_holds_a_canary_in_its_stage_and_its_end_lets_it_go_on() -> None:
    rollout, _ = play(promoted(), range(1, 5))
    rollout, change = ordered(rollout, Order("2", NEW, locked=True), 5)
    assert change is None
    rollout, phases = play(rollout, range(5, 50))
    assert (phases, rollout.stage, rollout.share_index) == ([], Stage.CANARY, 0)
    rollout, _ = ordered(rollout, Order("3", NEW, unlock=True), 50)
    rollout, _ = play(rollout, range(51, 80))
    assert rollout.incumbent == NEW


def test_a_cost_that_is_no_number_takes_the_candidate_back() -> None:
    sample = Sample(cost_incumbent=1.0, cost_candidate=float("nan"))
    rollout, change = promoted(), None
    for tick in range(1, 4):
        rollout, change = observed(rollout, sample, tick, RULES)
    assert change is not None
    assert change.phase == "rolled-back"
    assert np.isfinite(list(change.evidence.values())).all()


def test_only_decisions_with_known_outcomes_move_a_candidate_on() -> None:
    unknown = Sample(known=False)
    rollout, phases = play(promoted(), range(1, 20), unknown)
    assert phases == []
    rollout, phases = play(rollout, range(20, 23))
    assert phases == ["canary 0.05"]
    rollout, phases = play(rollout, range(23, 30), unknown)
    assert phases == []
    rollout, _ = play(rollout, range(30, 36))
    assert rollout.incumbent == NEW


@pytest.mark.parametrize("known", [0, 1])
def test_a_stage_whose_outcomes_stay_unknown_ends_in_what_worked(known: int) -> None:
    rollout, _ = play(promoted(), range(1, 1 + known))
    rollout, phases = play(rollout, range(10, 10 + RULES.patience_decisions), Sample(known=False))
    assert phases == []
    rollout, change = observed(rollout, Sample(known=False), 99, RULES)
    assert change is not None
    assert (change.phase, rollout.incumbent) == ("rolled-back", OLD)
    assert "cannot be judged" in change.reason


IDS = tuple(f"app-{number}" for number in range(20))


def observed_risk(rollout: Rollout, ticks: range, risk: list[float]) -> tuple[Rollout, list[str]]:
    return play(rollout, ticks, Sample(ids=IDS, risk=risk))


def test_a_canary_that_is_worse_off_than_the_others_is_taken_back() -> None:
    usual = [0.1] * 20
    rollout, _ = observed_risk(promoted(), range(1, 4), usual)
    assert rollout.stage == Stage.CANARY
    # One of twenty: it is the one that the share takes.
    first = chosen(IDS, NEW.sha256, RULES.shares[0])
    burning = [0.9 if one else 0.1 for one in first.tolist()]
    rollout, phases = observed_risk(rollout, range(4, 6), burning)
    assert phases == ["rolled-back 0"]
    assert rollout.incumbent == OLD


def test_what_hits_all_alike_or_was_there_before_blames_no_canary() -> None:
    first = chosen(IDS, NEW.sha256, RULES.shares[0]).tolist()
    burning_before = [0.9 if one else 0.1 for one in first]
    for before, after in ((burning_before, burning_before), ([0.1] * 20, [0.8] * 20)):
        rollout, _ = observed_risk(promoted(), range(1, 4), before)
        rollout, phases = observed_risk(rollout, range(4, 20), after)
        assert rollout.incumbent == NEW
        assert phases[-1] == "serving 0"


def test_one_app_that_gets_into_trouble_is_no_evidence() -> None:
    rollout, _ = observed_risk(promoted(), range(1, 4), [0.0] * 20)
    rollout, _ = observed_risk(rollout, range(4, 6), [0.0] * 20)
    few = chosen(IDS, NEW.sha256, RULES.shares[1])
    one = [float(index == few.argmax()) for index in range(20)]
    rollout, _ = observed_risk(rollout, range(6, 20), one)
    assert rollout.incumbent == NEW


def test_other_apps_than_in_shadow_are_not_compared() -> None:
    rollout, _ = observed_risk(promoted(), range(1, 4), [0.1] * 20)
    sample = Sample(ids=("new", *IDS), risk=[1.0] * 21)
    rollout, _ = play(rollout, range(4, 20), sample)
    assert rollout.incumbent == NEW


@given(st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=20, unique=True))
def test_later_stages_contain_the_earlier_ones_and_the_last_is_everybody(ids: list[str]) -> None:
    few, more, every = (chosen(ids, "v", share) for share in RULES.shares)
    assert few.sum() >= 1
    assert (few <= more).all()
    assert every.all()
    assert not chosen(ids, "v", 0.0).any()
    # By the id alone: neither order nor the other ids of a process change a rank.
    again = chosen(ids[::-1], "v", 0.30)[::-1]
    np.testing.assert_array_equal(more, again)


STEPS = st.lists(
    st.one_of(
        st.builds(
            Order,
            st.text("ab", min_size=1, max_size=3),
            st.sampled_from([None, OLD, NEW]),
            st.booleans(),
            st.booleans(),
            st.sampled_from(["shadow", "canary", "serving"]),
            st.booleans(),
        ),
        st.tuples(st.sampled_from([OLD.sha256, NEW.sha256]), st.sampled_from(["", "bad"])),
        st.builds(
            Sample,
            st.sampled_from(["", "bad"]),
            st.floats(0, 2),
            st.floats(0, 2),
            st.floats(0, 1),
            st.booleans(),
            st.just(IDS),
            st.lists(st.floats(0, 1), min_size=len(IDS), max_size=len(IDS)),
            st.just(1.0),
        ),
        st.sampled_from([OLD.sha256, NEW.sha256]),
    ),
    max_size=60,
)


@settings(max_examples=300, deadline=None)
@given(STEPS)
def test_whatever_happens_only_a_version_that_was_loaded_and_in_no_fault_moves_on(
    steps: list[object],
) -> None:
    rollout, open_versions = START, {OLD.sha256}
    for tick, step in enumerate(steps):
        before = rollout
        if isinstance(step, Order):
            rollout, _ = ordered(rollout, step, tick)
        elif isinstance(step, tuple) and not isinstance(step, Sample):
            sha256, problem = step
            rollout, _ = loaded(rollout, sha256, problem, tick, RULES)
            if not problem:
                open_versions.add(sha256)
        elif isinstance(step, Sample):
            rollout, _ = observed(rollout, step, tick, RULES)
            if step.fault and before.stage in (Stage.SHADOW, Stage.CANARY):
                assert rollout.candidate is None
        else:
            assert isinstance(step, str)
            rollout, _ = failed(rollout, step, "bad", tick, RULES)
        if rollout.stage in (Stage.SHADOW, Stage.CANARY):
            assert rollout.candidate is not None
            assert rollout.candidate.sha256 in open_versions
        assert (rollout.candidate is None) == (rollout.stage == Stage.NONE)
        assert 0.0 <= share_of(rollout, RULES) <= 1.0
