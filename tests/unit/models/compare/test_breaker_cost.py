"""What breakers cost in healthy runs, and save when a controller goes wrong."""

from pathlib import Path

import msgspec
import pytest

from models.cluster.description import PRIORITIES
from models.compare.breaker_cost import (
    BAD_FORECASTS,
    CONTROLLER,
    FAULTY,
    BreakerRow,
    measure_breakers,
)
from models.sim.config.physics import load_sim_cluster, with_apps
from models.sim.config.scenario import Scenario, load_scenario

CLUSTER = with_apps(load_sim_cluster(), 40)
QUIET = """
name: quiet
shows: Nothing happens.
start: Thu 11:30
length_minutes: 26
warmup_minutes: 5
"""


@pytest.fixture
def quiet(tmp_path: Path) -> Scenario:
    file = tmp_path / "quiet.yaml"
    file.write_text(QUIET)
    return load_scenario(file, CLUSTER)


def test_a_healthy_run_costs_nothing() -> None:
    ticks = 0

    def count() -> None:
        nonlocal ticks
        ticks += 1

    calm = load_scenario("calm", CLUSTER)
    short = msgspec.structs.replace(calm, length_minutes=5, warmup_minutes=5)
    row = measure_breakers(CONTROLLER, CLUSTER, short, [1], count)
    assert (row.trips, row.share_not_closed, row.change) == ({}, 0.0, 0.0)
    assert (row.first_trip_s, row.rollback_s, row.fallback_s) == (None, None, {})
    assert ticks == 2 * short.timeline(CLUSTER.tick_seconds).total_ticks


def test_decreases_that_do_harm_are_stopped_and_rolled_back(quiet: Scenario) -> None:
    row = measure_breakers(FAULTY, CLUSTER, quiet, [1], lambda: None)
    # The two P0 domains.
    assert {"payments regression", "fraud regression"} & set(row.trips)
    assert row.p0_minutes < 0.5 * row.p0_minutes_without
    assert row.first_trip_s is not None
    assert row.rollback_s is not None


@pytest.mark.parametrize(
    ("wrong", "cause"), [("constant forecast", "skill"), ("nan forecast", "output")]
)
def test_domains_do_without_wrong_forecasts_p0_first(
    quiet: Scenario, wrong: str, cause: str
) -> None:
    assert wrong in BAD_FORECASTS
    row = measure_breakers(wrong, CLUSTER, quiet, [1], lambda: None)
    assert _doubts(row) == {cause}
    times = list(row.fallback_s.values())
    assert list(row.fallback_s) == list(PRIORITIES)[: len(times)]
    assert times == sorted(times)
    assert len(times) > 1
    # Forecasts without numbers change nothing anyway; three times the traffic costs nodes.
    # Not a matter of the last digits: pods start elsewhere once forecasts are dropped.
    assert row.objective <= row.objective_without * (1 + 1e-6)


def test_a_frozen_forecast_of_traffic_that_stays_does_no_harm(quiet: Scenario) -> None:
    row = measure_breakers("frozen forecast", CLUSTER, quiet, [1], lambda: None)
    assert (_doubts(row), row.fallback_s, row.change) == (set(), {}, 0.0)


def _doubts(row: BreakerRow) -> set[str]:
    """Causes that concern forecasts."""
    return {name.split()[1] for name in row.trips} & {"skill", "output"}
