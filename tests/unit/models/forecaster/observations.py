"""A constant past, small worlds, and observations with given traffic."""

import numpy as np

from models.cluster import rows
from models.cluster.arrays import F32
from models.cluster.observation import POOL_STATUS, Observation
from models.forecaster.past import DAYS, LEAD_MIN, Past
from models.sim.config.physics import load_sim_cluster, with_apps
from models.sim.config.scenario import Scenario, load_scenario
from models.sim.population.generate import generate
from models.sim.world import World

CLUSTER = with_apps(load_sim_cluster(), 40)
POPULATION = generate(CLUSTER)
TICK_S = CLUSTER.tick_seconds
PER_MINUTE = 6
MINUTES = 120
USUAL = 100.0
"""Requests per second of each domain in `level_past`."""


def world_of(scenario: str | Scenario, seeds: tuple[int, ...] = (3, 4)) -> World:
    if isinstance(scenario, str):
        scenario = load_scenario(scenario, CLUSTER)
    return World(CLUSTER, scenario, list(seeds), POPULATION)


def level_past(environments: int = 1, domains: int = 2) -> Past:
    """Every minute of every day was the same."""
    shape = (environments, domains, DAYS, LEAD_MIN + MINUTES)
    return Past(
        days=np.full(shape, USUAL, np.float32),
        recent=np.full((environments, domains, LEAD_MIN), USUAL, np.float32),
        start_minute_of_week=2 * 1440 + 600,
        minutes=MINUTES,
    )


def observed(tick: int, rps: F32, pods: int = 2) -> Observation:
    """An observation of `rps` [E, A]; app i belongs to domain i."""
    environments, apps = rps.shape
    measured = np.zeros((environments, rows.SAMPLES, apps), np.float32)
    measured[:, rows.RPS] = rps
    measured[:, rows.MEMORY] = 1.0
    measured[:, rows.PODS] = pods
    status = np.zeros((environments, rows.STATUS, apps), np.int32)
    status[:, rows.ACTIVE] = 1
    status[:, rows.DOMAIN] = np.arange(apps)
    status[:, rows.READY] = pods
    return Observation(
        tick=np.full(environments, tick, np.int32),
        measured=measured,
        missing=np.zeros((environments, apps), np.int8),
        status=status,
        pool=np.zeros((environments, 1), POOL_STATUS),
    )
