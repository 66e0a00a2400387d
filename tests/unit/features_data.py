"""A synthetic cluster to look at: sane, or nothing that a cluster would say."""

from typing import Any

import numpy as np

from models.features.encode import Encoder
from models.features.memory import FeatureState
from models.features.normalise import Features, normalise
from models.features.table import APP
from models.sim.describe.config import load_cluster, with_apps
from models.sim.inventory import Inventory, declare
from models.sim.observe import SEEN_POOL, Observation
from models.sim.population.generate import generate
from models.sim.state import (
    ACTIVE,
    CPU,
    CPU_REQUEST,
    ERRORS,
    KNOWN,
    MEMORY,
    MEMORY_REQUEST,
    P50,
    P99,
    PENDING,
    PODS,
    READY,
    REPLICAS,
    RPS,
    SAMPLES,
    STARTING,
    THROUGHPUT,
)
from models.sim.state import DOMAIN as DOMAIN_ROW

CLUSTER_FILE = with_apps(load_cluster(), 60)
POPULATION = generate(CLUSTER_FILE)
INVENTORY = declare(POPULATION, CLUSTER_FILE)
APPS, DOMAINS = INVENTORY.domain.size, INVENTORY.tiers.size
GROUPS, POOLS = int(INVENTORY.tiers.sum()), INVENTORY.pool_cpu.size


def observation(rng: np.random.Generator, environments: int, tick: int = 1) -> Observation:
    """A busy but sane cluster."""
    shape = (environments, APPS)
    apps = POPULATION.apps
    replicas = np.broadcast_to(apps.start_replicas, shape)
    measured = np.zeros((environments, SAMPLES, APPS), np.float32)
    measured[:, RPS] = apps.mean_rps * rng.lognormal(0, 0.3, shape)
    measured[:, THROUGHPUT] = measured[:, RPS]
    measured[:, ERRORS] = 0.02 * rng.random(shape)
    measured[:, P50] = 0.01
    measured[:, P99] = np.minimum(apps.latency_target, 10) * rng.lognormal(-0.5, 0.5, shape)
    measured[:, CPU] = replicas * apps.cpu_request * rng.random(shape)
    measured[:, MEMORY] = replicas * apps.memory_request * 0.6
    measured[:, PODS] = replicas
    known = np.zeros((environments, KNOWN, APPS), np.int32)
    known[:, ACTIVE] = 1
    known[:, DOMAIN_ROW] = INVENTORY.domain
    known[:, REPLICAS] = known[:, READY] = replicas
    known[:, CPU_REQUEST] = 1000 * apps.cpu_request
    known[:, MEMORY_REQUEST] = 1024 * apps.memory_request
    known[:, STARTING] = rng.integers(0, 4, shape)
    known[:, PENDING] = rng.integers(0, 3, shape)
    pool = np.zeros((environments, POOLS), SEEN_POOL)
    pool["ready"], pool["coming"], pool["free_cpu"], pool["free_memory"] = 40, 2, 300, 900
    return Observation(
        tick=np.full(environments, tick, np.int32),
        measured=measured,
        missing=np.zeros(shape, np.int8),
        known=sealed(known),
        pool=pool,
    )


def sealed(known: Any) -> Any:
    known.flags.writeable = False
    return known


def with_known(seen: Observation, rows: dict[int, Any]) -> Observation:
    known = seen.known.copy()
    for row, values in rows.items():
        known[:, row] = values
    return seen._replace(known=sealed(known))


def garbage(rng: np.random.Generator, environments: int, tick: int) -> Observation:
    """What no cluster would say: any bits where numbers should be."""
    sane = observation(rng, environments, tick)
    odd = np.array([np.nan, np.inf, -np.inf, -1.0, 0.0, 3e38, 1e-38, 1e12, 7.0], np.float32)
    measured = np.where(
        rng.random(sane.measured.shape) < 0.3, rng.choice(odd, sane.measured.shape), sane.measured
    )
    wild = rng.integers(-(2**31), 2**31 - 1, sane.known.shape, np.int32)
    known = np.where(rng.random(sane.known.shape) < 0.3, wild, sane.known)
    pool = sane.pool.copy()
    pool["free_cpu"] = rng.choice(odd, pool.shape)
    pool["free_memory"] = rng.choice(odd, pool.shape)
    pool["ready"] = rng.integers(-(2**31), 2**31 - 1, pool.shape, np.int32)
    pool["coming"] = rng.integers(-5, 5, pool.shape)
    return Observation(
        tick=rng.integers(-(2**31), 2**31 - 1, environments, np.int32),
        measured=measured.astype(np.float32),
        missing=rng.integers(-1, 3, sane.missing.shape).astype(np.int8),
        known=sealed(known.astype(np.int32)),
        pool=pool,
    )


def encoded(*ticks: Observation, inventory: Inventory = INVENTORY) -> tuple[Features, FeatureState]:
    encoder = Encoder(inventory)
    memory = encoder.start(ticks[0])
    for seen in ticks:
        features, memory = encoder.encode(seen, memory)
    return features, memory


def app(features: Features, name: str) -> Any:
    return features.app[..., APP.at(name)]


def compile_kernels() -> None:
    """Once per process, so that no single test pays for it."""
    seen = observation(np.random.default_rng(0), 1)
    encoder = Encoder(INVENTORY)
    features, memory = encoder.encode(seen, encoder.start(seen))
    encoder.encode_apps(seen, memory)
    normalise(features)
