import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.cluster.arrays import F64
from models.forecaster.data.load import load
from models.forecaster.port import HORIZONS_MIN
from models.forecaster.score.evaluation import Absent, Fitted, run
from models.forecaster.score.peers.floors import FLOORS, Floor, forward_filled, mean_of_last
from models.forecaster.score.windows import Windows, windows
from models.forecaster.series import Series

BESIDE = Path(__file__).parents[7] / "shared" / "traces"
BY_NAME = {floor.name: floor for floor in FLOORS}
DAY = 1440


@pytest.fixture(scope="module")
def dev() -> Path:
    pytest.importorskip("pyarrow", reason="reading tables needs the extra 'fit'")
    folder = Path(os.environ.get("HIRL_TRACES", BESIDE)) / "dev"
    if not folder.is_dir():
        pytest.skip("the real traces are not here: set HIRL_TRACES to their folder")
    return folder


def noisy(days: int, seed: int = 0, step: int = 1) -> Series:
    generator = np.random.default_rng(seed)
    values = generator.gamma(3, 10, days * DAY // step)
    values[generator.random(values.size) < 0.05] = np.nan
    values[generator.random(values.size) < 0.05] = 0
    return Series("x", 0, step, np.repeat(values, step))


def fitted(name: str, series: Series, until: int) -> Fitted:
    found = BY_NAME[name].fit(series, until)
    assert not isinstance(found, Absent)
    return found


def median(name: str, series: Series, until: int, at: int) -> F64:
    forecast: F64 = fitted(name, series, until).predict(series, np.array([at]))[0, :, 1]
    return forecast


def test_each_rule_forecasts_what_its_name_says() -> None:
    series = Series("x", 0, 1, np.arange(9.0 * DAY))
    at, until = 8 * DAY + 100, 8 * DAY
    ahead = np.array(HORIZONS_MIN)
    assert median("last", series, until, at).tolist() == [at] * 3
    assert median("mean5", series, until, at).tolist() == [at - 2] * 3
    assert median("mean15", series, until, at).tolist() == [at - 7] * 3
    assert median("day", series, until, at).tolist() == (at + ahead - DAY).tolist()
    assert median("week", series, until, at).tolist() == (at + ahead - 7 * DAY).tolist()


def test_means_and_filled_values_skip_missing_minutes() -> None:
    values = np.array([np.nan, 4.0, np.nan, 8.0, np.nan, np.nan])
    np.testing.assert_array_equal(forward_filled(values), [np.nan, 4, 4, 8, 8, 8])
    np.testing.assert_array_equal(mean_of_last(values, np.array([0, 3, 5]), 3), [np.nan, 6, 8])


def test_where_all_minutes_are_missing_the_mean_rule_uses_the_last_value() -> None:
    series = Series("x", 0, 1, np.full(1000, 7.0))
    series.rps[880:901] = np.nan
    assert median("mean15", series, 800, 900).tolist() == [7.0] * 3


def test_a_minute_that_was_missing_yesterday_is_taken_from_the_day_before() -> None:
    series = Series("x", 0, 1, np.arange(4.0 * DAY))
    at = 3 * DAY + 700
    series.rps[at + 5 - DAY] = np.nan
    assert median("day", series, 3 * DAY, at)[0] == at + 5 - 2 * DAY


def test_outer_quantiles_are_the_rule_times_past_ratios() -> None:
    # In blocks of an hour traffic is 1 or 3, so half an hour later it is x3, x1 or /3.
    values = np.repeat(np.random.default_rng(0).choice([1.0, 3.0], 24 * 10), 60)
    series = Series("x", 0, 1, values)
    forecast = fitted("last", series, 9 * DAY).predict(series, np.array([9 * DAY + 3]))
    np.testing.assert_allclose(forecast[0, 2] / forecast[0, 2, 1], [1 / 3, 1, 3])


def test_after_a_zero_the_quantiles_are_those_of_values_after_zeros() -> None:
    series = Series("x", 0, 1, np.tile([0.0, 0.0, 0.0, 6.0], 500))
    forecast = fitted("last", series, 1600).predict(series, np.array([1700, 1703]))
    # Five minutes after a zero comes 0, 0 or 6.
    np.testing.assert_array_equal(forecast[0, 0], [0, 0, 6])
    assert forecast[1, 0, 1] == 6


def test_rules_that_look_back_further_than_the_history_are_absent() -> None:
    evaluation = run(noisy(2), Windows(DAY, np.array([1500]), np.ones((1, 3))), FLOORS)
    assert list(evaluation.forecasts) == ["last", "mean5", "mean15"]
    assert list(evaluation.absent) == ["day", "week"]
    assert "1440 minutes of history" in evaluation.absent["day"]


def test_a_rule_without_past_values_is_absent_with_a_reason() -> None:
    found = BY_NAME["last"].fit(Series("x", 0, 1, np.full(900, np.nan)), 700)
    assert isinstance(found, Absent)
    assert "no values" in found.reason


@pytest.mark.parametrize("floor", FLOORS, ids=lambda floor: floor.name)
@pytest.mark.parametrize("step", [1, 5])
@given(at=st.integers(8 * DAY, 9 * DAY - 1), seed=st.integers(0, 3))
def test_a_forecast_uses_nothing_after_its_origin(
    floor: Floor, step: int, at: int, seed: int
) -> None:
    series = noisy(9, seed, step)
    ready = fitted(floor.name, series, 8 * DAY)
    whole = ready.predict(series, np.array([at, 9 * DAY - 1]))[:1]
    np.testing.assert_array_equal(whole, ready.predict(series.until(at + 1), np.array([at])))


@pytest.mark.parametrize("floor", FLOORS, ids=lambda floor: floor.name)
def test_fitting_uses_nothing_of_the_test(floor: Floor) -> None:
    series, until = noisy(9), 8 * DAY
    at = np.array([until - 1])
    cut = fitted(floor.name, series.until(until), until).predict(series, at)
    np.testing.assert_array_equal(fitted(floor.name, series, until).predict(series, at), cut)


def test_quantiles_never_cross() -> None:
    series = noisy(9)
    at = np.arange(8 * DAY, 9 * DAY)
    for floor in FLOORS:
        forecast = fitted(floor.name, series, 8 * DAY).predict(series, at)
        assert (np.diff(forecast, axis=2) >= 0).all()


@pytest.mark.parametrize(
    ("trace", "expected"),
    [
        (
            "worldcup98_1min",
            {
                "last": (0.0605, 0.1194, 0.1943),
                "mean5": (0.0687, 0.1267, 0.2019),
                "mean15": (0.0951, 0.1499, 0.2249),
                "day": (0.563, 0.563, 0.563),
            },
        ),
        (
            "nasa95_1min",
            {"mean15": (0.3017, 0.3119, 0.3244), "last": (0.3821, 0.3983, 0.4108)},
        ),
    ],
)
def test_the_rules_have_their_known_errors_on_recorded_traces(
    dev: Path, trace: str, expected: dict[str, tuple[float, ...]]
) -> None:
    (series,) = load(dev / f"{trace}.csv.gz")
    found = windows(series)
    assert isinstance(found, Windows)
    rows = run(series, found, [BY_NAME[name] for name in expected]).scores().rows
    for name, risks in expected.items():
        measured = [row.q_risk_p50 for row in rows if row.model == name]
        assert measured == pytest.approx(risks, abs=4e-4)
