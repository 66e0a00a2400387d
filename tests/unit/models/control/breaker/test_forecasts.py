"""How well forecasts do."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from models.cluster.arrays import F32
from models.control.breaker.forecasts import (
    add_forecast,
    end_minute,
    forecast_readings,
    observe_tick,
    start_record,
)
from models.control.breaker.limits import Thresholds, graded
from models.forecaster.port import HORIZONS_MIN, QUANTILES
from models.sim.config.physics import load_sim_cluster, with_apps
from models.sim.config.scenario import load_scenario
from models.sim.world import World

CLUSTER = with_apps(load_sim_cluster(), 20)
WORLD = World(CLUSTER, load_scenario("calm", CLUSTER), [0])
WIDTH = np.array([0.95, 1.0, 1.05])
"""Quantiles of a sound forecast over its median."""
SHAPE = (1, 1, len(HORIZONS_MIN), len(QUANTILES))
STRICT = graded(Thresholds(), 0)
Course = Callable[[int], float]


def forecast_of(median: float) -> F32:
    return np.broadcast_to(median * WIDTH, SHAPE).astype(np.float32)


def play(
    traffic: Course, forecast: Callable[[int], F32], minutes: int = 60
) -> list[tuple[float, float]]:
    """Skill and output after each minute."""
    record, found = start_record(WORLD.observe(), 1), []
    for minute in range(minutes):
        record = end_minute(minute, np.array([[traffic(minute)]]), record)
        record = add_forecast(minute, forecast(minute), record)
        skill, output = forecast_readings(record)[0, 0].tolist()
        found.append((skill, output))
    return found


def highest(found: list[tuple[float, float]]) -> tuple[float, float]:
    skill, output = np.nanmax(np.array(found), axis=0)
    return float(skill), float(output)


def waves(minute: int) -> float:
    return 100.0 + 30.0 * math.sin(minute / 10)


def test_a_forecast_that_comes_true_shows_no_loss() -> None:
    found = play(waves, lambda minute: forecast_of(waves(minute + 5)))
    assert highest(found) == (0.0, 0.0)


def test_nothing_is_said_about_skill_before_there_are_enough_outcomes() -> None:
    found = play(waves, lambda minute: forecast_of(3 * waves(minute + 5)))
    known = [minute for minute, (skill, _) in enumerate(found) if not math.isnan(skill)]
    assert known == list(range(14, 60))


def test_persistence_is_never_worse_than_itself() -> None:
    found = play(waves, lambda minute: forecast_of(waves(minute)))
    assert highest(found) == (0.0, 0.0)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda minute: 3 * waves(minute),
        lambda minute: 0.2 * waves(minute),
        lambda minute: 200.0 + 30.0 * math.sin(-minute / 10),
    ],
)
def test_a_forecast_far_worse_than_persistence_loses_its_skill(wrong: Course) -> None:
    found = play(waves, lambda minute: forecast_of(wrong(minute)))
    assert found[-1][0] > Thresholds().skill_share


def test_a_few_minutes_are_no_collapse_however_wrong_they_are() -> None:
    # As when an announced event seems to begin, and does not.
    def mistaken(minute: int) -> F32:
        return forecast_of(20 * waves(minute) if 30 <= minute < 33 else waves(minute + 5))

    assert 0 < highest(play(waves, mistaken))[0] < STRICT.skill_share


def test_a_forecast_that_admits_its_doubt_is_not_blamed_for_it() -> None:
    # As before an announced event that does not come: the median is wrong, the interval is not.
    wide = np.array([0.95, 5.0, 5.5])

    def doubtful(minute: int) -> F32:
        return np.broadcast_to(waves(minute + 5) * wide, SHAPE).astype(np.float32)

    assert highest(play(waves, doubtful)) == (0.0, 0.0)


def test_small_errors_on_steady_traffic_are_no_collapse() -> None:
    # Persistence is perfect here, so any error is infinitely worse.
    found = play(lambda _: 100.0, lambda minute: forecast_of(108.0 + 0.001 * minute))
    assert highest(found) == (0.0, 0.0)


@pytest.mark.parametrize("broken", [math.nan, math.inf, -1.0])
def test_a_forecast_without_usable_numbers_is_broken_output(broken: float) -> None:
    found = play(waves, lambda minute: forecast_of(broken if minute >= 30 else waves(minute)))
    assert highest(found[:31])[1] == 0.0
    assert {output for _, output in found[31:]} == {1.0}


def test_nothing_forecast_for_a_busy_domain_is_broken_output() -> None:
    # What services publish in the place of numbers that are not believed.
    found = play(waves, lambda _: forecast_of(0.0))
    assert found[-1][1] == 1.0


def test_the_same_forecast_again_and_again_while_traffic_moves_is_broken_output() -> None:
    found = play(waves, lambda minute: forecast_of(waves(min(minute, 20))))
    assert highest(found[:21])[1] == 0.0
    assert found[-1][1] > Thresholds().output_share


def test_the_same_forecast_for_the_same_traffic_is_right() -> None:
    assert highest(play(lambda _: 100.0, lambda _: forecast_of(100.0))) == (0.0, 0.0)


def test_persistence_on_flat_traffic_with_noise_trips_nothing() -> None:
    noise = np.random.default_rng(1).normal(1.0, 0.02, 61)

    def flat(minute: int) -> float:
        return 100.0 * float(noise[minute])

    # Rounded, as by a model with few digits, so that forecasts repeat.
    skill, output = highest(play(flat, lambda minute: forecast_of(round(flat(minute), -1))))
    assert skill == 0.0
    assert output < STRICT.output_share


def test_a_calm_night_trips_nothing() -> None:
    def day_and_night(minute: int) -> float:
        return 100.0 if minute < 60 else 0.5 + minute % 3

    # Nothing is forecast for the night, though a little traffic comes and goes.
    def forecast(minute: int) -> F32:
        return forecast_of(day_and_night(minute + 5) if minute < 60 else 0.0)

    skill, output = highest(play(day_and_night, forecast, minutes=240))
    assert skill < 0.5 * STRICT.skill_share
    assert output < STRICT.output_share


def test_no_traffic_at_all_trips_nothing() -> None:
    assert highest(play(lambda _: 0.0, lambda _: forecast_of(0.0))) == (0.0, 0.0)


def test_minutes_without_samples_are_no_outcomes() -> None:
    found = play(lambda _: math.nan, lambda _: forecast_of(100.0))
    assert np.isnan(np.array(found)).all()


def test_a_forecast_delivered_again_or_late_changes_nothing() -> None:
    record = start_record(WORLD.observe(), 1)
    record = add_forecast(3, forecast_of(100.0), record)
    for minute in (2, 3):
        assert add_forecast(minute, forecast_of(500.0), record) is record


def test_a_forecast_that_overtakes_its_minute_is_judged_alike() -> None:
    shares = []
    for overtakes in (False, True):
        record = start_record(WORLD.observe(), 1)
        for minute in range(40):
            made = forecast_of(2 * waves(minute))
            if overtakes:
                record = add_forecast(minute, made, record)
            record = end_minute(minute, np.array([[waves(minute)]]), record)
            record = add_forecast(minute, made, record)
        shares.append(record.worse[0, 0])
    assert shares[0] == shares[1] > 0


def test_traffic_is_taken_in_as_forecasters_do() -> None:
    world = World(CLUSTER, load_scenario("calm", CLUSTER), [0, 1])
    record = start_record(world.observe(), len(CLUSTER.domains))
    for _ in range(13):
        record = observe_tick(world.observe(), record, 6)
        world.step(world.hold())
    assert record.seen.tolist() == [[2] * len(CLUSTER.domains)] * 2
    assert (record.usual > 0).all()
