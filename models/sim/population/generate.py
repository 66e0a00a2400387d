"""Generate the apps of a cluster from its physics and the fitted parameters.

A function of the cluster alone: the same files give the same apps on every machine. Peak replicas
are drawn first and traffic follows from them, so that the cluster has the configured size and
utilisation.
"""

from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64, I32
from models.sim.apps import Apps, Calls, Population
from models.sim.config.physics import SimCluster
from models.sim.population.calls import draw_calls, inflow, reachable
from models.sim.population.fitted import Fitted, load_fitted
from models.sim.population.sizes import Pods, draw_pods, peak_replicas
from models.sim.population.structure import Structure, draw_structure
from models.sim.population.traits import (
    Rhythm,
    draw_rhythm,
    over_peak,
    pod_classes,
    relative_starts,
    request_mix,
    retry_budgets,
    retry_shares,
)
from models.sim.population.work import MemoryUse, Work, draw_memory, draw_work

__all__ = ["generate", "reachable"]

_MAX_OVER_PEAK: Final = 4
_STEP_MINUTES: Final = 10


class _Drawn(NamedTuple):
    """All draws, before they become arrays for kernels."""

    structure: Structure
    pods: Pods
    peak: I32
    work: Work
    memory: MemoryUse
    rhythm: Rhythm
    curves: F64
    mean_rps: F64


def generate(cluster: SimCluster, fitted: Fitted | None = None) -> Population:
    """The apps, ordered by domain and tier, and their calls."""
    fit = fitted or load_fitted()
    structure = draw_structure(cluster)
    curves = fit.profiles.curves()
    rhythm = draw_rhythm(cluster, fit, structure, curves)
    # Steps of ten minutes are enough to find peaks of smooth profiles.
    shape = over_peak(curves, rhythm, _STEP_MINUTES)
    pods = draw_pods(cluster, fit, structure)
    peak = peak_replicas(cluster, fit, structure, pods, shape)
    work = draw_work(cluster, fit, structure, pods, peak)
    memory = draw_memory(cluster, fit, pods, work)
    # Traffic that keeps the peak replicas at the sized occupation.
    mean_rps = peak * work.rps_per_pod(pods) * shape.mean(axis=1)
    # After traffic, because calls are a part of it: `own_rps` is what is left.
    calls = draw_calls(cluster, fit, structure, mean_rps)
    drawn = _Drawn(structure, pods, peak, work, memory, rhythm, curves, mean_rps)
    return Population(_assemble(cluster, drawn, calls), calls)


def _assemble(cluster: SimCluster, drawn: _Drawn, calls: Calls) -> Apps:
    structure, pods, work, memory, rhythm = (
        drawn.structure,
        drawn.pods,
        drawn.work,
        drawn.memory,
        drawn.rhythm,
    )
    image, boot = relative_starts(cluster, len(structure.domain))
    start = _start_replicas(drawn)
    limits = [domain.limits for domain in cluster.domain_physics]
    cpu_limit = np.array([limit.cpu_ratio for limit in limits], np.float32)
    memory_limit = np.array([limit.memory_ratio for limit in limits], np.float32)
    return Apps(
        domain=structure.domain.astype(np.int16),
        tier=structure.tier.astype(np.int16),
        pod_class=pod_classes(cluster, structure),
        bound=pods.bound,
        best_effort=structure.best_effort.astype(np.int8),
        cpu_request=pods.cpu.astype(np.float32),
        cpu_limit_ratio=cpu_limit[structure.domain],
        memory_request=pods.memory.astype(np.float32),
        memory_limit_ratio=memory_limit[structure.domain],
        min_replicas=pods.min_replicas,
        max_replicas=_MAX_OVER_PEAK * np.maximum(drawn.peak, start),
        start_replicas=start,
        cpu_seconds=work.cpu_seconds.astype(np.float32),
        io_seconds=work.io_seconds.astype(np.float32),
        workers_per_core=work.workers_per_core.astype(np.float32),
        memory_base=memory.base.astype(np.float32),
        memory_per_request=memory.per_request.astype(np.float32),
        memory_leak=memory.leak_per_hour.astype(np.float32),
        latency_target=work.latency_target.astype(np.float32),
        timeout=work.timeout.astype(np.float32),
        retry_share=retry_shares(cluster, structure).astype(np.float32),
        retry_budget=retry_budgets(cluster, len(structure.domain)).astype(np.float32),
        mean_rps=drawn.mean_rps.astype(np.float32),
        own_rps=(drawn.mean_rps - inflow(calls, drawn.mean_rps)).astype(np.float32),
        day_profile=rhythm.profile,
        day_shift=rhythm.shift,
        noise=rhythm.noise.astype(np.float32),
        bursts_per_day=rhythm.bursts_per_day.astype(np.float32),
        burst_size=rhythm.burst_size.astype(np.float32),
        image_pull=image.astype(np.float32),
        boot=boot.astype(np.float32),
        request_mix=request_mix(cluster, structure).astype(np.float32),
        day_profiles=drawn.curves.astype(np.float32),
    )


def _start_replicas(drawn: _Drawn) -> I32:
    """Replicas for the mean weekday traffic, rounded up as an autoscaler does."""
    # Rounding errors must not add a replica.
    needed = np.ceil(drawn.mean_rps / drawn.work.rps_per_pod(drawn.pods) - 1e-6)
    return np.maximum(needed, drawn.pods.min_replicas).astype(np.int32)
