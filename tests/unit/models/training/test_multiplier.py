"""The price of a cap rises while it is violated, never explodes, and is released."""

import pytest

from models.training.multiplier import CALM, DECAY, FILTER, RATE, TOLERANCE, Multiplier


def after(*violations: float) -> Multiplier:
    found = Multiplier()
    for violation in violations:
        found = found.updated(violation)
    return found


def test_a_violation_raises_the_price_and_its_absence_lowers_it() -> None:
    raised = after(0.1)
    assert raised.price == pytest.approx(RATE * FILTER * 0.1)
    assert after(0.1, 0.1).price > raised.price
    assert after(0.1, *[-0.1] * 20).price == 0.0


def test_one_wild_violation_counts_for_no_more_than_its_filtered_part() -> None:
    assert after(100.0).price == pytest.approx(RATE * FILTER * 100.0)
    assert after(0.1, 0.1, 0.1).filtered < 0.1


def test_steps_decay_so_that_the_price_settles() -> None:
    steps = []
    found = Multiplier(filtered=0.1)
    for _ in range(40):
        before, found = found, found.updated(0.1)
        steps.append(found.price - before.price)
    assert steps[-1] == pytest.approx(steps[0] * DECAY**39)


def test_a_price_that_is_no_longer_needed_is_halved() -> None:
    below = -2.0 * TOLERANCE
    found = Multiplier(price=8.0)
    for _ in range(CALM - 1):
        found = found.updated(below)
    assert found.price > 7.0
    found = found.updated(below)
    assert found.price == pytest.approx(4.0, abs=0.3)
    assert found.calm == 0


def test_a_policy_that_answers_to_the_price_ends_at_its_cap() -> None:
    found, violation = Multiplier(), 0.0
    for _ in range(60):
        violation = 0.12 - 0.04 * found.price
        found = found.updated(violation)
    assert abs(violation) < TOLERANCE
