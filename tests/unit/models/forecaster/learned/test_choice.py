"""The better model serves, changes are rare, and nothing is chosen on too little evidence."""

from typing import Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as tries
from hypothesis import strategies as st

from models.cluster.arrays import F64
from models.forecaster.learned.choice import LEARNED, Reason, Settings, State, start, step
from models.inputs.errors import InputError

QUICK: Final = Settings(
    window_min=30.0, margin=0.1, hysteresis=0.05, least_outcomes=20, stay_min=40
)


def errors(*by_candidate: float) -> F64:
    """[1, C, 3] the same at all horizons."""
    return np.repeat(np.array(by_candidate)[None, :, None], 3, axis=2)


def after(state: State, minutes: int, *by_candidate: float, first: int = 0) -> State:
    for minute in range(first, first + minutes):
        state = step(state, errors(*by_candidate), minute, QUICK)
    return state


def serving(state: State) -> tuple[int, Reason]:
    return int(state.serving[0]), Reason(int(state.reason[0]))


def test_the_learned_model_serves_while_nothing_is_better_by_the_margin() -> None:
    state = after(start(1, 3, QUICK), 500, 1.0, 0.95, 0.91)
    assert serving(state) == (LEARNED, Reason.DEFAULT)


def test_a_simple_model_that_is_better_by_the_margin_takes_over() -> None:
    state = after(start(1, 3, QUICK), 500, 1.0, 0.95, 0.85)
    assert serving(state) == (2, Reason.SIMPLE_BETTER)


def test_the_learned_model_returns_only_when_half_the_margin_is_lost() -> None:
    state = after(start(1, 2, QUICK), 200, 1.0, 0.8)
    state = after(state, 300, 1.0, 0.93, first=200)
    assert serving(state) == (1, Reason.WITHIN_HYSTERESIS)
    state = after(state, 300, 1.0, 0.97, first=500)
    assert serving(state) == (LEARNED, Reason.DEFAULT)


def test_the_default_serves_until_there_are_enough_outcomes() -> None:
    state = after(start(1, 2, QUICK), QUICK.least_outcomes - 1, 1.0, 0.1)
    assert serving(state) == (LEARNED, Reason.FEW)
    state = after(state, 1, 1.0, 0.1, first=QUICK.least_outcomes - 1)
    assert serving(state)[0] == 1


def test_a_change_too_soon_after_the_last_one_is_delayed() -> None:
    state = after(start(1, 2, QUICK), 20, 1.0, 0.1)
    assert serving(state)[0] == 1
    state = after(state, 39, 0.1, 9.0, first=20)
    assert serving(state) == (1, Reason.STAY)
    state = after(state, 1, 0.1, 9.0, first=59)
    assert serving(state) == (LEARNED, Reason.DEFAULT)


def test_the_serving_simple_model_stays_among_equally_good_ones() -> None:
    state = after(start(1, 3, QUICK), 100, 1.0, 0.9, 0.5)
    state = after(state, 500, 1.0, 0.5, 0.5, first=100)
    assert serving(state)[0] == 2
    state = after(state, 500, 1.0, 0.4, 0.5, first=600)
    assert serving(state)[0] == 1


def test_missing_outcomes_change_nothing() -> None:
    before = after(start(1, 2, QUICK), 100, 1.0, 0.5)
    state = after(before, 100, np.nan, np.nan, first=100)
    for mine, theirs in zip(before, state, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_with_no_errors_at_all_the_learned_model_serves() -> None:
    assert serving(after(start(1, 3, QUICK), 200, 0.0, 0.0, 0.0)) == (LEARNED, Reason.DEFAULT)


def test_an_outcome_at_one_horizon_counts_for_that_horizon() -> None:
    state, seen = start(1, 2, QUICK), errors(4.0, 2.0)
    seen[0, :, 1:] = np.nan
    state = step(state, seen, 0, QUICK)
    np.testing.assert_array_equal(state.error, [[4.0, 2.0]])


def test_each_row_chooses_by_its_own_errors() -> None:
    state, seen = start(2, 2, QUICK), np.concatenate([errors(1.0, 0.5), errors(0.5, 1.0)])
    for minute in range(100):
        state = step(state, seen, minute, QUICK)
    assert state.serving.tolist() == [1, LEARNED]


def test_old_errors_lose_their_weight() -> None:
    state = after(start(1, 2, QUICK), 5000, 1.0, 5.0)
    assert serving(after(state, 150, 1.0, 0.5, first=5000))[0] == 1


def test_a_restored_state_continues_bit_for_bit() -> None:
    draw = np.random.default_rng(0).exponential(size=(400, 3, 4, 3))
    state = start(3, 4, QUICK)
    for minute in range(200):
        state = step(state, draw[minute], minute, QUICK)
    loaded = State._make(array.copy() for array in state)
    for minute in range(200, 400):
        state = step(state, draw[minute], minute, QUICK)
        loaded = step(loaded, draw[minute], minute, QUICK)
    for mine, theirs in zip(state, loaded, strict=True):
        np.testing.assert_array_equal(mine, theirs)


_ERROR = st.one_of(st.just(float("nan")), st.sampled_from([0.0, 0.1, 1.0, 10.0]))


@tries(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(_ERROR, _ERROR, _ERROR), min_size=1, max_size=60),
    st.integers(0, 2),
    st.integers(1, 10),
)
def test_changes_keep_their_distance_and_need_enough_outcomes(
    minutes: list[tuple[float, ...]], default: int, stay: int
) -> None:
    chosen = Settings(5.0, 0.1, 0.05, least_outcomes=4, stay_min=stay, default=default)
    state, changed = start(1, 3, chosen), []
    for minute, seen in enumerate(minutes):
        before = state.serving[0]
        state = step(state, errors(*seen), minute, chosen)
        now = state.serving[0]
        assert now == default or state.outcomes[0, now] >= chosen.least_outcomes
        if now != before:
            changed.append(minute)
    assert (np.diff(changed) >= stay).all()


def test_invalid_settings_are_refused() -> None:
    for bad in (Settings(default=2), Settings(margin=0.1, hysteresis=0.2), Settings(window_min=0)):
        with pytest.raises(InputError):
            start(1, 2, bad)
    with pytest.raises(InputError, match="at least one simple one"):
        start(1, 1)
