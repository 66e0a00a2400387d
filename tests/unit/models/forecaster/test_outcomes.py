"""Forecasts that wait for their outcome, and running means."""

import numpy as np
import pytest

from models.forecaster.outcomes import add_to_means, forecasts_about

HORIZONS = np.array([1, 3])


def test_each_horizon_finds_the_forecast_that_was_made_for_the_minute() -> None:
    made, pending = np.array([8, 5, 6, 7]), np.zeros((2, 4, 2))
    pending[:, 3] = 7.1, 7.3
    pending[:, 1] = 5.1, 5.3
    assert forecasts_about(made, pending, 8, HORIZONS).tolist() == [[7.1, 5.3]] * 2


def test_a_minute_that_was_skipped_has_no_forecast() -> None:
    made = np.array([4, 5, 6, 3])
    found = forecasts_about(made, np.ones((1, 4, 2)), 8, HORIZONS)
    np.testing.assert_array_equal(found, [[np.nan, 1.0]])


def test_a_mean_is_plain_until_its_window_is_full_and_skips_the_unknown() -> None:
    means, counts = np.zeros(1), np.zeros(1, np.int64)
    for value in (1.0, 2.0, np.nan, 3.0):
        known = np.isfinite([value])
        means, counts = add_to_means(means, counts, np.array([value]), known, 2.0)
    assert counts.tolist() == [3]
    assert means[0] == pytest.approx((1.0 + 2.0) / 2 / 2 + 3.0 / 2)
