"""What the actuator may apply while a breaker is not closed."""

from itertools import product
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.control.breaker.actions import Cause, Phase, action_of, holds, permitted
from models.control.fallback import Level
from schemas.breaker_changed import Action

ACTIONS: tuple[Action, ...] = get_args(Action)
reasons = st.sampled_from(["scale-out", "scale-in", "yield", "resize", ""])
steps = st.lists(st.integers(-5, 5), min_size=3, max_size=3)


@given(st.sampled_from(ACTIONS), st.integers(0, 3), steps, reasons)
def test_under_a_freeze_every_change_is_held(
    other: Action, priority: int, change: list[int], reason: str
) -> None:
    held = holds(permitted(("freeze", other), priority), change, reason)
    assert held == any(change)


@given(st.sampled_from(ACTIONS), st.sampled_from(ACTIONS), st.integers(0, 3), steps, reasons)
def test_a_second_breaker_never_lets_more_pass(
    one: Action, other: Action, priority: int, change: list[int], reason: str
) -> None:
    alone = holds(permitted((one,), priority), change, reason)
    assert holds(permitted((one, other), priority), change, reason) >= alone


@pytest.mark.parametrize(
    ("action", "change", "reason", "held"),
    [
        ("none", (-1, 0, 0), "scale-in", False),
        ("increases-only", (1, 0, 0), "scale-out", False),
        ("increases-only", (-1, 0, 0), "yield", True),
        ("no-scale-in", (-1, 0, 0), "scale-in", True),
        ("no-scale-in", (-1, 0, 0), "yield", False),
        ("no-scale-in", (0, -100, 50), "resize", False),
        ("rollback", (-1, 0, 0), "scale-in", True),
        ("rollback", (1, 0, 0), "scale-out", False),
        ("decreases-only", (1, 0, 0), "scale-out", True),
        ("decreases-only", (-1, 0, 0), "scale-in", False),
    ],
)
def test_an_order_holds_what_it_names(
    action: Action, change: tuple[int, ...], reason: str, held: bool
) -> None:
    assert holds(permitted((action,), 2), change, reason) == held


def test_money_never_keeps_capacity_from_p0() -> None:
    for priority in range(4):
        assert permitted(("decreases-only",), priority).increases == (priority == 0)


def test_what_opens_a_breaker_freezes_it_unless_it_is_about_money() -> None:
    for phase, cause in product(Phase, Cause):
        action = action_of(phase, cause)
        assert (action == "none") == (phase == Phase.CLOSED)
        if phase == Phase.OPEN:
            assert action == ("decreases-only" if cause == Cause.COST else "freeze")
        if phase == Phase.HALF_OPEN:
            assert permitted((action,), 0).increases
            assert not permitted((action,), 0).savings


def test_a_level_below_policy_passes_everything_until_nothing_may_decide() -> None:
    for phase, cause, level in product(Phase, Cause, Level):
        action, alone = action_of(phase, cause, level), action_of(phase, cause)
        if level == Level.HOLD:
            assert action == "freeze"
        elif phase == Phase.CLOSED and level != Level.POLICY:
            assert action == "fallback"
            assert permitted((action,), 2) == permitted(("none",), 2)
        else:
            assert action == alone
