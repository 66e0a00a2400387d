"""Small worlds with a known right answer: hand-made apps, and no randomness except arrivals."""

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec.structs import replace
from numpy.typing import ArrayLike

from models.cluster.description import Pool
from models.cluster.inventory import REQUEST_TYPES
from models.sim.apps import CPU_BOUND, Apps, Calls, Population
from models.sim.config.events import Event
from models.sim.config.physics import (
    Churn,
    PodStop,
    PoolPhysics,
    Retries,
    Serving,
    SimCluster,
    load_sim_cluster,
)
from models.sim.config.scenario import Scenario

IDEAL = {
    "serving": Serving(imbalance=0.0, quota_period_s=0.0),
    "pod_stop": PodStop(grace_s=0.0),
    "retries": Retries(back_off_s=0.0, breaker_share=0.0),
}
"""Perfect balancers, no throttling, retries in the next tick, and pods that stop at once."""
STILL = Churn(
    deploys_per_app_per_day=0.0,
    crashes_per_pod_per_day=0.0,
    node_evictions_per_day=0.0,
    spot_reclaims_per_day=0.0,
)
# Columns that are not float32.
_TYPES = {
    "domain": np.int16,
    "tier": np.int16,
    "pod_class": np.int8,
    "bound": np.int8,
    "best_effort": np.int8,
    "min_replicas": np.int32,
    "max_replicas": np.int32,
    "start_replicas": np.int32,
    "day_profile": np.int16,
    "day_shift": np.int16,
}
# Short requests, a generous timeout and no noise: whatever happens is due to the test.
_PLAIN: Mapping[str, float] = {
    "domain": 0,
    "tier": 0,
    "pod_class": 1,
    "bound": CPU_BOUND,
    "best_effort": 0,
    "cpu_request": 1,
    "cpu_limit_ratio": 1,
    "memory_request": 1,
    "memory_limit_ratio": 1,
    "min_replicas": 1,
    "max_replicas": 100_000,
    "start_replicas": 1,
    "cpu_seconds": 1e-4,
    "io_seconds": 0,
    "workers_per_core": 1,
    "memory_base": 0.1,
    "memory_per_request": 0,
    "memory_leak": 0,
    "latency_target": 1,
    "timeout": 1000,
    "retry_share": 0,
    "retry_budget": np.inf,
    "mean_rps": 1000,
    "own_rps": 1000,
    "day_profile": 0,
    "day_shift": 0,
    "noise": 0,
    "bursts_per_day": 0,
    "burst_size": 0,
    "image_pull": 1,
    "boot": 1,
}


def plain_apps(apps: int, calls: Calls | None = None, **columns: ArrayLike) -> Population:
    """Equal apps with a constant load, except for the given columns."""
    values: dict[str, ArrayLike] = {**_PLAIN, **columns}
    arrays = {
        # Copied, because broadcast arrays are read-only.
        name: np.broadcast_to(np.asarray(value, _TYPES.get(name, np.float32)), apps).copy()
        for name, value in values.items()
    }
    # The mix matters only when a scenario shifts it, so any will do.
    kinds = len(REQUEST_TYPES)
    return Population(
        Apps(
            **arrays,
            request_mix=np.full((apps, kinds), 1 / kinds, np.float32),
            day_profiles=np.ones((1, 1440), np.float32),
        ),
        calls or no_calls(),
    )


def no_calls() -> Calls:
    """No edges."""
    return one_call(0, 0, 0.0, 0, edges=0)


def one_call(caller: int, callee: int, per_request: float, guard: int, edges: int = 1) -> Calls:
    """A single edge of the call graph."""
    return Calls(
        caller=np.full(edges, caller, np.int32),
        callee=np.full(edges, callee, np.int32),
        per_request=np.full(edges, per_request, np.float32),
        guard=np.full(edges, guard, np.int8),
        cross_domain=np.zeros(edges, np.int8),
    )


def still_cluster(pods: int, headroom: float = 0.5, max_nodes: float = 1.0) -> SimCluster:
    """The example cluster with all its domains in one pool, ideal and without churn and noise."""
    base = load_sim_cluster()
    physics = replace(
        base.physics,
        pools={"only": PoolPhysics(headroom=headroom, max_nodes=max_nodes)},
        churn=STILL,
        **IDEAL,
        pod_start=replace(base.physics.pod_start, cold_speed=1.0),
        metrics=replace(base.physics.metrics, noise=0.0, missing_share=0.0),
        population=replace(base.physics.population, pods_at_peak=pods),
    )
    return replace(
        base,
        domains=tuple(replace(domain, pools=("only",)) for domain in base.domains),
        pools=(Pool(name="only", machine=base.pools[0].machine),),
        physics=physics,
    )


def still_scenario(events: Sequence[Event] = (), minutes: int = 60) -> Scenario:
    """A weekday with only `events`, accounted from the first tick."""
    return Scenario(
        name="still",
        shows="The effect of an event when nothing else happens.",
        start="Tue 10:00",
        length_minutes=minutes,
        warmup_minutes=0,
        events=tuple(events),
    )
