"""The windows that the forecaster is trained on."""

import numpy as np
import pytest

from models.forecaster.learned.inputs import FUTURE
from models.forecaster.series import Announced, Series
from models.forecaster.training import pool
from models.forecaster.training.corpus import Part

START = 3000
SALE = Announced(START, START + 30, 2.0, "sale")


def series(seed: int, *calendar: Announced) -> Series:
    rps = np.random.default_rng(seed).gamma(9.0, 10.0, 6 * 1440)
    return Series(f"s{seed}", 0, 1, rps, calendar)


def near(learned: pool.Pool) -> int:
    """Windows with an announced event within their horizon."""
    ahead = learned.future[:, :, FUTURE.index("under_way")]
    return int((ahead > 0).any(axis=1).sum())


def test_windows_near_events_are_oversampled_when_a_part_is_sampled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parts = [Part("one", [series(0, SALE)], 1.0, learned=1.0)]
    whole, _ = pool.pools(parts, 0)
    monkeypatch.setattr(pool, "MOST_WINDOWS", 200)
    some, _ = pool.pools(parts, 0)
    assert some.share.size == 200
    assert near(whole) < 0.02 * whole.share.size
    assert near(some) > 0.2 * some.share.size


def test_each_part_is_sampled_by_its_share_whatever_its_number_of_windows() -> None:
    parts = [Part("one", [series(0)], 0.3), Part("two", [series(1), series(2)], 0.7)]
    for found in pool.pools(parts, 0):
        assert np.unique(found.share).size == 2
        assert found.share.sum() == pytest.approx(1.0)


def test_no_training_window_is_close_to_a_validation_window() -> None:
    at = np.arange(6 * 1440)
    judged, learned = at[pool._is_validation(at)], at[~pool._is_close_to_validation(at)]
    assert judged.size > 300
    assert np.abs(judged[:, None] - learned).min() > 30


def test_windows_near_the_start_or_end_of_an_event_count_as_near_it() -> None:
    long = Announced(START, START + 240, 2.0, "campaign")
    minutes = START + np.array([-46, -45, 14, 15, 209, 210, 254, 255])
    assert pool._is_near(series(0, long), minutes).tolist() == [
        False, True, True, False, False, True, True, False,
    ]  # fmt: skip


def test_a_series_that_is_shorter_than_a_window_is_skipped() -> None:
    short = Series("short", 0, 1, np.ones(20), ())
    alone, _ = pool.pools([Part("one", [series(0)], 1.0)], 0)
    both, _ = pool.pools([Part("one", [short, series(0)], 1.0)], 0)
    assert both.share.size == alone.share.size > 0
    beside, _ = pool.pools([Part("one", [short], 0.5), Part("two", [series(0)], 0.5)], 0)
    assert beside.share.size == alone.share.size
