"""What is announced, forecast or reported beyond the bounds is not believed."""

from math import inf, nan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.control.plausible import (
    CORES,
    Held,
    Span,
    factor_problem,
    forecast_problem,
    highest_seen,
    sums_problem,
)

# No deadline: a busy machine is not a defect.
PROPERTY = settings(max_examples=60, deadline=None)
LARGEST = 20.0
factors = st.floats(0, 1e12)


@pytest.mark.parametrize("factor", [0.0, 1.0, 5.0, 20.0])
def test_an_ordinary_factor_is_believed(factor: float) -> None:
    assert factor_problem(Span(0, 1, factor), [], LARGEST) == ""


@pytest.mark.parametrize("factor", [20.1, 1e9, inf, nan])
def test_a_factor_beyond_the_bound_is_not(factor: float) -> None:
    assert "at most 20" in factor_problem(Span(0, 1, factor), [], LARGEST)


def test_many_small_factors_at_once_are_bounded_like_a_large_one() -> None:
    fives = [Span(0, 10, 5.0), Span(5, 15, 5.0)]
    assert "125 with overlapping" in factor_problem(Span(6, 9, 5.0), fives, LARGEST)
    assert factor_problem(Span(15, 20, 5.0), fives, LARGEST) == ""


def test_an_event_that_lowers_traffic_makes_no_room_for_a_large_factor() -> None:
    assert factor_problem(Span(0, 1, 30.0), [Span(0, 1, 0.1)], LARGEST)


@PROPERTY
@given(accepted=st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100), factors), max_size=8))
def test_accepted_events_never_multiply_beyond_the_bound(
    accepted: list[tuple[float, float, float]],
) -> None:
    kept: list[Span] = []
    for start, length, factor in accepted:
        new = Span(start, start + length, factor)
        if not factor_problem(new, kept, LARGEST):
            kept.append(new)
    for moment in (one.start for one in kept):
        product = 1.0
        for one in kept:
            product *= max(1.0, one.factor) if one.start <= moment < one.end else 1.0
        assert product <= LARGEST


def test_a_forecast_is_bounded_by_the_highest_traffic_seen() -> None:
    assert forecast_problem([[1.0, 2000.0]], [2000.0], 100.0, LARGEST) == ""
    assert "more than 20 times" in forecast_problem([[1.0, 2001.0]], [2001.0], 100.0, LARGEST)


@pytest.mark.parametrize("broken", [nan, inf, -1.0])
def test_a_forecast_without_usable_numbers_is_not_believed_whatever_was_seen(
    broken: float,
) -> None:
    for rps, peaks in (([[1.0, broken]], [1.0]), ([[1.0, 2.0]], [broken])):
        for highest in (0.0, 100.0):
            problem = forecast_problem(rps, peaks, highest, LARGEST)
            assert problem == "a forecast without usable numbers"


def test_without_any_traffic_seen_a_forecast_has_no_bound() -> None:
    assert forecast_problem([[1e9]], [1e9], 0.0, LARGEST) == ""


@PROPERTY
@given(before=st.floats(0, 1e12), now=st.floats() | st.floats(0, 1e12))
def test_one_report_raises_the_highest_traffic_by_the_factor_at_most(
    before: float, now: float
) -> None:
    after = highest_seen(before, now, LARGEST)
    assert after >= before
    assert before == 0 or after <= before * LARGEST


def test_sums_are_bounded_by_what_a_domain_holds_and_held_before() -> None:
    ordinary = [100.0] * len(CORES)
    now, last = Held(100.0, 400.0), Held(90.0, 360.0)
    assert sums_problem(ordinary, now, last, LARGEST) == ""
    assert sums_problem(ordinary, now, None, LARGEST) == ""
    assert "wanted" in sums_problem([0, 0, 0, 1e9, 0, 0], now, last, LARGEST)
    assert "cores held" in sums_problem(ordinary, Held(1e9, 400.0), last, LARGEST)
    assert "memory held" in sums_problem(ordinary, Held(100.0, 1e5), last, LARGEST)


@pytest.mark.parametrize("held", [Held(1e308, 400.0), Held(100.0, 1e308), Held(0.0, 1e308)])
def test_sums_that_would_overflow_are_not_believed_even_at_first(held: Held) -> None:
    assert "cores or GiB" in sums_problem([0.0] * len(CORES), held, None, LARGEST)
    assert "cores or GiB" in sums_problem([1e308] * len(CORES), Held(0.0, 0.0), None, LARGEST)


def test_ordinary_sums_of_the_largest_clusters_are_believed() -> None:
    assert sums_problem([1e7] * len(CORES), Held(1e7, 1e8), None, LARGEST) == ""


def test_a_domain_without_pods_may_want_any_number_of_cores() -> None:
    assert sums_problem([500.0] * len(CORES), Held(0.0, 0.0), Held(0.0, 0.0), LARGEST) == ""
