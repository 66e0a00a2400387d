from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.forecaster.score.comparison import cells
from models.forecaster.score.evaluation import Absent, Fitted, run
from models.forecaster.score.peers.floors import FLOORS
from models.forecaster.score.peers.linear import Linear
from models.forecaster.score.windows import Windows, windows
from models.forecaster.series import Series

DAY = 1440


@cache
def wave(days: int, step: int = 1, noise: float = 0.05, period: float = 300) -> Series:
    generator = np.random.default_rng(0)
    minutes = np.arange(0, days * DAY, step)
    values = 100 + 60 * np.sin(2 * np.pi * minutes / period)
    values *= generator.lognormal(0, noise, values.size)
    values[generator.random(values.size) < 0.02] = np.nan
    return Series("x", 0, step, np.repeat(values, step))


def fitted(series: Series, until: int) -> Fitted:
    found = Linear().fit(series, until)
    assert not isinstance(found, Absent)
    return found


@cache
def fitted_wave(step: int) -> Fitted:
    return fitted(wave(3, step), 2 * DAY)


@pytest.mark.parametrize("step", [1, 5])
def test_a_wave_is_forecast_better_than_by_any_simple_rule(step: int) -> None:
    series = wave(3, step)
    found = windows(series)
    assert isinstance(found, Windows)
    evaluation = run(series, found, (*FLOORS, Linear()))
    mine = [cell.ratio for cell in cells(evaluation).cells if cell.model == "linear"]
    assert len(mine) == 3
    assert max(mine) < 0.9


def test_the_interval_covers_about_80_percent_of_the_values() -> None:
    series = wave(3)
    found = windows(series)
    assert isinstance(found, Windows)
    rows = run(series, found, [Linear()]).scores().rows
    assert all(0.72 < row.coverage_80 < 0.88 for row in rows)


@given(at=st.integers(0, 3 * DAY - 1), step=st.sampled_from([1, 5, 7]))
@settings(deadline=None)
def test_a_forecast_uses_nothing_after_its_origin(at: int, step: int) -> None:
    series, ready = wave(3, step), fitted_wave(step)
    whole = ready.predict(series, np.array([at, 3 * DAY - 50]))[:1]
    cut = ready.predict(series.until(at + 1), np.array([at]))
    np.testing.assert_allclose(whole, cut, rtol=1e-9)


def test_fitting_uses_nothing_of_the_test() -> None:
    series, at = wave(3), np.array([2 * DAY - 1])
    cut = fitted(series.until(2 * DAY), 2 * DAY).predict(series, at)
    np.testing.assert_array_equal(fitted_wave(1).predict(series, at), cut)


def test_forecasts_scale_with_the_unit_of_the_series() -> None:
    series, at = wave(3), np.arange(2 * DAY, 2 * DAY + 50)
    scaled = series._replace(rps=series.rps * 1e-3)
    expected = fitted_wave(1).predict(series, at) * 1e-3
    np.testing.assert_allclose(fitted(scaled, 2 * DAY).predict(scaled, at), expected, rtol=1e-6)


def test_quantiles_never_cross_and_traffic_is_never_negative() -> None:
    series = wave(3, noise=2.0)
    forecast = fitted(series, 2 * DAY).predict(series, np.arange(2 * DAY, 3 * DAY))
    assert (np.diff(forecast, axis=2) >= 0).all()
    assert (forecast >= 0).all()


@pytest.mark.parametrize(
    ("rps", "reason"),
    [(np.zeros(900), "no traffic"), (np.ones(250), "windows before the test")],
)
def test_without_enough_traffic_to_learn_from_it_is_absent(
    rps: np.ndarray[tuple[int], np.dtype[np.float64]], reason: str
) -> None:
    found = Linear().fit(Series("x", 0, 1, rps), rps.size)
    assert isinstance(found, Absent)
    assert reason in found.reason


def test_a_constant_series_is_forecast_as_constant() -> None:
    series = Series("x", 0, 1, np.full(2 * DAY, 40.0))
    forecast = fitted(series, DAY).predict(series, np.array([DAY + 5]))
    np.testing.assert_allclose(forecast, 40)
