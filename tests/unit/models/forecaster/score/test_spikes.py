import numpy as np
import pytest

from models.cluster.arrays import F64
from models.forecaster.score.spikes import (
    SpikeScore,
    doublings,
    is_announced,
    noise_floor,
    one_per_hour,
    pooled,
    score_spikes,
)
from models.forecaster.score.windows import Windows, windows
from models.forecaster.series import Announced, Series

EVENT = 1200
"""Minute at which traffic jumps from 10 to 30 for two hours."""


def jump(calendar: tuple[Announced, ...] = (), high: float = 30.0) -> Series:
    rps = np.full(1440, 10.0)
    rps[EVENT : EVENT + 120] = high
    return Series("x", 0, 1, rps, calendar)


def at_windows(series: Series) -> Windows:
    found = windows(series, 800)
    assert isinstance(found, Windows)
    return found


def quiet(series: Series, found: Windows) -> F64:
    """[B, H, Q] everything stays as it is."""
    return np.tile(series.rps[found.at][:, None, None], (1, 3, 3))


def scores(series: Series, forecast: F64) -> tuple[SpikeScore, SpikeScore]:
    median, high = score_spikes(series, "m", at_windows(series), forecast)
    assert (median.by, high.by) == ("p50", "p90")
    return median, high


def test_a_doubling_is_where_the_five_minute_mean_has_doubled() -> None:
    # 10, 14, 18, 22: the third minute of the jump brings the mean above 20.
    assert doublings(jump())[0] == EVENT + 2
    assert one_per_hour(doublings(jump())).tolist() == [EVENT + 2]


def test_a_rise_that_takes_longer_than_ten_minutes_is_no_doubling() -> None:
    slow = Series("x", 0, 1, np.geomspace(10, 1000, 1440))
    assert doublings(slow).size == 0


def test_a_doubling_below_the_median_is_noise() -> None:
    series = jump(high=30.0)
    night = series._replace(rps=np.where(np.arange(1440) < 1000, 100.0, series.rps))
    assert noise_floor(night) == 100
    assert doublings(night).size == 0


def test_zero_traffic_and_gaps_are_no_doublings() -> None:
    assert doublings(Series("x", 0, 1, np.zeros(500))).size == 0
    gap = jump(high=10.0)
    gap.rps[400:450] = np.nan
    assert doublings(gap).size == 0


def test_only_the_first_doubling_of_an_hour_counts() -> None:
    assert one_per_hour(np.array([5, 6, 64, 65, 100, 130])).tolist() == [5, 65, 130]


@pytest.mark.parametrize(
    ("entry", "announced"),
    [
        (Announced(115, 200), True),
        (Announced(85, 200), True),
        (Announced(84, 200), False),
        (Announced(116, 200), False),
        (Announced(100, 200, announced_from_min=90), True),
        (Announced(100, 200, announced_from_min=91), False),
    ],
)
def test_a_doubling_is_announced_if_a_timely_entry_starts_near_it(
    entry: Announced, announced: bool
) -> None:
    assert is_announced((entry,), np.array([100])).tolist() == [announced]


@pytest.mark.parametrize(
    ("made_before", "index", "found"),
    [(10, 1, 1), (9, 1, 0), (25, 1, 1), (26, 1, 0), (40, 2, 1), (41, 2, 0), (12, 0, 0)],
)
def test_a_doubling_is_found_by_a_timely_forecast_whose_horizon_reaches_it(
    made_before: int, index: int, found: int
) -> None:
    series = jump((Announced(EVENT, EVENT + 120),))
    forecast = quiet(series, at_windows(series))
    forecast[at_windows(series).at == EVENT + 2 - made_before, index] = 17.0
    median, _ = scores(series, forecast)
    assert (median.announced, median.announced_found, median.unannounced) == (1, found, 0)
    assert median.recall == found


def test_the_median_needs_a_smaller_factor_than_the_high_quantile() -> None:
    series = jump()
    forecast = quiet(series, at_windows(series))
    now = at_windows(series).at == EVENT - 15
    forecast[now] = [10.0, 16.9, 20.0]
    median, high = scores(series, forecast)
    assert (median.unannounced_found, high.unannounced_found) == (0, 1)
    assert (median.recall, high.unannounced_recall) == (None, 1.0)


def test_false_alarms_count_once_per_hour() -> None:
    series = jump()
    found = at_windows(series)
    forecast = quiet(series, found)
    forecast[np.isin(found.at, [900, 905, 950, 1000])] = 30.0
    median, _ = scores(series, forecast)
    assert (median.false_alarms, median.slow_rises) == (2, 0)
    days = (found.at[-1] - found.at[0] + 1) / 1440
    assert median.false_alarms_per_day == pytest.approx(2 / days)


def test_a_forecast_of_a_slow_rise_counts_as_a_slow_rise() -> None:
    rps = np.full(1440, 10.0)
    rps[1200:1240] = np.geomspace(10, 25, 40)
    rps[1240:] = 25.0
    series = Series("x", 0, 1, rps)
    found = at_windows(series)
    forecast = quiet(series, found)
    forecast[found.at == 1205, 2] = 20.0
    median, _ = scores(series, forecast)
    assert (median.false_alarms, median.slow_rises) == (1, 1)


def test_a_flat_forecast_finds_nothing_and_raises_no_alarm() -> None:
    series = jump()
    for found in scores(series, quiet(series, at_windows(series))):
        assert (found.unannounced, found.unannounced_found, found.false_alarms) == (1, 0, 0)


def test_series_are_pooled_by_adding_up_their_doublings_alarms_and_days() -> None:
    series = jump((Announced(EVENT, EVENT + 120),))
    forecast = quiet(series, at_windows(series))
    missed = scores(series, forecast)
    forecast[at_windows(series).at == EVENT - 15] = 30.0
    found = scores(series._replace(name="y"), forecast)
    median, high = pooled([*missed, *found])
    assert (median.series, median.by, high.by) == ("all series", "p50", "p90")
    assert (median.announced, median.announced_found, median.recall) == (2, 1, 0.5)
    assert median.days == 2 * missed[0].days


def test_models_are_not_pooled_with_each_other() -> None:
    series = jump()
    found = at_windows(series)
    predicted = [score_spikes(series, name, found, quiet(series, found)) for name in ("a", "b")]
    assert [each.model for each in pooled([*predicted[0], *predicted[1]])] == ["a", "a", "b", "b"]


@pytest.mark.parametrize(
    ("found", "of", "low", "high"),
    [(8, 10, 0.490, 0.943), (0, 10, 0.0, 0.278), (10, 10, 0.722, 1.0), (80, 100, 0.711, 0.867)],
)
def test_the_recall_interval_is_wider_with_fewer_doublings(
    found: int, of: int, low: float, high: float
) -> None:
    score = SpikeScore("x", "m", "p50", of, found, 0, 0, 0, 0, 1.0)
    assert score.recall_interval == pytest.approx((low, high), abs=0.001)
    assert SpikeScore("x", "m", "p50", 0, 0, 0, 0, 0, 0, 1.0).recall_interval is None
