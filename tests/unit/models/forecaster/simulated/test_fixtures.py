"""Synthetic traffic around events of which only the hour is announced."""

import numpy as np

from models.cluster.arrays import F64
from models.cluster.calendar import DAY_MINUTES
from models.forecaster.simulated.fixtures import DAYS, fixtures
from models.forecaster.simulated.months import FIRST_SEED

MANY = fixtures(range(FIRST_SEED, FIRST_SEED + 12))


def unrest(rps: F64, starts: list[int]) -> float:
    """Mean change within half an hour of some minutes, as a logarithm."""
    before = np.array([rps[start - 15 : start].mean() for start in starts])
    after = np.array([rps[start + 15 : start + 30].mean() for start in starts])
    return float(np.abs(np.log((after + 1.0) / (before + 1.0))).mean())


def test_a_seed_gives_one_series_and_all_seeds_differ() -> None:
    again = fixtures(range(FIRST_SEED + 3, FIRST_SEED + 4))[0]
    np.testing.assert_array_equal(again.rps, MANY[3].rps)
    assert again.calendar == MANY[3].calendar
    assert len({series.rps.sum() for series in MANY}) == len(MANY)


def test_traffic_is_a_count_for_every_minute() -> None:
    for series in MANY:
        assert series.rps.size == DAYS * DAY_MINUTES
        assert np.isfinite(series.rps).all()
        assert (series.rps >= 0).all()


def test_the_calendar_has_start_times_and_no_factors() -> None:
    for series in MANY:
        starts = [entry.start_min for entry in series.calendar]
        assert starts == sorted(set(starts))
        assert {entry.factor for entry in series.calendar} == {1.0}
        assert starts[-1] < series.rps.size


def test_traffic_changes_around_announced_starts() -> None:
    around, elsewhere = [], []
    for series in MANY:
        starts = [entry.start_min for entry in series.calendar if entry.start_min > DAY_MINUTES]
        around.append(unrest(series.rps, starts))
        # The same hours before there were events: the course of the day alone.
        first = starts[0] // DAY_MINUTES * DAY_MINUTES
        hours = [start % DAY_MINUTES + first - DAY_MINUTES for start in starts]
        elsewhere.append(unrest(series.rps, hours))
    assert np.mean(around) > 1.5 * np.mean(elsewhere)
