import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.forecaster.port import HORIZONS_MIN
from models.forecaster.score.windows import Skipped, Windows, sample, windows
from models.forecaster.series import Series


def series_of(minutes: int, step: int = 1) -> Series:
    return Series("x", 0, step, np.repeat(np.arange(1.0, minutes // step + 1), step))


def made(series: Series, test_from: int | None = None) -> Windows:
    found = windows(series, test_from)
    assert isinstance(found, Windows)
    return found


def test_the_last_fifth_is_scored_against_later_minutes() -> None:
    series = series_of(1000)
    found = made(series)
    assert found.test_from == found.at[0] == 800
    np.testing.assert_array_equal(found.target[0], series.rps[[805, 815, 830]])
    assert found.at[-1] == 999 - 5
    assert np.isnan(found.target[-1, 1:]).all()


def test_origins_are_at_step_ends_and_horizons_below_a_step_are_not_scored() -> None:
    series = series_of(5000, step=10)
    found = made(series)
    assert ((found.at + 1) % 10 == 0).all()
    assert np.isnan(found.target[:, 0]).all()
    np.testing.assert_array_equal(found.target[0, 1:], series.rps[found.at[0] + [15, 30]])


def test_nothing_is_scored_at_or_against_missing_minutes() -> None:
    series = series_of(1000)
    series.rps[900:910] = np.nan
    found = made(series)
    assert not np.isin(np.arange(900, 910), found.at).any()
    assert np.isnan(found.target[found.at == 895, 0]).all()
    assert np.isfinite(found.target[found.at == 895, 1]).all()


def test_a_long_series_has_a_day_of_history_before_the_first_origin() -> None:
    assert made(series_of(4 * 1440), test_from=200).at[0] == 1440
    assert made(series_of(1440), test_from=200).at[0] == 200


@pytest.mark.parametrize(
    ("series", "test_from", "reason"),
    [
        (series_of(200), None, "160 minutes before the test"),
        (series_of(1000), -5, "0 minutes before the test"),
        (series_of(6000, step=60), None, "longer than every horizon"),
        (series_of(1000), 999, "no values"),
        (Series("x", 0, 1, np.full(1000, np.nan)), None, "no values"),
        (series_of(1000), 5000, "no values"),
    ],
)
def test_a_series_that_cannot_be_scored_says_why(
    series: Series, test_from: int | None, reason: str
) -> None:
    found = windows(series, test_from)
    assert isinstance(found, Skipped)
    assert reason in found.reason


@given(st.integers(1, 30), st.integers(300, 4000), st.data())
def test_every_target_is_the_value_at_its_horizon(
    step: int, minutes: int, data: st.DataObject
) -> None:
    series = series_of(minutes - minutes % step, step)
    holes = data.draw(st.lists(st.integers(0, series.rps.size - 1), max_size=20))
    series.rps[holes] = np.nan
    found = windows(series, data.draw(st.integers(180, 3000)))
    if isinstance(found, Windows):
        assert (np.diff(found.at) > 0).all()
        assert not np.isnan(series.rps[found.at]).any()
        rows, columns = np.nonzero(~np.isnan(found.target))
        minute = found.at[rows] + np.array(HORIZONS_MIN)[columns]
        np.testing.assert_array_equal(found.target[rows, columns], series.rps[minute])
        assert (found.at >= found.test_from).all()


@given(st.integers(1, 500), st.integers(1, 300))
def test_a_sample_is_evenly_spaced_and_has_no_origin_twice(origins: int, most: int) -> None:
    indices = sample(np.arange(origins), most)
    assert indices.size == min(origins, most)
    gaps = np.diff(indices)
    if gaps.size:
        assert gaps.min() >= 1
        assert gaps.max() - gaps.min() <= 1
