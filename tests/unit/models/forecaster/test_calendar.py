"""Announced events are expected until they show or are overdue, and never counted twice."""

import numpy as np
import pytest

from models.cluster.calendar import Announcement
from models.forecaster.calendar import BELIEVED_MIN, Calendar
from models.forecaster.port import HIGH, LOW, MEDIAN, Forecast
from tests.unit.models.forecaster.observations import (
    PER_MINUTE,
    TICK_S,
    USUAL,
    level_past,
    observed,
)

START, LENGTH = 40, 30
SALE = Announcement("sale", (0,), START * PER_MINUTE, (START + LENGTH) * PER_MINUTE, 2.0)


def _forecast_after(course: dict[int, float], until: int) -> Forecast:
    """The forecast after `until` minutes; `course` is the traffic of domain 0 from a minute on."""
    forecaster = Calendar(level_past(), (SALE,), TICK_S)
    state = forecaster.start(observed(0, np.zeros((1, 2), np.float32)))
    for tick in range(1, until * PER_MINUTE + 1):
        minute = (tick - 1) // PER_MINUTE
        rps = [value for begin, value in course.items() if begin <= minute][-1:] or [USUAL]
        sample = np.array([[rps[0], USUAL]], np.float32)
        forecast, state = forecaster.step(observed(tick, sample), state)
    return forecast


def _median(forecast: Forecast, domain: int = 0) -> list[float]:
    return [float(value) for value in forecast.domain[0, domain, :, MEDIAN]]


def test_an_announced_event_raises_the_forecast_of_its_domains_during_its_time() -> None:
    predicted = _forecast_after({}, START - 20)
    assert _median(predicted) == pytest.approx([100, 100, 200])
    assert _median(predicted, 1) == pytest.approx([100, 100, 100])
    assert predicted.domain[0, 0, :, LOW] == pytest.approx([100, 100, 100])
    assert predicted.domain_peak[0, 0] == pytest.approx([100, 100, 200])


def test_the_forecast_returns_to_normal_after_the_announced_end() -> None:
    assert _median(_forecast_after({START: 200}, START + LENGTH - 10)) == pytest.approx(
        [200, 100, 100]
    )


def test_the_factor_of_a_running_event_is_not_applied_twice() -> None:
    assert _median(_forecast_after({START: 200}, START + 5))[:2] == pytest.approx([200, 200])


def test_observed_traffic_replaces_the_announced_factor() -> None:
    assert _median(_forecast_after({START: 150}, START + 8))[:2] == pytest.approx([150, 150])


def test_an_event_that_starts_early_is_recognised() -> None:
    early = START - 20
    predicted = _forecast_after({early: 190}, early + 8)
    assert _median(predicted)[:2] == pytest.approx([190, 190])
    # It lasts as long as announced, from when it began, and does not come again.
    assert _median(_forecast_after({early: 190}, early + 20)) == pytest.approx([190, 100, 100])


def test_a_rising_event_is_expected_to_reach_the_announced_level() -> None:
    early = START - 20
    assert _median(_forecast_after({early: 150}, early + 2))[0] == pytest.approx(200)


def test_an_event_is_still_expected_after_an_earlier_unrelated_burst() -> None:
    early = START - 20
    predicted = _forecast_after({early: 190, early + 5: 100}, early + 12)
    assert _median(predicted) == pytest.approx([100, 200, 200])


def test_an_overdue_event_is_no_longer_expected() -> None:
    waiting = _forecast_after({}, START + BELIEVED_MIN - 1)
    assert _median(waiting)[:2] == pytest.approx([200, 200])
    dropped = _forecast_after({}, START + BELIEVED_MIN)
    assert _median(dropped) == pytest.approx([100, 100, 100])


def test_a_late_event_is_detected() -> None:
    late = START + BELIEVED_MIN + 3
    assert _median(_forecast_after({late: 200}, late + 5))[0] == pytest.approx(200)


def test_the_high_quantile_allows_an_event_to_last_longer_than_announced() -> None:
    predicted = _forecast_after({START: 200}, START + LENGTH - 2)
    assert predicted.domain[0, 0, :, HIGH] == pytest.approx([200, 100, 100])
    assert predicted.domain_peak[0, 0, 0] == pytest.approx(200)


def test_without_announcements_the_forecast_is_the_seasonal_one() -> None:
    forecaster = Calendar(level_past(), (), TICK_S)
    first = observed(0, np.full((1, 2), USUAL, np.float32))
    forecast, _ = forecaster.step(first, forecaster.start(first))
    assert _median(forecast) == pytest.approx([100, 100, 100])
