"""Inputs of the learned forecaster."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from models.cluster.calendar import DAY_MINUTES
from models.forecaster.learned.announcements import event_table
from models.forecaster.learned.encode import encode
from models.forecaster.learned.inputs import (
    AHEAD_MIN,
    FUTURE,
    PAST,
    PAST_WINDOWS,
    STATIC,
    NetworkInputs,
    flat,
    from_log,
    to_log,
)
from models.forecaster.port import HORIZONS_MIN
from models.forecaster.series import Announced, Series
from tests.unit.models.forecaster.synthetic_series import days, series

HOUR = 60


def at_end(one: Series) -> NetworkInputs:
    return encode(one, np.array([one.rps.size - 1]))


def future(inputs: NetworkInputs, name: str) -> NDArray[np.float32]:
    column: NDArray[np.float32] = inputs.future[0, :, FUTURE.index(name)]
    return column


def test_every_served_horizon_is_a_minute_ahead() -> None:
    assert set(HORIZONS_MIN) <= set(AHEAD_MIN)


@given(scale=st.floats(1e-3, 1e6), seed=st.integers(0, 99))
@settings(max_examples=20, deadline=None)
def test_traffic_in_another_unit_has_the_same_inputs(scale: float, seed: int) -> None:
    one, other = at_end(series(days(2, seed))), at_end(series(scale * days(2, seed)))
    np.testing.assert_allclose(flat(one), flat(other), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "rps",
    [
        np.zeros(3000),
        np.full(3000, 7.0),
        np.concatenate([np.full(2990, np.nan), np.ones(10)]),
        np.concatenate([np.zeros(2990), np.full(10, 1e9)]),
    ],
    ids=["none", "constant", "just begun", "exploding"],
)
def test_inputs_are_finite_whatever_the_traffic(rps: NDArray[np.float64]) -> None:
    assert np.isfinite(flat(at_end(series(rps)))).all()


def test_a_day_without_values_has_no_scale() -> None:
    rps = np.concatenate([days(1), np.full(DAY_MINUTES + 1, np.nan)])
    assert np.isnan(at_end(series(rps)).scale).all()


def test_a_gap_is_not_encoded_as_zero_traffic() -> None:
    gap = days(2)
    gap[-3:-1] = np.nan
    inputs = at_end(series(gap))
    newest = [PAST_WINDOWS.index((age, age + 1)) for age in (1, 2)]
    assert (inputs.past[0, newest, PAST.index("seen")] == 0).all()
    assert (inputs.past[0, newest, PAST.index("level")] == 0).all()
    assert inputs.scale[0] == pytest.approx(np.nanmean(gap[-15:]))


def test_yesterdays_change_is_an_input() -> None:
    minutes = np.arange(3 * DAY_MINUTES)
    rps = np.where(minutes % DAY_MINUTES < 12 * HOUR, 100.0, 300.0)
    noon = 2 * DAY_MINUTES + 12 * HOUR - 11
    change = future(encode(series(rps), np.array([noon])), "yesterday_change")
    assert abs(change[0]) < 0.3
    assert change[AHEAD_MIN.index(30)] == pytest.approx(np.log(3), abs=0.05)


def test_precedents_give_the_change_at_earlier_events() -> None:
    rps = np.full(5 * DAY_MINUTES, 100.0)
    starts = [day * DAY_MINUTES + 10 * HOUR for day in range(1, 5)]
    for start in starts:
        rps[start : start + 60] *= 4
    calendar = tuple(Announced(start, start + 60, 1.5, "sale") for start in starts)
    inputs = encode(series(rps, *calendar), np.array([starts[-1] - 15]))
    assert future(inputs, "precedent_change")[AHEAD_MIN.index(5)] == pytest.approx(0, abs=0.01)
    assert future(inputs, "precedent_change")[AHEAD_MIN.index(30)] == pytest.approx(
        np.log(4), abs=0.05
    )
    assert future(inputs, "promised")[AHEAD_MIN.index(30)] == pytest.approx(np.log(1.5))
    assert future(inputs, "precedents")[AHEAD_MIN.index(30)] > 0.9


def test_precedents_of_the_same_kind_outweigh_other_kinds() -> None:
    rps = np.full(4 * DAY_MINUTES, 100.0)
    sale, batch, today = (day * DAY_MINUTES + 600 for day in (1, 2, 3))
    rps[sale : sale + 60] *= 4
    rps[batch : batch + 60] *= 0.5
    calendar = (
        Announced(sale, sale + 60, 1.0, "sale"),
        Announced(batch, batch + 60, 1.0, "batch"),
        Announced(today, today + 60, 1.0, "sale"),
    )
    inputs = encode(series(rps, *calendar), np.array([today - 10]))
    assert future(inputs, "precedent_change")[AHEAD_MIN.index(15)] > np.log(3.5)


def test_an_announcement_counts_from_the_minute_it_was_made() -> None:
    start = 2 * DAY_MINUTES + 600
    late = Announced(start, start + 60, 3.0, "sale", announced_from_min=start - 10)
    both = encode(series(days(4), late), np.array([start - 11, start - 10]))
    under_way = both.future[:, AHEAD_MIN.index(15), FUTURE.index("under_way")]
    assert under_way.tolist() == [0.0, 1.0]
    assert both.static[:, STATIC.index("announces")].tolist() == [0.0, 1.0]


def with_sale(comes: int, minutes: int) -> Series:
    """Constant traffic that doubles for 40 minutes at `comes`, announced for minute 2000."""
    rps = np.full(3000, 100.0)
    rps[comes : comes + 40] *= 2.0
    return series(rps[:minutes], Announced(2000, 2040, 2.0, "sale"))


def test_an_announced_change_is_expected_until_it_is_observed() -> None:
    before = future(at_end(with_sale(2000, 1986)), "promised_change")
    np.testing.assert_allclose(before, np.log([1, 1, 2, 2, 2, 2]), atol=0.02)
    under_way = future(at_end(with_sale(2000, 2005)), "promised_change")
    np.testing.assert_allclose(under_way, 0.0, atol=0.02)
    late = future(at_end(with_sale(2010, 2005)), "promised_change")
    np.testing.assert_allclose(late, np.log(2), atol=0.02)


def test_an_event_that_was_early_is_not_expected_again() -> None:
    early = future(at_end(with_sale(1980, 1995)), "promised_change")
    np.testing.assert_allclose(early, 0.0, atol=0.02)


def test_the_end_of_an_announced_event_is_expected() -> None:
    ending = future(at_end(with_sale(2000, 2036)), "promised_change")
    np.testing.assert_allclose(ending, -np.log([2, 2, 2, 2, 2, 2]), atol=0.02)


def test_an_event_counts_for_the_part_of_a_window_that_it_covers() -> None:
    events = event_table([Announced(10, 20, 3.0, "sale")]).visible_at(np.array([0]))
    first, end = np.array([[0, 5, 10, 8, 20]]), np.array([[10, 15, 20, 28, 30]])
    count, promised = events.during(first, end)
    np.testing.assert_allclose(count[0], [0.0, 0.5, 1.0, 0.5, 0.0])
    np.testing.assert_allclose(np.exp(promised[0]), [1.0, 2.0, 3.0, 2.0, 1.0])


def test_the_end_of_a_short_event_is_not_expected_again() -> None:
    rps = np.full(2060, 100.0)
    rps[2005:2025] *= 2.0
    over = at_end(series(rps, Announced(2005, 2025, 2.0, "sale")))
    np.testing.assert_allclose(future(over, "promised_change"), 0.0, atol=0.02)


def test_hourly_spikes_are_expected_at_the_same_minute() -> None:
    rps = np.full(2 * DAY_MINUTES, 10.0)
    rps[::60] = 300.0
    inputs = encode(series(rps), np.array([2 * DAY_MINUTES - 75]))
    ago, change = future(inputs, "hour_ago"), future(inputs, "hours_change")
    assert (ago > 1.0).tolist() == [minutes == 15 for minutes in AHEAD_MIN]
    assert (change > 1.0).tolist() == [minutes == 15 for minutes in AHEAD_MIN]


def test_the_half_hour_ago_input_ends_at_the_origin() -> None:
    rps = np.linspace(100.0, 2099.0, 2000)
    inputs = at_end(series(rps))
    ago = from_log(inputs, future(inputs, "half_hour_ago")[None].astype(np.float64))[0]
    np.testing.assert_allclose(ago, rps[-1] - 30 + np.array(AHEAD_MIN), rtol=1e-5)


def test_the_smooth_change_is_the_mean_of_all_earlier_days() -> None:
    hour = np.arange(9 * DAY_MINUTES) % DAY_MINUTES / 60
    rps = 100.0 * np.exp(0.2 * np.abs(hour - 12))
    rps[-DAY_MINUTES:] = 50.0  # today is not as usual
    inputs = encode(series(rps), np.array([8 * DAY_MINUTES + 18 * 60]))
    expected = 0.2 * np.array(AHEAD_MIN) / 60
    np.testing.assert_allclose(future(inputs, "smooth_change"), expected, atol=0.005)


@pytest.mark.parametrize("factor", [0.0, 1e9])
def test_an_impossible_announced_factor_gives_a_finite_input(factor: float) -> None:
    inputs = at_end(series(days(2), Announced(2900, 2940, factor, "sale")))
    assert np.isfinite(flat(inputs)).all()
    assert np.abs(future(inputs, "promised_change")).max() <= 5.0


def test_a_holiday_is_a_day_off_and_no_event() -> None:
    day = 3 * DAY_MINUTES
    holiday = Announced(day, day + DAY_MINUTES, 1.0, "holiday")
    inputs = encode(series(days(5), holiday), np.array([day - 60, day + 60]))
    assert inputs.future[:, 0, FUTURE.index("day_off")].tolist() == [0.0, 1.0]
    assert (inputs.future[:, :, FUTURE.index("under_way")] == 0).all()


def test_weekends_are_days_off() -> None:
    at = np.array([day * DAY_MINUTES + 720 for day in range(7)])
    off = encode(series(days(8)), at).future[:, 0, FUTURE.index("day_off")]
    assert off.tolist() == [0, 0, 0, 0, 0, 1, 1]


@settings(deadline=None)
@given(values=st.lists(st.floats(0, 1e9), min_size=1, max_size=5))
def test_from_log_inverts_to_log(values: list[float]) -> None:
    inputs = at_end(series(days(2)))
    there = to_log(inputs, np.array([values]))
    np.testing.assert_allclose(from_log(inputs, there)[0], values, rtol=1e-6, atol=1e-6)


def test_a_forecast_is_never_negative() -> None:
    assert (from_log(at_end(series(days(2))), np.array([[-50.0]])) == 0.0).all()
