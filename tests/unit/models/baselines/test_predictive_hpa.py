"""The predictive HPA: the highest of what is needed and what is forecast."""

import numpy as np
import pytest

from models.baselines.predictive_hpa import PredictiveHpa
from models.baselines.triggers import MEASURED_MIN
from models.cluster import rows
from models.forecaster.port import HORIZONS_MIN, QUANTILES, Forecast
from models.sim.config.physics import load_sim_cluster, with_apps
from models.sim.config.scenario import load_scenario
from models.sim.observe import empty_observation
from models.sim.world import World

APPS, PODS, RPS = 40, 20, 400.0
TICKS = 6 * MEASURED_MIN


def replicas_after(growth: float | None, valid: bool = True, rps: float = RPS) -> list[int]:
    """Replicas of P0 apps at their target, two minutes after a forecast of that growth."""
    cluster = with_apps(load_sim_cluster(), APPS)
    world = World(cluster, load_scenario("calm", cluster), [0])
    inventory = world.inventory._replace(
        min_replicas=np.full(APPS, 2, np.int32),
        max_replicas=np.full(APPS, 400, np.int32),
        saturation=np.full(APPS, 0.8, np.float32),
    )
    status = world.state.status.copy()
    status[:, (rows.STARTING, rows.PENDING)] = 0
    status[:, (rows.REPLICAS, rows.READY)] = PODS
    status[:, rows.CPU_REQUEST], status[:, rows.DOMAIN] = 1000, inventory.domain
    observation = empty_observation(world.state)._replace(status=status)
    observation.missing[:] = 0
    observation.measured[:, rows.CPU] = PODS * 0.5 * 0.8
    observation.measured[:, rows.RPS] = RPS
    hpa = PredictiveHpa(inventory, world.layout.pools)
    state = hpa.start(observation)
    domains = inventory.priority.size
    now = RPS * np.bincount(inventory.domain, minlength=domains)
    for tick in range(TICKS + 12):
        observation.tick[:] = tick
        forecast = None
        if tick >= TICKS:
            observation.measured[:, rows.RPS] = rps
        if growth is not None and tick >= TICKS:
            values = np.ones((1, domains, len(HORIZONS_MIN), len(QUANTILES)), np.float32)
            values *= (growth * now / 1.05).astype(np.float32)[None, :, None, None]
            until = np.array([tick if valid else tick - 1], np.int32)
            forecast = Forecast("test", until, until, values, values[..., 2])
        plan, state = hpa.step(observation, forecast, state)
        status[:, rows.REPLICAS] = plan.replicas
    p0 = inventory.priority[inventory.domain] == 0
    return sorted(set(status[0, rows.REPLICAS, p0].tolist()))


def test_a_forecast_adds_replicas_before_the_load_comes() -> None:
    assert replicas_after(None) == [PODS]
    assert replicas_after(2.0) == [2 * PODS]


def test_a_forecast_takes_no_replicas_away() -> None:
    assert replicas_after(0.3) == [PODS]


def test_load_that_was_not_forecast_is_followed() -> None:
    assert replicas_after(1.0, rps=2 * RPS) == [2 * PODS]


@pytest.mark.parametrize(("growth", "valid"), [(2.0, False), (np.nan, True)])
def test_a_forecast_that_is_not_valid_adds_nothing(growth: float, valid: bool) -> None:
    assert replicas_after(growth, valid) == [PODS]


def test_an_implausible_growth_is_limited() -> None:
    assert replicas_after(50.0) == [3 * PODS]
