import sys

import numpy as np
import pytest

from models.forecaster.score.evaluation import Absent, Fitted, Peer, run
from models.forecaster.score.peers.statistical import (
    STATISTICAL,
    Ets,
    Mstl,
    block_minutes,
    blocks,
    quantiles,
)
from models.forecaster.score.windows import Windows, windows
from models.forecaster.series import Series
from models.inputs.errors import InputError

DAY = 1440


def wave(step: int = 30, days: int = 6) -> Series:
    """A step of half an hour, so that fitting takes no time."""
    minutes = np.arange(0, days * DAY, step)
    noise = np.random.default_rng(0).lognormal(0, 0.05, minutes.size)
    values = (100 + 60 * np.sin(2 * np.pi * minutes / DAY)) * noise
    return Series("x", 0, step, np.repeat(values, step))


@pytest.fixture(scope="module")
def library() -> None:
    pytest.importorskip("statsforecast.models", reason="the statistical peers need statsforecast")


def fitted(peer: Peer, series: Series, until: int) -> Fitted:
    found = peer.fit(series, until)
    assert not isinstance(found, Absent)
    return found


def test_blocks_are_means_that_end_with_the_origin() -> None:
    series = Series("x", 0, 1, np.arange(23.0))
    series.rps[[7, 13, 14, 15, 16, 17]] = np.nan
    # 3..7 without 7, 8..12, and 13..17, which holds the value before it.
    np.testing.assert_allclose(blocks(series, 17, 5), [4.5, 10, 10])
    assert block_minutes(series) == 5
    assert block_minutes(series._replace(step_min=30)) == 30
    assert blocks(Series("x", 0, 1, np.ones(9 * DAY)), 9 * DAY - 1, 5).size == 7 * 288


def test_quantiles_are_the_librarys_mean_and_interval_at_the_horizons() -> None:
    predicted = {"mean": np.arange(6.0), "lo-80": np.arange(6.0) - 1, "hi-80": np.arange(6.0) + 1}
    expected = [[-1, 0, 1], [1, 2, 3], [4, 5, 6]]
    np.testing.assert_array_equal(quantiles(predicted, np.array([1, 3, 6])), expected)


@pytest.mark.parametrize(
    ("peer", "rps", "reason"),
    [
        (Ets(), np.arange(100.0), "20 means of 5 minutes, expected 30"),
        (Mstl(), np.arange(2000.0), "400 means of 5 minutes, expected 576"),
        (Ets(), np.full(900, 5.0), "constant"),
        (Ets(), np.full(900, np.nan), "constant"),
    ],
)
def test_with_too_few_or_constant_values_they_are_absent(
    peer: Peer, rps: np.ndarray[tuple[int], np.dtype[np.float64]], reason: str
) -> None:
    found = peer.fit(Series("x", 0, 1, rps), rps.size)
    assert isinstance(found, Absent)
    assert reason in found.reason


def test_without_the_library_the_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "statsforecast.models", None)
    monkeypatch.setitem(sys.modules, "statsforecast", None)
    with pytest.raises(InputError, match=r"statsforecast: pip install 'hirl-scale\["):
        Ets().fit(wave(), 4 * DAY)


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("peer", STATISTICAL, ids=lambda peer: peer.name)
def test_a_forecast_uses_nothing_after_its_origin(peer: Peer) -> None:
    series, at = wave(), np.array([5 * DAY + 29, 5 * DAY + 329])
    ready = fitted(peer, series, 4 * DAY)
    whole = ready.predict(series, at)
    for index, minute in enumerate(at):
        alone = ready.predict(series.until(int(minute) + 1), at[index : index + 1])
        np.testing.assert_array_equal(alone, whole[index : index + 1])
    assert (np.diff(whole, axis=2) >= 0).all()


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("peer", STATISTICAL, ids=lambda peer: peer.name)
def test_fitting_uses_nothing_of_the_test(peer: Peer) -> None:
    series, at = wave(), np.array([4 * DAY - 1])
    cut = fitted(peer, series.until(4 * DAY), 4 * DAY).predict(series, at)
    np.testing.assert_array_equal(fitted(peer, series, 4 * DAY).predict(series, at), cut)


@pytest.mark.usefixtures("library")
def test_mstl_keeps_the_daily_shape_in_phase() -> None:
    series = wave()
    ready = fitted(Mstl(), series, 4 * DAY)
    # Where the wave rises steepest, and off the grid of the fit by five hours.
    at = np.array([5 * DAY - 1, 5 * DAY + 299])
    clean = 100 + 60 * np.sin(2 * np.pi * (at + 1) / DAY)
    np.testing.assert_allclose(ready.predict(series, at)[:, 2, 1], clean, rtol=0.12)


@pytest.mark.usefixtures("library")
def test_a_constant_week_is_forecast_as_constant() -> None:
    series = wave(days=16)
    series.rps[7 * DAY :] = 50.0
    for peer in STATISTICAL:
        forecast = fitted(peer, series, 6 * DAY).predict(series, np.array([15 * DAY - 1]))
        np.testing.assert_allclose(forecast, 50)


@pytest.mark.usefixtures("library")
def test_they_forecast_at_two_hundred_evenly_spaced_origins() -> None:
    series = wave(step=5, days=5)
    found = windows(series)
    assert isinstance(found, Windows)
    assert found.at.size > 200
    evaluation = run(series, found, [Ets()])
    forecast_at = ~np.isnan(evaluation.forecasts["ets"]).any(axis=(1, 2))
    assert forecast_at.sum() == 200
    assert np.ptp(np.diff(found.at[forecast_at])) <= series.step_min
