"""The learned model serves where it is usable, else the calendar does, with a reason."""

from typing import Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as tries
from hypothesis import strategies as st

from models.cluster.arrays import F32
from models.forecaster.calendar import Calendar
from models.forecaster.learned import choice
from models.forecaster.learned.corrector import ERRORS, Corrector
from models.forecaster.learned.forecaster import WARM_MIN
from models.forecaster.learned.memory import DEFAULTS, Settings
from models.forecaster.learned.serving import FAILED, NO_NUMBER, SHORT, UNSEEN
from models.forecaster.port import HIGH, LOW, MEDIAN, Forecast, Serving
from tests.unit.models.forecaster.fake_network import (
    HIDDEN,
    TICK_S,
    FakeNetwork,
    begin,
    constant,
    level,
    level_history,
    play,
    served_by,
)
from tests.unit.models.forecaster.observations import USUAL, level_past, observed

QUICK: Final = Settings(
    choosing=choice.Settings(
        window_min=10.0, margin=0.1, hysteresis=0.05, least_outcomes=10, stay_min=15
    )
)


def serving_of(forecast: Forecast) -> Serving:
    assert forecast.serving is not None
    return forecast.serving


def reasons(forecast: Forecast) -> list[str]:
    return list(serving_of(forecast).reason.ravel().tolist())


def calendar_forecast(traffic: F32) -> Forecast:
    calendar = Calendar(level_past(*traffic.shape[1:]), (), TICK_S)
    state = calendar.start(observed(0, traffic[0]))
    for minute, rps in enumerate(traffic, 1):
        forecast, state = calendar.step(observed(minute, rps), state)
    return forecast


def test_the_network_is_queried_once_per_minute_for_all_rows() -> None:
    network = FakeNetwork()
    forecaster = served_by(network, level_history(3, 2))
    state = begin(forecaster, (3, 2))
    network.rows.clear()
    play(forecaster, state, level(4, shape=(3, 2)))
    assert network.rows == [6] * 4


def test_between_minutes_the_network_is_not_queried_and_the_forecast_stays() -> None:
    network = FakeNetwork()
    forecaster = served_by(network)
    first, state = forecaster.step(observed(1, constant(USUAL)), begin(forecaster))
    network.rows.clear()
    again, _ = forecaster.step(observed(1, constant(USUAL)), state)
    assert again is first
    assert network.rows == []


def test_the_forecast_names_the_serving_model_and_version() -> None:
    forecaster = served_by(FakeNetwork())
    predicted, _ = play(forecaster, begin(forecaster), level(1))
    assert predicted[0].model == "tft/fake"
    assert serving_of(predicted[0]).model.tolist() == [["tft/fake", "tft/fake"]]
    assert serving_of(predicted[0]).trained_until == "2026-01-01T00:00:00Z"
    assert reasons(predicted[0]) == ["", ""]


def test_the_first_forecast_is_calibrated_by_the_record() -> None:
    noise = np.random.default_rng(0).uniform(0.98, 1.02, (1, 2, 1000)).astype(np.float32)
    forecaster = served_by(FakeNetwork(width=0.8), USUAL * noise)
    predicted, _ = play(forecaster, begin(forecaster), level(1))
    assert (serving_of(predicted[0]).width < 0.2).all(), (
        "the network's own interval is far too wide"
    )
    assert (serving_of(predicted[0]).coverage > 0.7).all()


def test_a_short_record_is_replayed_as_far_back_as_it_reaches() -> None:
    network = FakeNetwork()
    begin(served_by(network, level_history(minutes=200)))
    begin(served_by(network, level_history(minutes=5000)))
    assert network.rows == [2 * 20, 2 * WARM_MIN]


def test_with_a_short_history_the_calendar_serves_with_a_reason() -> None:
    forecaster = served_by(FakeNetwork(), level_history(minutes=170))
    traffic = level(9, 140.0)
    predicted, state = play(forecaster, begin(forecaster), traffic)
    assert reasons(predicted[-1]) == [SHORT, SHORT]
    assert serving_of(predicted[-1]).model.tolist() == [["calendar", "calendar"]]
    expected = calendar_forecast(traffic)
    np.testing.assert_array_equal(predicted[-1].domain, expected.domain)
    np.testing.assert_array_equal(predicted[-1].domain_peak, expected.domain_peak)
    later, _ = play(forecaster, state, level(1, 140.0), first=10)
    assert reasons(later[0]) == ["", ""], "three hours are enough"


def test_the_calendar_serves_a_row_without_values_for_a_day() -> None:
    history = level_history(minutes=3000)
    history[0, 1, -1500:] = np.nan
    forecaster = served_by(FakeNetwork(), history)
    traffic = level(1)
    traffic[:, :, 1] = np.nan
    predicted, _ = play(forecaster, begin(forecaster), traffic)
    assert reasons(predicted[0]) == ["", UNSEEN]
    assert np.isfinite(predicted[0].domain).all()


def test_after_a_failed_query_the_calendar_serves_and_the_network_is_retried() -> None:
    network = FakeNetwork()
    forecaster = served_by(network)
    _, state = play(forecaster, begin(forecaster), level(2))
    network.fails = True
    broken, state = play(forecaster, state, level(2), first=3)
    network.fails = False
    well, _ = play(forecaster, state, level(1), first=5)
    assert reasons(broken[-1]) == [FAILED, FAILED]
    np.testing.assert_array_equal(broken[-1].domain, calendar_forecast(level(4)).domain)
    assert reasons(well[0]) == ["", ""]


def test_with_a_network_that_fails_at_the_start_the_calendar_serves_and_the_cause_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    network = FakeNetwork()
    network.fails = True
    forecaster = served_by(network)
    predicted, _ = play(forecaster, begin(forecaster), level(1))
    assert reasons(predicted[0]) == [FAILED, FAILED]
    assert "the network failed" in caplog.text


def test_a_nan_forecast_is_replaced_in_its_row_only() -> None:
    network = FakeNetwork()
    forecaster = served_by(network)
    _, state = play(forecaster, begin(forecaster), level(2))
    network.broken_rows = (1,)
    predicted, _ = play(forecaster, state, level(1), first=3)
    assert reasons(predicted[0]) == ["", NO_NUMBER]
    assert np.isfinite(predicted[0].domain).all()


def test_the_calendar_replaces_a_bad_model_until_it_recovers() -> None:
    network = FakeNetwork(factor=1.5)
    forecaster = served_by(network, level_history(minutes=181), settings=QUICK)
    traffic = USUAL * np.random.default_rng(0).uniform(0.95, 1.05, (110, 1, 2)).astype(np.float32)
    bad, state = play(forecaster, begin(forecaster), traffic[:25])
    network.factor = 1.0
    mending, state = play(forecaster, state, traffic[25:30], first=26)
    well, _ = play(forecaster, state, traffic[30:], first=31)
    assert reasons(bad[5]) == ["", ""], "too few outcomes to judge by"
    assert reasons(bad[-1]) == ["simple-better"] * 2
    assert (serving_of(bad[-1]).skill < 0).all()
    np.testing.assert_array_equal(bad[-1].domain, calendar_forecast(traffic[:25]).domain)
    assert reasons(mending[-1]) == ["simple-better"] * 2, "old errors are not forgotten at once"
    assert reasons(well[-1]) == ["", ""]
    served = [reasons(forecast)[0] == "" for forecast in [*bad, *mending, *well]]
    assert np.count_nonzero(np.diff(served)) == 2, "away once and back once"


def test_minutes_without_a_sample_of_a_domain_are_nan_in_the_record() -> None:
    forecaster = served_by(FakeNetwork())
    traffic = level(3)
    traffic[1:, :, 1] = np.nan
    predicted, state = play(forecaster, begin(forecaster), traffic)
    assert np.isnan(state.record.rps[1, -2:]).all()
    assert np.isfinite(state.record.rps[0, -2:]).all()
    assert np.isfinite(predicted[-1].domain).all()


def test_skipped_minutes_leave_a_gap() -> None:
    forecaster = served_by(FakeNetwork())
    _, state = play(forecaster, begin(forecaster), level(2))
    _, state = play(forecaster, state, level(1), first=6)
    assert state.record.newest == 6
    assert np.isnan(state.record.rps[0, -5:]).tolist() == [False, True, True, True, False]


@pytest.mark.parametrize("rps", [0.0, 100.0, 1e9])
def test_constant_traffic_is_forecast_as_constant(rps: float) -> None:
    history = np.full((1, 2, 2000), rps, np.float32)
    forecaster = served_by(FakeNetwork(), history)
    predicted, _ = play(forecaster, begin(forecaster), level(10, rps))
    assert reasons(predicted[-1]) == ["", ""]
    np.testing.assert_allclose(predicted[-1].domain[..., MEDIAN], rps, rtol=1e-6)


@given(
    traffic=st.lists(
        st.one_of(st.just(np.nan), st.just(0.0), st.floats(0, 1e9, width=32)),
        min_size=2,
        max_size=30,
    ),
    recorded=st.sampled_from([0, 160, 220]),
)
@tries(max_examples=10, deadline=None)
def test_forecasts_are_finite_and_ordered_for_any_traffic(
    traffic: list[float], recorded: int
) -> None:
    forecaster = served_by(FakeNetwork(), level_history(minutes=max(recorded, 1)))
    both = np.array([traffic, traffic[::-1]], np.float32).T[:, None, :]
    for predicted in play(forecaster, begin(forecaster), both)[0]:
        assert np.isfinite(predicted.domain).all()
        assert (predicted.domain >= 0).all()
        assert (np.diff(predicted.domain, axis=-1) >= 0).all()
        assert (predicted.domain_peak >= predicted.domain[..., HIGH]).all()
        assert (np.diff(predicted.domain_peak, axis=-1) >= 0).all()


def test_serving_does_not_depend_on_the_other_environments() -> None:
    draw = np.random.default_rng(1)
    traffic = draw.uniform(50, 150, (8, 3, 2)).astype(np.float32)
    history = draw.uniform(50, 150, (3, 2, 230)).astype(np.float32)
    together = served_by(FakeNetwork(), history)
    predicted, _ = play(together, begin(together, (3, 2)), traffic)
    alone = served_by(FakeNetwork(), history[2:])
    single, _ = play(alone, begin(alone), traffic[:, 2:])
    np.testing.assert_array_equal(predicted[-1].domain[2:], single[-1].domain)


def corrector(log: float, *, helps: bool = True) -> Corrector:
    """Always the same correction."""
    features = HIDDEN + 2 * ERRORS
    weights = np.zeros((3, features + 1))
    weights[:, -1] = log
    rmse = np.array([1.0, 0.8 if helps else 1.2])
    nothing, one = np.zeros((3, features)), np.ones((3, features))
    return Corrector(nothing, one, weights, 0.15, "fake", 0, 1, rmse)


def first_with(by: Corrector, settings: Settings = DEFAULTS) -> Forecast:
    forecaster = served_by(FakeNetwork(), settings=settings, corrector=by)
    return play(forecaster, begin(forecaster), level(1))[0][0]


def test_a_correction_shifts_the_median_and_is_reported() -> None:
    predicted = first_with(corrector(np.log(1.1)))
    np.testing.assert_allclose(predicted.domain[..., MEDIAN], 1.1 * USUAL, rtol=1e-5)
    np.testing.assert_allclose(serving_of(predicted).shift, 0.1, rtol=1e-5)
    assert serving_of(predicted).review.tolist() == [["", ""]]


def test_a_correction_that_is_too_large_is_refused_and_reported_for_review() -> None:
    predicted = first_with(corrector(np.log(1.3)))
    np.testing.assert_allclose(predicted.domain[..., MEDIAN], USUAL, rtol=1e-5)
    assert "30% for 15 min" in serving_of(predicted).review[0, 1]


@pytest.mark.parametrize(
    ("by", "settings"),
    [
        (corrector(np.log(1.1), helps=False), DEFAULTS),
        (corrector(np.log(1.1)), DEFAULTS._replace(corrects=False)),
    ],
)
def test_a_corrector_that_does_not_help_or_is_switched_off_does_nothing(
    by: Corrector, settings: Settings
) -> None:
    predicted = first_with(by, settings)
    np.testing.assert_allclose(predicted.domain[..., MEDIAN], USUAL, rtol=1e-5)


def test_a_served_forecast_is_read_only() -> None:
    forecaster = served_by(FakeNetwork())
    predicted, _ = play(forecaster, begin(forecaster), level(1))
    with pytest.raises(ValueError, match="read-only"):
        predicted[0].domain[..., LOW] = 0
