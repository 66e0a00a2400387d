"""The served model is chosen by the past alone, and the learned peer uses nothing else."""

from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.forecaster.learned.artefact import Session
from models.forecaster.learned.inputs import NetworkInputs
from models.forecaster.learned.serving import NetworkOutput
from models.forecaster.score.contest import choose, contest, steps_of
from models.forecaster.score.evaluation import Absent
from models.forecaster.score.one_shot import forecast_series
from models.forecaster.score.peers.boosted import Boosted
from models.forecaster.score.peers.floors import FLOORS
from models.forecaster.score.peers.learned import Learned
from models.forecaster.score.windows import Windows, windows
from models.forecaster.series import Announced, Series
from tests.unit.models.forecaster.traffic_files import FixedSession, daily

MINUTES = 3 * 1440


def learned(factor: float = 1.0) -> Learned:
    return Learned(cast(Session, FixedSession(factor)))


def series_of(minutes: int = MINUTES, step: int = 1) -> Series:
    return Series("x", 0, step, np.repeat(daily(minutes // step), step))


def made(series: Series, test_from: int | None = None) -> Windows:
    found = windows(series, test_from)
    assert isinstance(found, Windows)
    return found


@settings(max_examples=8, deadline=None)
@given(st.integers(600, 2000), st.sampled_from([1, 5]))
def test_the_learned_peer_does_not_use_later_minutes(at: int, step: int) -> None:
    series = series_of(2200, step)
    origin = at // step * step + step - 1
    early = np.arange(origin - 20 * step, origin + 1, step)
    later = series._replace(rps=np.where(np.arange(2200) > origin, 7.0, series.rps))
    first, second = (learned().predict_with_peaks(each, early) for each in (series, later))
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_learned_peer_is_calibrated_at_the_first_window() -> None:
    series = series_of()
    test = made(series)
    predicted = Learned(cast(Session, FixedSession(spread=0.4))).predict(series, test.at)[:50, 0]
    width = (predicted[:, 2] - predicted[:, 0]) / predicted[:, 1]
    assert (width < 0.4).all()


def always(value: float) -> Learned:
    class Always(FixedSession):
        def predict(self, inputs: NetworkInputs) -> NetworkOutput:
            predicted = super().predict(inputs)
            return predicted._replace(values=np.full_like(predicted.values, value))

    return Learned(cast(Session, Always()))


def test_the_learned_model_serves_where_no_simple_rule_was_better() -> None:
    noise = np.random.default_rng(0).uniform(50, 150, MINUTES)
    served = choose(Series("noise", 0, 1, noise), 3000, (always(100.0), *FLOORS))
    assert served.model == "tft"
    assert choose(series_of(), 3000, (learned(), *FLOORS)).model == "tft"  # as good as mean15
    for factor, over in ((1.02, 1.051), (1.5, 9.925)):
        wrong = choose(series_of(), 3000, (learned(factor), *FLOORS))
        assert wrong.model in {"last", "mean5", "mean15"}
        assert wrong.why.endswith(f"the error of tft was {over} times that of mean15 at 5 min")
    still = choose(Series("still", 0, 1, np.full(MINUTES, 7.0)), 3000, (always(8.0), *FLOORS))
    assert "last was never wrong at 5 min, tft was" in still.why


def test_a_model_that_is_worse_at_only_one_horizon_does_not_serve() -> None:
    # A timer that fires every half hour, each day at other minutes: the current value is right for
    # 30 minutes ahead and wrong for the shorter horizons.
    minutes = np.arange(MINUTES)
    fires = minutes % 30 == 7 * (minutes // 1440)
    series = Series("timer", 0, 1, np.where(fires, 1000.0, 10.0))
    assert choose(series, 3000, (always(10.0), *FLOORS)).model != "tft"


def test_the_served_model_does_not_depend_on_the_test() -> None:
    series = series_of()
    chaos = np.random.default_rng(1).uniform(0, 1e4, MINUTES)
    other = series._replace(rps=np.where(np.arange(MINUTES) >= 3000, chaos, series.rps))
    peers = (learned(1.005), *FLOORS)
    assert choose(series, 3000, peers) == choose(other, 3000, peers)


def test_a_contest_chooses_by_forecasts_before_the_test_only() -> None:
    series, peers = series_of(), (learned(1.005), *FLOORS)
    chaos = np.random.default_rng(1).uniform(0, 1e4, MINUTES)
    other = series._replace(rps=np.where(np.arange(MINUTES) >= 3000, chaos, series.rps))
    served = {contest(each, made(each, 3000), peers).served for each in (series, other)}
    assert served == {choose(series.until(3000), 3000, peers)}


class Counted:
    """A session that counts the rows it is queried for."""

    def __init__(self) -> None:
        self.rows = 0

    def predict(self, inputs: NetworkInputs) -> NetworkOutput:
        self.rows += inputs.scale.size
        return FixedSession().predict(inputs)


def test_a_contest_queries_the_network_once_per_minute() -> None:
    series, session = series_of(1440), Counted()
    contest(series, made(series), (Learned(cast(Session, session)), *FLOORS))
    assert 0 < session.rows <= 1440


def test_progress_reaches_its_total_and_advances_within_the_learned_model() -> None:
    series, peers, steps = series_of(10 * 1440), (learned(), *FLOORS), list[int]()
    contest(series, made(series), peers, steps.append)
    assert sum(steps) == steps_of(peers)
    assert min(steps) >= 0
    assert max(steps) <= steps_of(peers) / (len(peers) + 1)
    assert sum(step > 0 for step in steps) > len(peers) + 1


def test_without_a_learned_model_the_best_rule_serves_with_a_reason() -> None:
    served = choose(series_of(), 3000, FLOORS)
    assert served.model != "tft"
    assert "no learned model" in served.why


def test_the_default_serves_when_every_minute_before_the_judged_ones_is_missing() -> None:
    series = series_of(6000)
    series.rps[:4000] = np.nan
    assert "no simple rule" in choose(series, 4800, FLOORS).why


def test_with_a_short_past_the_default_serves_with_a_reason() -> None:
    assert choose(series_of(), 400, (learned(), *FLOORS)).why.startswith("fewer than 6 hours")


def test_a_contest_scores_every_model() -> None:
    series = series_of()._replace(calendar=(Announced(4000, 4060),))
    found = contest(series, made(series), (learned(), *FLOORS))
    assert {row.model for row in found.rows} == {"tft", "last", "mean5", "mean15", "day"}
    assert [each.horizon_min for each in found.significance] == [5, 15, 30]
    assert all(each.ratio.low <= each.ratio.value <= each.ratio.high for each in found.significance)
    assert {score.model for score in found.spikes} == {row.model for row in found.rows}
    assert any("week: absent" in note for note in found.notes)


def test_a_constant_series_is_served_and_has_no_ratios() -> None:
    series = Series("flat", 0, 1, np.full(MINUTES, 5.0))
    found = contest(series, made(series), (learned(), *FLOORS))
    assert found.cells == ()
    assert found.served.model == "tft"


def test_a_single_forecast_equals_that_of_the_last_window() -> None:
    series = series_of()
    peers = (learned(), *FLOORS)
    forecast = forecast_series(series, 3000, peers)
    assert (forecast.at, forecast.served.model) == (2999, "tft")
    expected = learned().predict_with_peaks(series.until(3000), np.array([2999]))
    np.testing.assert_array_equal(forecast.values, expected.values[0])
    assert (forecast.peak >= forecast.values[:, 2]).all()


def test_the_peak_of_a_serving_rule_is_at_least_its_high_quantile() -> None:
    forecast = forecast_series(series_of(), 3000, FLOORS)
    assert (forecast.peak >= forecast.values[:, 2]).all()
    assert (np.diff(forecast.peak) >= 0).all()


def test_boosted_trees_are_absent_with_too_few_windows() -> None:
    short = Boosted().fit(series_of(), 400)
    assert isinstance(short, Absent)
    assert "windows before the test" in short.reason


def test_boosted_trees_do_not_learn_from_the_test() -> None:
    pytest.importorskip("lightgbm")
    series = series_of(1500)
    other = series._replace(rps=np.where(np.arange(1500) >= 1000, 3.0, series.rps))
    fits = [Boosted().fit(each, 1000) for each in (series, other)]
    at = np.arange(900, 990)
    first, second = (each.predict(series, at) for each in fits if not isinstance(each, Absent))
    np.testing.assert_array_equal(first, second)
    assert (np.diff(first, axis=2) >= 0).all()
