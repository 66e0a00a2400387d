from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.budget_granted import BudgetGranted
from services._kit.arrays import Budgets, binding_budget, directive_of, with_budget
from services._kit.errors import Refused
from services._kit.inventory import DeclaredApps
from tests.service_helpers import CLUSTER, granted


def test_a_directive_has_the_epoch_and_the_validity_of_its_budget() -> None:
    budget = directive_of(granted(6, epoch=1, valid_until_tick=24), DeclaredApps(CLUSTER)).budget
    assert (budget.epoch.tolist(), budget.valid_until_tick.tolist()) == ([1], [24])


LARGEST = 2**31 - 1
MINUTE = 6


def take(budgets: Budgets, *granted: BudgetGranted, newest_tick: int = -1) -> Budgets:
    """Budgets after some more; refused ones are skipped."""
    for budget in granted:
        with suppress(Refused):
            budgets = with_budget(budgets, budget, newest_tick, MINUTE)
    return budgets


def epochs(budgets: Budgets) -> list[int]:
    return [budget.epoch for budget in budgets]


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"epoch": LARGEST}, "epoch-out-of-range"),
        ({"epoch": 5}, "epoch-out-of-range"),
        ({"valid_until_tick": LARGEST}, "time-out-of-range"),
        ({"valid_until_tick": 17}, "time-out-of-range"),
        ({"tick": 6000, "epoch": 1000, "valid_until_tick": 6018}, "tick-from-the-future"),
    ],
)
def test_a_budget_that_cannot_be_true_is_refused(changes: dict[str, int], error: str) -> None:
    known = take((), granted(6), granted(12), newest_tick=18)
    with pytest.raises(Refused) as refused:
        with_budget(known, msgspec.structs.replace(granted(18), **changes), 18, MINUTE)
    assert refused.value.kind == error


def test_an_epoch_may_be_one_more_than_the_last_after_the_clock_was_set_back() -> None:
    known = take((), granted(60))
    assert epochs(take(known, granted(30, epoch=11), newest_tick=30))[-1] == 11


def test_a_wrong_first_budget_gives_way_to_the_first_true_one() -> None:
    ahead = granted(6 * 10**8)
    assert epochs(take((), ahead)) == [10**8], "nothing is known yet to refuse it"
    assert epochs(take((ahead,), granted(12), newest_tick=13)) == [2]


def test_a_wrong_saved_epoch_gives_way_to_the_next_true_one() -> None:
    saved = granted(12, epoch=LARGEST)
    assert epochs(take((granted(6), saved), granted(18), newest_tick=18)) == [1, 3]


forged = st.builds(
    lambda tick, epoch, length: granted(tick, epoch=epoch, valid_until_tick=tick + length),
    st.one_of(st.integers(0, 200), st.integers(0, 2**31 - 100)),
    st.one_of(st.integers(-1, 60), st.integers(-1, LARGEST)),
    st.integers(0, 99),
)


@given(st.lists(st.tuples(st.integers(0, 15), forged), max_size=10))
def test_no_forged_budgets_keep_true_ones_from_binding(
    forgeries: list[tuple[int, BudgetGranted]],
) -> None:
    budgets: Budgets = ()
    for minute in range(16):
        wrong = [budget for at, budget in forgeries if at == minute]
        budgets = take(budgets, *wrong, newest_tick=6 * minute)
        budgets = take(budgets, granted(6 * minute, cores=7.0), newest_tick=6 * minute)
    binding = binding_budget(6 * 15 + 1, budgets)
    assert binding is not None
    # A forged budget of this very minute, with its very epoch, may come first: then that binds.
    clash = any(budget.tick == 90 and budget.epoch == 15 for _, budget in forgeries)
    assert clash or (binding.epoch, binding.cores) == (15, 7.0)


@pytest.mark.parametrize("first", ["forged", "true"])
def test_before_the_first_tick_a_forged_budget_does_not_keep_the_true_one_out(first: str) -> None:
    ahead, true = granted(6 * 10**8), granted(12)
    known = take((), *((ahead, true) if first == "forged" else (true, ahead)))
    assert binding_budget(13, known) == true
    assert take(known, true, ahead) is known, "delivered again"
    assert epochs(take(known, granted(18), newest_tick=18)) == [2, 3]
