"""A domain's first plan counts only with a frame that confirms its tick."""

from typing import Any

import msgspec
import pytest

from schemas.scale_applied import ScaleApplied
from schemas.scale_planned import ScalePlanned
from tests.service_helpers import granted
from tests.unit.services.actuator.actuator_helpers import GRACE_S, Alone

FAR = 2**31 - 1


def forged(plan: ScalePlanned, tick: int = FAR) -> ScalePlanned:
    return msgspec.structs.replace(plan, tick=tick, decision_id=f"{plan.domain}/{tick}/forged")


@pytest.fixture(params=[GRACE_S, None], ids=["free-running", "lock-step"])
def alone(request: pytest.FixtureRequest) -> Alone:
    found = Alone(request.param)
    found.take(granted(0))
    return found


def outcomes(alone: Alone, event: Any) -> list[ScaleApplied]:
    """What is published at once about plans, without a write."""
    step = alone.handler.handle(event, alone.state, alone.clock)
    alone.state = step.state
    return [one for one in step.events if isinstance(one, ScaleApplied)]


def test_a_forged_first_plan_closes_nothing_however_long_no_frame_comes(alone: Alone) -> None:
    assert alone.take(forged(alone.plans[1])) == []
    for _ in range(3):
        alone.clock.advance(100 * GRACE_S)
        assert alone.handler.due(alone.state) is None, "it would be woken in a loop"
        assert alone.wake() == []
    assert alone.state.closed == -1


def test_the_true_plan_is_applied_whether_the_forged_one_came_first_or_last(alone: Alone) -> None:
    alone.take(forged(alone.plans[1]), alone.plans[1])
    (write,) = alone.take(alone.frames[1])
    assert (write.tick, bool(write.changes)) == (1, True)


def test_in_lock_step_a_forged_plan_does_not_replace_the_first_true_one() -> None:
    alone = Alone(None)
    alone.take(granted(0), alone.plans[1], forged(alone.plans[1]))
    (write,) = alone.take(alone.frames[1])
    assert (write.tick, bool(write.changes)) == (1, True)


def test_a_forged_first_plan_is_held_in_the_audit_once_frames_contradict_it(alone: Alone) -> None:
    plan = forged(alone.plans[1])
    alone.take(plan)
    (gone,) = outcomes(alone, alone.frames[1])
    assert (gone.decision_id, set(gone.outcomes), set(gone.reasons)) == (
        plan.decision_id,
        {"held"},
        {"no-frame"},
    )
    (write,) = alone.take(alone.plans[1])
    assert write.tick == 1


def test_a_forged_first_plan_survives_no_restart_as_a_belief(alone: Alone) -> None:
    alone.take(forged(alone.plans[1]))
    alone.restart()
    alone.clock.advance(100 * GRACE_S)
    assert alone.wake() == []
    (write,) = alone.take(alone.frames[1], alone.plans[1])
    assert write.tick == 1


def test_a_first_plan_that_waited_before_a_restart_is_applied_with_its_frame(alone: Alone) -> None:
    alone.take(alone.plans[1])
    alone.restart()
    (write,) = alone.take(alone.frames[1])
    assert (write.tick, bool(write.changes)) == (1, True)


@pytest.mark.parametrize("frames", [(), (1,)])
def test_plans_that_are_delivered_again_before_a_tick_closed_have_one_outcome_each(
    frames: tuple[int, ...],
) -> None:
    alone = Alone(GRACE_S)
    alone.take(*(alone.frames[tick] for tick in frames))
    plans = [alone.plans[tick] for tick in (1, 2, 3)]
    first = [one.tick for plan in plans for one in outcomes(alone, plan)]
    alone.restart()
    assert [one for plan in plans for one in outcomes(alone, plan)] == []
    assert first == [1, 2]
    # Nor later, when nothing waits any more.
    (write,) = alone.take(granted(0), alone.frames[3])
    assert write.tick == 3
    assert [one for plan in plans for one in outcomes(alone, plan)] == []


def test_replaced_plans_are_remembered_for_a_while_only() -> None:
    alone = Alone(GRACE_S)
    for tick in range(100):
        outcomes(alone, forged(alone.plans[1], tick))
    assert 0 < len(alone.state.replaced) < 50
    alone.take(alone.plans[1], granted(0), alone.frames[1])
    assert alone.state.closed == 1
    assert alone.state.replaced == ()
