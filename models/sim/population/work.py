"""Service times, workers, memory use, latency targets and timeouts of the apps.

A pod has `workers_per_core` x CPU request workers. It has more while it bursts above its request,
but apps are sized without that. A request occupies a worker for cpu + io seconds.
"""

from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64, I32
from models.sim.apps import IO_BOUND, MEMORY_BOUND
from models.sim.config.physics import SimCluster
from models.sim.population.fitted import (
    Fitted,
    from_quantiles,
    generator,
    log_uniform,
    pick,
    truncated,
)
from models.sim.population.sizes import Pods
from models.sim.population.structure import Structure
from models.sim.queueing import response_quantile

_MAX_UTILISATION: Final = 0.78
"""Maximum utilisation that apps are sized for at their peak."""
_LEAST_MULTIPLE: Final = 9.0
"""Minimum of a target over the mean service time; the 99th percentile of service alone is 4.6."""
_LATENCY_MARGIN: Final = 1.3
"""Margin over the 99th percentile at the sized occupation, for noise and churn."""
_PER_LEVEL: Final = 0.35
"""Part of a target that each level of callees uses up."""
_FASTEST_S: Final = 0.0005
_FASTEST_OVER_LONGEST: Final = 1 / 6
"""Service times are at least this share of the longest one that meets the target: owners set
targets to match their app's speed."""
_FASTEST_QUEUED_OVER_LONGEST: Final = 1 / 60
_LEAKING_SHARE: Final = 0.1
"""Of the memory-bound apps."""


class Work(NamedTuple):
    """Cost of requests and capacity of pods. Each array is [apps]."""

    cpu_seconds: F64
    io_seconds: F64
    workers_per_core: F64
    occupation: F64
    """Share of busy workers that the app is sized for."""
    cpu_use: F64
    """CPU used over CPU requested at that occupation."""
    latency_target: F64
    timeout: F64

    def rps_per_pod(self, pods: Pods) -> F64:
        """Requests per second that a pod serves at the sized occupation."""
        workers = self.workers_per_core * pods.cpu
        return workers * self.occupation / (self.cpu_seconds + self.io_seconds)


class MemoryUse(NamedTuple):
    """GiB of a pod. Each array is [apps]."""

    base: F64
    per_request: F64
    leak_per_hour: F64


def draw_work(
    cluster: SimCluster, fitted: Fitted, structure: Structure, pods: Pods, peak: I32
) -> Work:
    """Draw the occupation, then service times short enough for the target at that occupation."""
    rng = generator(cluster.physics.population.seed, "work")
    apps, io_bound = len(peak), pods.bound == IO_BOUND
    # IO-bound apps run out of workers before they use their CPU request, the others do not.
    io_part = np.where(io_bound, rng.uniform(0.6, 0.9, apps), rng.uniform(0, 0.25, apps))
    full_use = np.where(io_bound, rng.uniform(0.45, 0.7, apps), 1.0)
    io_occupation = rng.uniform(0.62, 0.72, apps)
    use = np.where(io_bound, io_occupation * full_use, 0.0)
    # The others make up for the low CPU use of IO-bound apps, as far as their queues allow.
    hot = np.minimum(_MAX_UTILISATION, _compensating_use(cluster, pods, peak, use))
    use = np.where(io_bound, use, hot)
    occupation = np.where(io_bound, io_occupation, use)
    # At full occupation these workers use `full_use` of the CPU request.
    per_core = full_use / (1 - io_part)
    target, timeout = _targets_and_timeouts(cluster, structure)
    workers = np.maximum(1, np.floor(peak * pods.cpu * per_core))
    seconds = _service_seconds(cluster, fitted, structure, target, (workers, occupation))
    return Work(
        cpu_seconds=seconds * (1 - io_part),
        io_seconds=seconds * io_part,
        workers_per_core=per_core,
        occupation=occupation,
        cpu_use=use,
        latency_target=np.where(structure.best_effort, np.inf, target),
        timeout=timeout,
    )


def _compensating_use(cluster: SimCluster, pods: Pods, peak: I32, io_use: F64) -> float:
    """CPU over request of apps that are not IO-bound, such that the cluster's mean is `cpu_use`.

    That mean is over allocatable cores; requests fill the pools up to their headroom.
    """
    packed = 1 - float(np.mean([pool.headroom for pool in cluster.pool_physics]))
    cores = peak * pods.cpu
    busy = cores[pods.bound != IO_BOUND].sum()
    wanted = cluster.physics.population.cpu_use / packed * cores.sum() - (cores * io_use).sum()
    return float(np.clip(wanted / max(busy, 1e-9), 0.3, 0.88))


def _targets_and_timeouts(cluster: SimCluster, structure: Structure) -> tuple[F64, F64]:
    """Targets and timeouts in seconds: looser in outer tiers, which include callees' latency."""
    rng = generator(cluster.physics.population.seed, "target")
    depth = structure.tier / np.maximum(structure.tiers - 1, 1)
    factor = np.clip(1.45 - 0.65 * depth + rng.uniform(-0.2, 0.15, len(depth)), 0.6, 1.6)
    target, timeout = factor * structure.target, factor * structure.timeout
    # A target beyond the callers' timeout would be meaningless.
    return np.where(timeout <= target, 0.5 * timeout, target), timeout


def _service_seconds(
    cluster: SimCluster,
    fitted: Fitted,
    structure: Structure,
    target: F64,
    queue: tuple[F64, F64],
) -> F64:
    """Log-normal, truncated to what allows the app to meet its target."""
    rng = generator(cluster.physics.population.seed, "service-time")
    workers, occupation = queue
    # The exact formula takes a step per server, and beyond 512 the quantile hardly changes.
    slowest = response_quantile(np.minimum(workers, 512), occupation, 0.99)
    multiple = np.maximum(_LEAST_MULTIPLE, _LATENCY_MARGIN * slowest)
    # A path inside a domain has at most four apps, see `calls`.
    levels = np.minimum(structure.tiers - 1 - structure.tier, 3)
    allowed = np.minimum(target, structure.inline_target)
    longest = allowed / (multiple * (1 + _PER_LEVEL * levels))
    slow = structure.queued & ~structure.inline
    part = np.where(slow, _FASTEST_QUEUED_OVER_LONGEST, _FASTEST_OVER_LONGEST)
    fastest = np.maximum(_FASTEST_S, part * longest)
    quick = truncated(rng, fitted.service_times.interactive, fastest, longest)
    queued = truncated(rng, fitted.service_times.queued, fastest, longest)
    return np.where(slow, queued, quick)


def draw_memory(cluster: SimCluster, fitted: Fitted, pods: Pods, work: Work) -> MemoryUse:
    """Memory at full occupation as a share of the request, split into base and per request."""
    rng = generator(cluster.physics.population.seed, "memory")
    apps, memory_bound = len(pods.cpu), pods.bound == MEMORY_BOUND
    tight, easy = rng.uniform(0.75, 0.92, apps), rng.uniform(0.4, 0.7, apps)
    full = np.where(memory_bound, tight, easy) * pods.memory
    growth = np.clip(from_quantiles(rng, fitted.memory.growth, apps), 0.02, 0.6)
    workers = work.workers_per_core * pods.cpu
    leaking = pick(rng, memory_bound.astype(float), round(_LEAKING_SHARE * memory_bound.sum()))
    hours = log_uniform(rng, 12, 200, apps)
    return MemoryUse(
        base=full * (1 - growth),
        per_request=full * growth / workers,
        leak_per_hour=np.where(leaking & memory_bound, (pods.memory - full) / hours, 0.0),
    )
