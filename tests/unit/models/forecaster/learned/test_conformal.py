"""Intervals cover 80 %, through jumps, unrest, gaps, constants and zeros."""

from typing import Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.cluster.arrays import F64
from models.forecaster.learned.conformal import Settings, replay, step
from models.forecaster.learned.scores import Pace, State, start
from models.forecaster.port import HIGH, HORIZONS_MIN, LOW, MEDIAN
from models.inputs.errors import InputError
from tests.unit.models.forecaster.interval_coverage import coverage, covered

MINUTES: Final = 6000
CHANGE: Final = 3600
_RATIOS: Final = np.array([0.8, 1.0, 1.25])


def series(seed: int, jump: float = 1.0, unrest: float = 1.0) -> F64:
    """A day's course with slow swings and heavy tails; level or volatility change at CHANGE."""
    draw, minute = np.random.default_rng(seed), np.arange(MINUTES)
    factor = np.where(minute >= CHANGE, unrest, 1.0)
    swing, steps = np.zeros(MINUTES), draw.standard_normal(MINUTES) * 0.02 * factor
    for t in range(1, MINUTES):
        swing[t] = 0.98 * swing[t - 1] + steps[t]
    noise = draw.standard_t(3, MINUTES) * 0.08 * factor
    level = np.where(minute >= CHANGE, jump, 1.0) * (1.0 + 0.5 * np.sin(2 * np.pi * minute / 1440))
    return 200.0 * level * np.exp(swing + noise)


def forecast_of(actual: F64, ratios: F64 = _RATIOS) -> F64:
    """The mean of the last 15 known minutes, with fixed quantiles around it."""
    padded = np.concatenate([np.full(14, np.nan), actual])
    windows = np.lib.stride_tricks.sliding_window_view(padded, 15)
    count = (~np.isnan(windows)).sum(axis=1)
    mean = np.nan_to_num(windows).sum(axis=1) / np.maximum(count, 1)
    predicted: F64 = np.repeat((mean[:, None] * ratios)[:, None], len(HORIZONS_MIN), axis=1)
    return predicted


def after_change(inside: F64, first: int, last: int) -> F64:
    """[H] coverage of the forecasts made `first` to `last` minutes after the change."""
    spans = [
        inside[CHANGE + first + h : CHANGE + last + h, at] for at, h in enumerate(HORIZONS_MIN)
    ]
    return np.array([np.nanmean(span) for span in spans])


@pytest.mark.parametrize("ratios", [(0.5, 1.0, 2.0), (0.95, 1.0, 1.05), (0.9, 1.1, 1.2)])
def test_calibrated_intervals_cover_80_percent_whatever_the_raw_width(
    ratios: tuple[float, ...],
) -> None:
    shares = []
    for seed in range(5):
        actual = series(seed)
        predicted = replay(forecast_of(actual, np.array(ratios)), actual).values
        shares.append(coverage(predicted, actual, 1440).share)
    assert np.abs(np.mean(shares, axis=0) - 0.8).max() < 0.02
    assert np.abs(np.array(shares) - 0.8).max() < 0.05


@pytest.mark.parametrize(("jump", "unrest"), [(3.0, 1.0), (1 / 3, 1.0), (1.0, 4.0), (1.0, 0.25)])
def test_coverage_drops_little_after_a_regime_change_and_recovers_in_four_hours(
    jump: float, unrest: float
) -> None:
    first, later = [], []
    for seed in range(12):
        actual = series(seed, jump, unrest)
        inside = covered(replay(forecast_of(actual), actual).values, actual)
        first.append(after_change(inside, 0, 60))
        later.append(after_change(inside, 240, 480))
    assert np.mean(first) >= 0.65
    assert np.mean(first, axis=0).min() >= 0.65
    assert np.abs(np.mean(later) - 0.8) < 0.05


def widest_after_a_jump(settings: Settings) -> float:
    """Widest five-minute interval of the hour after calm traffic doubled, over the usual one."""
    noise = np.random.default_rng(0).normal(0.0, 0.02, MINUTES)
    actual = 200.0 * np.where(np.arange(MINUTES) >= CHANGE, 2.0, 1.0) * np.exp(noise)
    predicted = np.repeat((actual[:, None] * [0.97, 1.0, 1.03])[:, None], len(HORIZONS_MIN), axis=1)
    found = replay(predicted, actual, settings=settings).values[:, 0]
    widths = (found[:, HIGH] - found[:, LOW]) / found[:, MEDIAN]
    return float(widths[CHANGE : CHANGE + 60].max() / np.median(widths[CHANGE - 600 : CHANGE]))


def test_a_single_jump_widens_intervals_less_than_fivefold() -> None:
    assert widest_after_a_jump(Settings()) < 5.0
    assert widest_after_a_jump(Settings(pace=Pace(most_wrong=1e9))) > 8.0


def test_uncalibrated_intervals_lose_coverage_when_traffic_becomes_volatile() -> None:
    actual = series(0, unrest=4.0)
    inside = covered(forecast_of(actual), actual)
    assert np.mean(after_change(inside, 0, 60)) < 0.5


def test_the_peak_covers_90_percent() -> None:
    actual = series(1)
    predicted = forecast_of(actual)
    found = replay(predicted, actual)
    assert (found.peak >= found.values[..., HIGH]).all()
    for at, horizon in enumerate(HORIZONS_MIN):
        highest = np.lib.stride_tricks.sliding_window_view(actual[1:], horizon).max(axis=1)
        held = highest <= found.peak[: highest.size, at]
        assert abs(held[1440:].mean() - 0.9) < 0.03
        assert abs((highest <= predicted[: highest.size, at, HIGH])[1440:].mean() - 0.9) > 0.04


def test_missing_minutes_do_not_change_the_calibration() -> None:
    actual, state = series(2), start(1)
    predicted = forecast_of(actual)
    for t in range(200):
        _, state = step(
            state, predicted[t : t + 1], predicted[t : t + 1, :, HIGH], actual[t : t + 1], t
        )
    before = _copy(state)
    for t in range(200, 400):
        gap = np.full(1, (np.nan, -5.0, np.inf)[t % 3])
        _, state = step(state, predicted[t : t + 1], predicted[t : t + 1, :, HIGH], gap, t)
    waiting = {"made", "actual", "median", "shift", "half", "scale"}
    for name in set(State._fields) - waiting:
        np.testing.assert_array_equal(getattr(before, name), getattr(state, name))


def test_coverage_stays_at_80_percent_despite_gaps() -> None:
    actual = series(3)
    draw = np.random.default_rng(0)
    actual[draw.random(MINUTES) < 0.1] = np.nan
    actual[2000:2400] = np.nan
    shares = coverage(replay(forecast_of(actual), actual).values, actual, 1440).share
    assert np.abs(shares - 0.8).max() < 0.05


def test_skipped_minutes_are_not_scored() -> None:
    predicted, state = np.full((1, 3, 3), 100.0), start(1)
    for minute in (0, 1, 2, 100, 101, 102):
        _, state = step(state, predicted, predicted[..., HIGH], np.full(1, 500.0), minute)
    assert state.outcomes.sum() == 0


def test_a_repeated_minute_changes_nothing() -> None:
    actual, state = series(4), start(1)
    predicted = forecast_of(actual)
    for t in range(300):
        first, state = step(
            state, predicted[t : t + 1], predicted[t : t + 1, :, HIGH], actual[t : t + 1], t
        )
    before = _copy(state)
    again, state = step(
        state, predicted[299:300], predicted[299:300, :, HIGH], actual[299:300], 299
    )
    _same(before, state)
    np.testing.assert_array_equal(first.values, again.values)


@pytest.mark.parametrize("level", [0.0, 250.0, 1 / 3])
def test_constant_traffic_is_covered_and_intervals_widen_after_it(
    level: float,
) -> None:
    actual = np.full(MINUTES, level)
    predicted = np.repeat(np.repeat(actual[:, None, None], 3, axis=1), 3, axis=2)
    calm = replay(predicted, actual)
    np.testing.assert_array_equal(calm.values[100:, :, MEDIAN], level)
    assert coverage(calm.values, actual).share.min() == 1.0
    assert coverage(calm.values, actual, 1000).most_width[0] < 0.001 or level == 0.0
    actual[CHANGE:] = 300.0 * np.exp(
        np.random.default_rng(0).standard_normal(MINUTES - CHANGE) * 0.1
    )
    inside = covered(replay(forecast_of(actual), actual).values, actual)
    assert np.mean(after_change(inside, 30, 240)) > 0.65


def test_the_width_is_limited_and_limited_rows_are_marked() -> None:
    actual = series(5, unrest=4.0)
    limited = replay(forecast_of(actual), actual, settings=Settings(most_factor=1.5))
    free = replay(forecast_of(actual), actual, settings=Settings(most_factor=1e15))
    usual = np.maximum(limited.values[..., MEDIAN], actual.max())
    assert (limited.peak <= 1.5 * usual).all()
    busy = limited.values[..., MEDIAN] > 2.0 * actual.mean()
    assert (limited.peak[busy] <= 1.5001 * limited.values[busy, MEDIAN]).all()
    assert limited.bound[CHANGE + 60 :].mean() > 0.2
    np.testing.assert_array_equal(limited.values[~limited.bound], free.values[~limited.bound])
    assert not free.bound.any()


def test_a_restored_state_continues_bit_for_bit() -> None:
    actual = np.stack([series(6), series(7)], axis=1)
    predicted = np.stack([forecast_of(actual[:, row]) for row in range(2)], axis=1)
    state = start(2)
    for t in range(2500):
        _, state = step(state, predicted[t], predicted[t, :, :, HIGH], actual[t], t)
    loaded = _copy(state)
    for t in range(2500, 2600):
        first, state = step(state, predicted[t], predicted[t, :, :, HIGH], actual[t], t)
        second, loaded = step(loaded, predicted[t], predicted[t, :, :, HIGH], actual[t], t)
        np.testing.assert_array_equal(first.values, second.values)
    _same(state, loaded)


def test_a_row_does_not_depend_on_other_rows_and_a_replay_equals_its_steps() -> None:
    actual = np.stack([series(8), series(9, jump=3.0)], axis=1)[: CHANGE + 100]
    predicted = np.stack([forecast_of(actual[:, row]) for row in range(2)], axis=1)
    alone, state = replay(predicted[:, 1], actual[:, 1], 77), start(2)
    for t in range(actual.shape[0]):
        both, state = step(state, predicted[t], predicted[t, :, :, HIGH], actual[t], 77 + t)
    np.testing.assert_array_equal(both.values[1], alone.values[-1])


def test_a_negative_or_not_finite_forecast_is_refused() -> None:
    predicted = np.full((1, 3, 3), 10.0)
    for value in (np.nan, np.inf, -1.0):
        predicted[0, 1, 1] = value
        with pytest.raises(InputError, match="serve another model"):
            step(start(1), predicted, np.ones((1, 3)), np.ones(1), 0)


def test_coverage_counts_at_the_minute_that_a_forecast_is_about() -> None:
    actual = np.full(240, 10.0)
    predicted = np.tile(np.array([9.0, 10.0, 11.0]), (240, 3, 1))
    actual[120:150], actual[200] = 20.0, np.nan
    predicted[50, 1] = [0.0, 10.0, 40.0]
    inside = covered(predicted, actual)
    for at, horizon in enumerate(HORIZONS_MIN):
        assert np.isnan(inside[:horizon, at]).all()
        assert inside[119, at] == 1.0
        assert not inside[120:150, at].any()
    found = coverage(predicted, actual, 60)
    np.testing.assert_allclose(found.share, 149 / 179)
    np.testing.assert_allclose(found.worst_hour, 0.5)
    np.testing.assert_allclose(found.most_width * np.nanmean(actual[60:]), [2.0, 40.0, 2.0])
    assert np.isnan(coverage(predicted, np.full(240, np.nan)).share).all()


_RATE = st.one_of(st.just(0.0), st.floats(1e-9, 1e9))
_ACTUAL = st.one_of(st.just(float("nan")), _RATE)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(_ACTUAL, _RATE, _RATE, _RATE, _RATE), min_size=1, max_size=80))
def test_quantiles_are_ordered_finite_and_never_negative(
    minutes: list[tuple[float, ...]],
) -> None:
    state = start(1)
    for minute, (actual, low, median, high, peak) in enumerate(minutes):
        predicted = np.tile(np.array([low, median, high]), (1, 3, 1))
        pace = Settings(least_scores=1)
        found, state = step(
            state, predicted, np.full((1, 3), peak), np.array([actual]), minute, pace
        )
        values = found.values
        assert np.isfinite(values).all()
        assert (values[..., LOW] >= 0.0).all()
        assert (np.diff(values, axis=-1) >= 0.0).all()
        assert (found.peak >= values[..., HIGH]).all()


def _copy(state: State) -> State:
    return State._make(array.copy() for array in state)


def _same(one: State, other: State) -> None:
    for mine, theirs in zip(one, other, strict=True):
        np.testing.assert_array_equal(mine, theirs)
