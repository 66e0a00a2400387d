"""Paired statistics: known numbers in, known numbers out, and seeds stay together."""

import math

import numpy as np
import pytest

from models.compare.frontier import at_equal_cost, at_equal_violations
from models.statistics import mean, ratio, ratio_over_scenarios, relative_difference

WILD = np.array([1.0, 4000.0, 30.0, 900.0, 7.0, 12000.0, 250.0, 3.0, 610.0, 88.0])
"""Seeds that differ by orders of magnitude."""


def test_a_constant_factor_has_no_spread_however_wild_the_seeds_are() -> None:
    found = ratio(0.9 * WILD, WILD)
    assert [found.value, found.low, found.high] == pytest.approx([0.9, 0.9, 0.9])
    difference = relative_difference(0.9 * WILD, WILD)
    assert [difference.low, difference.high] == pytest.approx([-0.1, -0.1])


def test_figures_of_other_seeds_are_not_a_pair() -> None:
    found = ratio(0.9 * WILD[::-1], WILD)
    assert found.value == pytest.approx(0.9)
    assert found.high / found.low > 10


def test_a_ratio_is_of_sums() -> None:
    assert ratio([1, 1], [1, 3]).value == pytest.approx(0.5)


def test_the_interval_of_a_mean_covers_the_truth_about_as_often_as_it_says() -> None:
    generator = np.random.default_rng(1)
    found = [mean(generator.normal(5, 2, 30)) for _ in range(300)]
    covered = np.mean([interval.low <= 5 <= interval.high for interval in found])
    assert 0.88 <= covered <= 0.98


def test_the_same_figures_give_the_same_interval() -> None:
    assert mean(WILD) == mean(WILD)


def test_one_seed_gives_a_figure_without_an_interval() -> None:
    found = ratio([1.0], [2.0])
    assert found.value == 0.5
    assert math.isnan(found.low)
    assert math.isnan(found.high)


def test_nothing_is_said_over_a_reference_of_zero() -> None:
    assert math.isnan(ratio([1.0, 2.0], [0.0, 0.0]).value)


def test_a_reference_that_is_zero_in_most_seeds_leaves_the_ratio_open_above() -> None:
    found = ratio([1.0, 1.0, 1.0], [0.0, 0.0, 2.0])
    assert found.value == pytest.approx(1.5)
    assert math.isinf(found.high)


def test_the_frontier_is_linear_in_the_logarithm_of_violations() -> None:
    halfway = at_equal_cost([200, 100], [0, 99], 150)
    assert halfway == pytest.approx(9.0)
    assert at_equal_cost([200, 100], [0, 99], 100) == pytest.approx(99)


def test_of_targets_that_cost_the_same_the_better_one_counts() -> None:
    assert at_equal_cost([100, 100, 100], [30, 20, 40], 100) == pytest.approx(20)


def test_a_dearer_target_that_violates_more_does_not_raise_the_frontier() -> None:
    assert at_equal_cost([100, 200, 300], [30, 20, 40], 250) == pytest.approx(20)


@pytest.mark.parametrize("cost", [99.0, 201.0])
def test_nothing_is_said_beyond_the_ends_of_the_frontier(cost: float) -> None:
    assert at_equal_cost([100, 200], [99, 0], cost) is None
    assert at_equal_cost([], [], cost) is None


def test_drawing_scenarios_shows_what_one_scenario_decides() -> None:
    theirs = np.ones((6, 8))
    ours = np.full((6, 8), 0.5)
    ours[0] = 6.0
    found = ratio_over_scenarios(ours, theirs)
    assert found.value == pytest.approx((6 + 5 * 0.5) / 6)
    assert found.low == pytest.approx(0.5)
    assert found.high > 2
    seeds = ratio(ours.sum(axis=0), theirs.sum(axis=0))
    assert seeds.low == pytest.approx(seeds.high)


@pytest.mark.parametrize(
    ("level", "hours"),
    [
        (100.0, 10.0),
        (10.0, 20.0),
        # Half-way on a logarithmic scale.
        (math.sqrt(101 * 11) - 1, 15.0),
        # The dearest point violates more than the one before it, and does not count.
        (9.0, None),
        # Cheaper than every point.
        (200.0, None),
    ],
)
def test_node_hours_at_equal_violations(level: float, hours: float | None) -> None:
    found = at_equal_violations([30.0, 10.0, 20.0], [40.0, 100.0, 10.0], level)
    assert found == (None if hours is None else pytest.approx(hours))
