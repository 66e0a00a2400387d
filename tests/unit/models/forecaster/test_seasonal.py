"""Properties of every forecaster, and of the rules."""

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

from models.cluster import rows
from models.forecaster.learned.artefact import CARD, SHIPPED
from models.forecaster.port import HIGH, LOW, MEDIAN, VALID_MIN, Forecast, Forecaster
from models.forecaster.seasonal import persistence, seasonal, seasonal_rule
from models.forecaster.simulated.catalogue import FORECASTERS, forecaster_of
from models.inputs.errors import InputError
from models.sim.config.scenario import Scenario
from models.sim.world import World
from tests.unit.models.forecaster.observations import (
    PER_MINUTE,
    TICK_S,
    level_past,
    observed,
    world_of,
)

ABSENT = not (SHIPPED / CARD).exists()
TRAINED = pytest.param(
    "tft", marks=pytest.mark.skipif(ABSENT, reason="no trained forecaster is shipped")
)
BLIND = ("calendar", "seasonal", "persistence", TRAINED)
"""Forecasters that must not use the future."""
EVERY = (*BLIND, *sorted(FORECASTERS.keys() - {"calendar", "seasonal", "persistence", "tft"}))


def _forecasts(world: World, forecaster: Forecaster[Any], ticks: int) -> list[Forecast]:
    state = forecaster.start(world.observe())
    predicted = []
    for _ in range(ticks):
        forecast, state = forecaster.step(world.observe(), state)
        predicted.append(forecast)
        world.step(world.hold())
    return predicted


def _after(scenario: str | Scenario, name: str, ticks: int, seeds: tuple[int, ...]) -> Forecast:
    world = world_of(scenario, seeds)
    return _forecasts(world, FORECASTERS[name](world), ticks)[-1]


@pytest.mark.parametrize("name", EVERY)
def test_quantiles_are_ordered_and_peaks_are_above_them(name: str) -> None:
    predicted = _after("flash-sale-on-time", name, 40, (3, 4))
    assert predicted.domain.shape == (2, 5, 3, 3)
    assert (predicted.domain > 0).all()
    assert (predicted.domain[..., LOW] <= predicted.domain[..., MEDIAN]).all()
    assert (predicted.domain[..., MEDIAN] <= predicted.domain[..., HIGH]).all()
    assert (predicted.domain_peak >= predicted.domain[..., HIGH]).all()
    assert (np.diff(predicted.domain_peak, axis=-1) >= 0).all()


@pytest.mark.parametrize("name", EVERY)
def test_a_forecast_is_made_each_minute_and_repeated_in_between(name: str) -> None:
    world = world_of("calm", (3,))
    predicted = _forecasts(world, FORECASTERS[name](world), 14)
    assert [int(forecast.made_tick[0]) for forecast in predicted] == [0] * 6 + [6] * 6 + [12] * 2
    assert predicted[-1].valid_until_tick[0] == 12 + VALID_MIN * PER_MINUTE
    with pytest.raises(ValueError, match="read-only"):
        predicted[-1].domain[:] = 0


@pytest.mark.parametrize("name", EVERY)
def test_a_forecast_does_not_depend_on_the_other_environments(name: str) -> None:
    both, alone = _after("calm", name, 20, (3, 4)), _after("calm", name, 20, (4,))
    np.testing.assert_array_equal(both.domain[1], alone.domain[0])
    np.testing.assert_array_equal(both.domain_peak[1], alone.domain_peak[0])


@pytest.mark.parametrize("name", BLIND)
def test_the_future_does_not_change_a_forecast(name: str) -> None:
    sale = world_of("flash-sale-on-time").scenario
    quiet = msgspec.structs.replace(sale, events=())
    there, not_there = _after(sale, name, 100, (3, 4)), _after(quiet, name, 100, (3, 4))
    np.testing.assert_array_equal(there.domain, not_there.domain)
    np.testing.assert_array_equal(there.domain_peak, not_there.domain_peak)


def _forecast_after(make: Callable[..., Forecaster[Any]], course: list[float]) -> Forecast:
    """The forecast after minutes of the given traffic, with a constant past."""
    forecaster = make(level_past(), TICK_S)
    state = forecaster.start(observed(0, np.zeros((1, 2), np.float32)))
    for tick in range(1, len(course) * PER_MINUTE + 1):
        rps = np.full((1, 2), course[(tick - 1) // PER_MINUTE], np.float32)
        forecast, state = forecaster.step(observed(tick, rps), state)
    return forecast


def test_a_minute_whose_last_tick_is_lost_is_not_mixed_with_the_next_one() -> None:
    forecaster = persistence(level_past(), TICK_S)
    state = forecaster.start(observed(0, np.zeros((1, 2), np.float32)))
    for tick in (tick for tick in range(1, 4 * PER_MINUTE + 1) if tick != 3 * PER_MINUTE):
        rps = np.full((1, 2), 100.0 * ((tick - 1) // PER_MINUTE), np.float32)
        forecast, state = forecaster.step(observed(tick, rps), state)
    assert state.minutes.domain[0, 0, -3:].tolist() == [100, 200, 300]
    assert forecast.made_tick[0] == 4 * PER_MINUTE


def test_an_exporter_that_falls_silent_while_its_app_works_reads_as_no_data() -> None:
    forecaster = persistence(level_past(), TICK_S)
    state = forecaster.start(observed(0, np.zeros((1, 2), np.float32)))
    for tick in range(1, 4 * PER_MINUTE + 1):
        silent = tick > 2 * PER_MINUTE
        seen = observed(tick, np.full((1, 2), 0.0 if silent else 120.0, np.float32))
        # The second app really stops.
        seen.measured[0, rows.CPU] = [3.0, 0.1 if silent else 3.0]
        _, state = forecaster.step(seen, state)
    assert state.minutes.domain[0, :, -1].tolist() == [120, 0]


def test_persistence_forecasts_the_observed_level() -> None:
    predicted = _forecast_after(persistence, [100.0, 130.0, 150.0, 150.0])
    assert predicted.domain[0, 0, :, MEDIAN] == pytest.approx([150, 150, 150])


def test_with_a_constant_past_the_seasonal_forecast_is_the_recent_level() -> None:
    predicted = _forecast_after(seasonal, [100.0] * 5 + [120.0] * 3)
    assert predicted.domain[0, 0, :, MEDIAN] == pytest.approx([120, 120, 120])


def test_the_seasonal_shape_follows_the_recorded_days() -> None:
    past = level_past()
    rising = np.linspace(100, 200, past.days.shape[-1], dtype=np.float32)
    rule = seasonal_rule(past._replace(days=past.days * 0 + rising))
    np.testing.assert_allclose(rule.shape[0, 0, : rising.size], rising, rtol=1e-5)
    assert rule.spread.value == pytest.approx(1.0, abs=1e-4)


def test_weekends_are_compared_with_weekends() -> None:
    past = level_past()
    days = past.days.copy()
    days[:, :, past.weekends(past.recorded()[:, 0])] = 40.0
    saturday = 5 * 1440 + 600
    shift = past._replace(days=days)
    assert seasonal_rule(shift).shape == pytest.approx(100.0)
    weekend = past.weekends(past.recorded()[:, 0])
    moved = past._replace(start_minute_of_week=saturday)
    there = moved.weekends(moved.recorded()[:, 0])
    days[:, :, there] = 40.0
    days[:, :, ~there] = 100.0
    assert weekend.sum() >= 3
    assert seasonal_rule(moved._replace(days=days)).shape == pytest.approx(40.0)


def test_an_unknown_forecaster_is_refused_with_a_hint() -> None:
    assert forecaster_of("none") is None
    assert forecaster_of("oracle") is FORECASTERS["oracle"]
    with pytest.raises(InputError, match="did you mean seasonal"):
        forecaster_of("seasnal")
