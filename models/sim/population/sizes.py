"""Pod sizes and kinds, replicas at the daily peak and minimum replicas."""

from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64, I8, I32
from models.sim.apps import CPU_BOUND, IO_BOUND, MEMORY_BOUND
from models.sim.config.physics import SimCluster
from models.sim.population.fitted import Fitted, from_quantiles, generator, pick, weighted_index
from models.sim.population.structure import Structure

_IO_SHARE: Final = 0.20
_MEMORY_SHARE: Final = 0.15
_RIGHT_SIZED: Final = 0.7
"""Memory request over the fitted size, unless the app is memory-bound.

The fitted sizes come from a serverless platform with 4 GiB per core by default. On nodes with 3 to
4 GiB per core such requests would strand half the cores.
"""
_MEMORY_STEP: Final = 1 / 32
"""GiB."""
_LARGEST_APP: Final = 0.015
"""Maximum share of all pods in one app, ..."""
_LARGEST_OVER_MEAN: Final = 3.0
"""... or, in small clusters, maximum multiple of the mean of its domain."""
_LEAST_CORES: Final = 2.5
"""Minimum cores of an app at its peak: a queue with one server cannot run at high utilisation."""
_LEAST_AT_PEAK: Final = 0.5
"""A domain that is idle at the cluster's peak grows to at most twice its share."""


class Pods(NamedTuple):
    """A pod's size and kind per app."""

    bound: I8
    cpu: F64
    """Cores requested."""
    memory: F64
    """GiB requested."""
    min_replicas: I32


def draw_pods(cluster: SimCluster, fitted: Fitted, structure: Structure) -> Pods:
    """Sizes from the fitted joint distribution, kinds by their share, minima from real settings."""
    seed, apps = cluster.physics.population.seed, len(structure.domain)
    sizes = fitted.pod_sizes
    row = weighted_index(np.array(sizes.share), generator(seed, "pod-size").random(apps))
    cpu = np.minimum(np.array(sizes.cpu_cores)[row], structure.most_cpu)
    memory = np.array(sizes.memory_gib)[row]
    bound = _kinds(generator(seed, "bound"), memory / cpu)
    memory = np.where(bound == MEMORY_BOUND, memory, _RIGHT_SIZED * memory)
    memory = np.ceil(np.minimum(memory, structure.most_memory) / _MEMORY_STEP) * _MEMORY_STEP
    return Pods(bound, cpu, memory, _min_replicas(cluster, fitted, structure))


def _kinds(rng: np.random.Generator, gib_per_core: F64) -> I8:
    """Memory-bound by weight of memory per core; IO-bound any of the others."""
    apps = len(gib_per_core)
    memory = pick(rng, gib_per_core, round(_MEMORY_SHARE * apps))
    io = pick(rng, (~memory).astype(float), round(_IO_SHARE * apps))
    return np.select([memory, io], [MEMORY_BOUND, IO_BOUND], CPU_BOUND).astype(np.int8)


def _min_replicas(cluster: SimCluster, fitted: Fitted, structure: Structure) -> I32:
    """Fitted minima, but at least one replica, and two for P0 and P1."""
    rng = generator(cluster.physics.population.seed, "min-replicas")
    row = weighted_index(np.array(fitted.min_replicas.share), rng.random(len(structure.domain)))
    least = np.where(structure.priority <= 1, 2, 1)
    configured = np.array(fitted.min_replicas.replicas, np.int32)[row]
    return np.maximum(configured, least).astype(np.int32)


def peak_replicas(
    cluster: SimCluster, fitted: Fitted, structure: Structure, pods: Pods, shape: F64
) -> I32:
    """Replicas at each app's own daily peak, so that the cluster has `pods_at_peak` at its peak.

    `shape` is [apps, steps]: traffic over its daily peak. Apps peak at different times, so the
    peaks of a domain's apps add up to more than its share of the cluster's peak.
    """
    rng = generator(cluster.physics.population.seed, "replicas")
    relative = from_quantiles(rng, fitted.traffic.over_median, len(structure.domain))
    # Entry apps that other domains call have to carry the calls as well.
    relative = relative * structure.popularity
    shares = np.array([spec.pod_share for spec in cluster.domain_physics])
    wanted = shares * cluster.physics.population.pods_at_peak
    # Fill once to find the time of the cluster's peak, then again for the pods at that time.
    first = _fill_domains(cluster, structure, pods, relative, wanted)
    peak = int((first[:, None] * shape).sum(axis=0).argmax())
    present = np.bincount(structure.domain, first * shape[:, peak], len(shares))
    at_peak = present / np.bincount(structure.domain, first, len(shares))
    return _fill_domains(
        cluster, structure, pods, relative, wanted / np.maximum(at_peak, _LEAST_AT_PEAK)
    )


def _fill_domains(
    cluster: SimCluster, structure: Structure, pods: Pods, relative: F64, wanted: F64
) -> I32:
    replicas = np.zeros(len(relative), dtype=np.int32)
    most = _LARGEST_APP * cluster.physics.population.pods_at_peak
    for domain, pods_wanted in enumerate(wanted.tolist()):
        own = structure.domain == domain
        cap = max(most, _LARGEST_OVER_MEAN * pods_wanted / max(int(own.sum()), 1))
        least = np.maximum(2, pods.min_replicas[own]).astype(float)
        roomy = np.maximum(least, np.ceil(_LEAST_CORES / pods.cpu[own]))
        # In a tiny cluster the comfortable minimum would exceed the domain's pods.
        floor = roomy if roomy.sum() < 0.5 * pods_wanted else least
        replicas[own] = _fill(relative[own], floor, np.maximum(cap, floor), pods_wanted)
    return replicas


def _fill(relative: F64, floor: F64, cap: F64, total: float) -> I32:
    """Integers in proportion to `relative`, within bounds, that sum to about `total`."""
    low, high = 0.0, float(np.max(cap / relative))
    # Sixty halvings use up the precision of a float64.
    for _ in range(60):
        middle = 0.5 * (low + high)
        too_many = np.clip(middle * relative, floor, cap).sum() > total
        low, high = (low, middle) if too_many else (middle, high)
    return np.rint(np.clip(low * relative, floor, cap)).astype(np.int32)
