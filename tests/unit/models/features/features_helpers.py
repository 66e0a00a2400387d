"""Observations of a synthetic cluster: plausible ones and arbitrary garbage."""

from typing import Any

import numpy as np

from models.cluster import rows
from models.cluster.inventory import Inventory
from models.cluster.observation import POOL_STATUS, Observation
from models.features.encode import Encoder
from models.features.memory import FeatureState
from models.features.normalise import Features, normalise
from models.features.table import APP
from models.sim.config.physics import load_sim_cluster, with_apps
from models.sim.declarations import declare
from models.sim.population.generate import generate

CLUSTER_FILE = with_apps(load_sim_cluster(), 60)
POPULATION = generate(CLUSTER_FILE)
INVENTORY = declare(POPULATION, CLUSTER_FILE, [0])
APPS, DOMAINS = INVENTORY.domain.size, INVENTORY.tiers.size
GROUPS, POOLS = int(INVENTORY.tiers.sum()), INVENTORY.pool_cpu.size


def observation(rng: np.random.Generator, environments: int, tick: int = 1) -> Observation:
    """A busy but sane cluster."""
    shape = (environments, APPS)
    apps = POPULATION.apps
    replicas = np.broadcast_to(apps.start_replicas, shape)
    measured = np.zeros((environments, rows.SAMPLES, APPS), np.float32)
    measured[:, rows.RPS] = apps.mean_rps * rng.lognormal(0, 0.3, shape)
    measured[:, rows.THROUGHPUT] = measured[:, rows.RPS]
    measured[:, rows.ERRORS] = 0.02 * rng.random(shape)
    measured[:, rows.P50] = 0.01
    measured[:, rows.P99] = np.minimum(apps.latency_target, 10) * rng.lognormal(-0.5, 0.5, shape)
    measured[:, rows.CPU] = replicas * apps.cpu_request * rng.random(shape)
    measured[:, rows.MEMORY] = replicas * apps.memory_request * 0.6
    measured[:, rows.PODS] = replicas
    status = np.zeros((environments, rows.STATUS, APPS), np.int32)
    status[:, rows.ACTIVE] = 1
    status[:, rows.DOMAIN] = INVENTORY.domain
    status[:, rows.REPLICAS] = status[:, rows.READY] = replicas
    status[:, rows.CPU_REQUEST] = 1000 * apps.cpu_request
    status[:, rows.MEMORY_REQUEST] = 1024 * apps.memory_request
    status[:, rows.STARTING] = rng.integers(0, 4, shape)
    status[:, rows.PENDING] = rng.integers(0, 3, shape)
    pool = np.zeros((environments, POOLS), POOL_STATUS)
    pool["ready"], pool["coming"], pool["free_cpu"], pool["free_memory"] = 40, 2, 300, 900
    return Observation(
        tick=np.full(environments, tick, np.int32),
        measured=measured,
        missing=np.zeros(shape, np.int8),
        status=read_only(status),
        pool=pool,
    )


def read_only(status: Any) -> Any:
    status.flags.writeable = False
    return status


def with_status(observed: Observation, values: dict[int, Any]) -> Observation:
    status = observed.status.copy()
    for row, column in values.items():
        status[:, row] = column
    return observed._replace(status=read_only(status))


def garbage(rng: np.random.Generator, environments: int, tick: int) -> Observation:
    """Impossible values of every kind: any bits where numbers should be."""
    sane = observation(rng, environments, tick)
    odd = np.array([np.nan, np.inf, -np.inf, -1.0, 0.0, 3e38, 1e-38, 1e12, 7.0], np.float32)
    measured = np.where(
        rng.random(sane.measured.shape) < 0.3, rng.choice(odd, sane.measured.shape), sane.measured
    )
    wild = rng.integers(-(2**31), 2**31 - 1, sane.status.shape, np.int32)
    status = np.where(rng.random(sane.status.shape) < 0.3, wild, sane.status)
    pool = sane.pool.copy()
    pool["free_cpu"] = rng.choice(odd, pool.shape)
    pool["free_memory"] = rng.choice(odd, pool.shape)
    pool["ready"] = rng.integers(-(2**31), 2**31 - 1, pool.shape, np.int32)
    pool["coming"] = rng.integers(-5, 5, pool.shape)
    return Observation(
        tick=rng.integers(-(2**31), 2**31 - 1, environments, np.int32),
        measured=measured.astype(np.float32),
        missing=rng.integers(-1, 3, sane.missing.shape).astype(np.int8),
        status=read_only(status.astype(np.int32)),
        pool=pool,
    )


def encoded(*ticks: Observation, inventory: Inventory = INVENTORY) -> tuple[Features, FeatureState]:
    encoder = Encoder(inventory)
    memory = encoder.start(ticks[0])
    for observed in ticks:
        features, memory = encoder.encode(observed, memory)
    return features, memory


def app(features: Features, name: str) -> Any:
    return features.app[..., APP.at(name)]


def compile_kernels() -> None:
    """Once per process, so that no single test pays for it."""
    observed = observation(np.random.default_rng(0), 1)
    encoder = Encoder(INVENTORY)
    features, memory = encoder.encode(observed, encoder.start(observed))
    encoder.encode_apps(observed, memory)
    normalise(features)
