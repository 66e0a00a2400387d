"""The cluster and its physics compiled for kernels: array sizes, node slots, times in ticks."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from models.cluster.arrays import F32, I32, MIB_PER_GIB, MILLI, Records, records
from models.cluster.description import MARKETS, PRIORITIES, Domain, Machine
from models.cluster.inventory import domain_pools
from models.sim.apps import Population
from models.sim.config.physics import Churn, Physics, PodStart, Provisioner, Scheduler, SimCluster

_GROUPS_PER_POD = 1.3
"""Groups hold one pod or more, so this is enough even when the cluster grows."""
# An app adds at most an entry per tick; `pods.enqueue` merges entries when the queue is full.
_QUEUE_ENTRIES_PER_APP = 12
_LAUNCH_ENTRIES = 256


class Layout(NamedTuple):
    """Lengths of the state's axes."""

    nodes: int
    groups: int
    queue: int
    pools: int
    domains: int
    launches: int


class ClusterRules(NamedTuple):
    """Constants of the kernels; times are ticks, CPU is millicores, memory is MiB."""

    physics: Records
    """[1] single numbers, see `_physics`."""
    pools: Records
    """[P] see `_pools`."""
    pool_price: F32
    """[P, markets] money per node-hour."""
    domains: Records
    """[D] priority, weight of that priority in J, floor share."""
    domain_pools: I32
    """[D, choices] preferred first, -1 where there are fewer."""
    node_pool: I32
    """[N] pool of each node slot."""


def compile_rules(
    cluster: SimCluster, population: Population, replicas: I32
) -> tuple[Layout, ClusterRules]:
    """Size the pools for `replicas` pods per app, and convert times to ticks."""
    first, start, end = _slots(cluster, population, replicas)
    layout = Layout(
        nodes=int(end[-1]),
        groups=int(cluster.physics.population.pods_at_peak * _GROUPS_PER_POD) + 64,
        queue=_QUEUE_ENTRIES_PER_APP * replicas.size,
        pools=len(cluster.pools),
        domains=len(cluster.domains),
        launches=_LAUNCH_ENTRIES,
    )
    return layout, _rules(cluster, first, start, end)


def _slots(cluster: SimCluster, population: Population, replicas: I32) -> tuple[I32, I32, I32]:
    """First slot, initial nodes and end slot of each pool."""
    start = np.array([_start_nodes(cluster, population, replicas, p) for p in cluster.pool_names])
    # Quotas are for the daily peak, also when a scenario starts at night.
    growth = max(1.0, cluster.physics.population.pods_at_peak / float(replicas.sum()))
    quota = growth * np.array([pool.max_nodes for pool in cluster.pool_physics])
    # At least one slot more than the initial nodes, so that every pool can grow.
    slots = np.maximum(np.ceil(start * quota), start + 1).astype(np.int32)
    end = np.cumsum(slots).astype(np.int32)
    return (end - slots).astype(np.int32), start.astype(np.int32), end


def _start_nodes(cluster: SimCluster, population: Population, replicas: I32, pool_name: str) -> int:
    """Nodes that hold the pool's share of the pods and leave its headroom free."""
    pool = cluster.pools[cluster.pool_names.index(pool_name)]
    machine = cluster.machine_of(pool)
    apps = population.apps
    share = np.array([_pool_share(cluster, domain, pool_name) for domain in cluster.domains])
    pods = replicas * share[apps.domain]
    cpu = float((pods * apps.cpu_request).sum())
    memory = float((pods * apps.memory_request).sum())
    # The scarcest of CPU, memory and pod slots decides.
    nodes = max(
        cpu / (machine.cpu_cores - machine.reserved_cpu_cores),
        memory / (machine.memory_gib - machine.reserved_memory_gib),
        float(pods.sum()) / machine.max_pods,
    )
    return max(1, math.ceil(nodes / (1 - cluster.physics.pools[pool_name].headroom)))


def spill_share(cluster: SimCluster, domain: Domain) -> float:
    """Share of a domain's pods that run in its shared pools at tick 0."""
    names = domain.pools[1:]
    shared = (name for name in cluster.pool_names if name in names)
    return sum(cluster.physics.pools[name].pod_share for name in shared)


def _pool_share(cluster: SimCluster, domain: Domain, pool_name: str) -> float:
    if pool_name == domain.pools[0]:
        return 1 - spill_share(cluster, domain)
    if pool_name in domain.pools:
        return cluster.physics.pools[pool_name].pod_share
    return 0.0


def _rules(cluster: SimCluster, first: I32, start: I32, end: I32) -> ClusterRules:
    domains = cluster.domains
    slots = np.arange(end[-1])
    pool_of = np.searchsorted(end, slots, side="right")
    market_price = np.array([getattr(cluster.prices, market) for market in MARKETS])
    node_price = np.array([cluster.machine_of(pool).price_per_hour for pool in cluster.pools])
    return ClusterRules(
        physics=records(_physics(cluster), (1,)),
        pools=records(_pools(cluster, first, start, end), start.shape),
        pool_price=np.outer(node_price, market_price).astype(np.float32),
        domains=records(
            {
                "priority": [PRIORITIES.index(d.priority) for d in domains],
                "weight": [cluster.priority_weights[d.priority] for d in domains],
                "floor": [d.floor_share for d in domains],
            },
            (len(domains),),
        ),
        domain_pools=domain_pools(cluster),
        node_pool=pool_of.astype(np.int32),
    )


def _pools(cluster: SimCluster, first: I32, start: I32, end: I32) -> dict[str, ArrayLike]:
    machines = [cluster.machine_of(pool) for pool in cluster.pools]
    markets = [pool.markets for pool in cluster.pools]
    reserved = np.array([market.reserved for market in markets])
    # Slots are the quota, a multiple of the nodes at the daily peak.
    peak = (end - first) / np.array([pool.max_nodes for pool in cluster.pool_physics])
    return {
        "first": first,  # node slot
        "end": end,  # one past the last node slot
        "start_nodes": start,
        "cpu": [_allocatable_cpu(machine) for machine in machines],
        "memory": [_allocatable_memory(machine) for machine in machines],
        "max_pods": [machine.max_pods for machine in machines],
        # Paid for whether they run or not.
        "reserved": np.floor(peak * reserved).astype(np.int32),
        # Of the nodes above the reserved ones.
        "spot_share": [market.spot / max(1e-9, 1 - market.reserved) for market in markets],
    }


def _allocatable_cpu(machine: Machine) -> int:
    return round((machine.cpu_cores - machine.reserved_cpu_cores) * MILLI)


def _allocatable_memory(machine: Machine) -> int:
    return round((machine.memory_gib - machine.reserved_memory_gib) * MIB_PER_GIB)


def _physics(cluster: SimCluster) -> dict[str, ArrayLike]:
    tick = float(cluster.tick_seconds)
    return {
        "tick_s": tick,
        "ticks_per_minute": max(1, round(60 / tick)),
        "zones": len(cluster.physics.zones),
        # Of the smallest machine, so that a resized pod fits a node of every pool.
        "largest_cpu": min(_allocatable_cpu(machine) for machine in cluster.machines),
        "largest_memory": min(_allocatable_memory(machine) for machine in cluster.machines),
        "spend_cap_per_tick": cluster.spend_cap_per_hour * tick / 3600,
        "metric_noise": cluster.physics.metrics.noise,
        "missing_share": cluster.physics.metrics.missing_share,
        **_scheduling_physics(cluster.physics.scheduler, cluster.physics.provisioner, tick),
        **_serving_physics(cluster.physics, tick),
        **_lifecycle_physics(cluster.physics.pod_start, cluster.physics.churn, tick),
    }


def _scheduling_physics(
    scheduler: Scheduler, prov: Provisioner, tick: float
) -> dict[str, ArrayLike]:
    return {
        "by_priority": int(scheduler.order == "priority"),
        "preemption": int(scheduler.preemption),
        "placements_per_tick": max(1, round(scheduler.pods_per_second * tick)),
        # The tick in which pods are needed is part of the window.
        "batch_ticks": max(0, math.ceil(prov.batch_window_s / tick) - 1),
        "requests_per_tick": max(1, round(prov.requests_per_second * tick)),
        "launches_per_tick": prov.launches_per_second * tick,
        "boot_s": prov.boot_s,
        "boot_contention": prov.boot_contention,
        "contention_half": prov.contention_half,
        "low_use": prov.scale_down_utilisation,
        "low_ticks": math.ceil(prov.scale_down_after_s / tick),
        "drains_per_minute": prov.scale_down_nodes_per_minute,
    }


def _serving_physics(physics: Physics, tick: float) -> dict[str, ArrayLike]:
    start, retries = physics.pod_start, physics.retries
    return {
        "grace_ticks": math.ceil(physics.pod_stop.grace_s / tick),
        "cold_share": np.float32(1 - start.cold_speed),
        "cold_left": np.float32(math.exp(-tick / start.cold_s) if start.cold_s > 0 else 0.0),
        "imbalance": np.float32(physics.serving.imbalance),
        "quota_period_s": np.float32(physics.serving.quota_period_s),
        # Share of the waiting retries that come in a tick.
        "retry_release": np.float32(
            1 - math.exp(-tick / retries.back_off_s) if retries.back_off_s > 0 else 1.0
        ),
        "breaker_threshold": np.float32(retries.breaker_threshold),
        "breaker_share": np.float32(retries.breaker_share),
    }


def _lifecycle_physics(pods: PodStart, churn: Churn, tick: float) -> dict[str, ArrayLike]:
    per_minute = 1 / (24 * 60)
    return {
        "image_pull_s": pods.image_pull_s,
        "image_cached_share": pods.image_cached_share,
        "pod_boot_s": pods.boot_s + pods.warm_up_s,
        "start_sigma": pods.sigma,
        "readiness_s": pods.readiness_period_s,
        "restart_ticks": max(1, math.ceil(churn.restart_s / tick)),
        "max_surge": churn.max_surge,
        "max_unavailable": churn.max_unavailable,
        # Chances per minute.
        "deploy_chance": churn.deploys_per_app_per_day * per_minute,
        "crash_chance": churn.crashes_per_pod_per_day * per_minute,
        "eviction_chance": churn.node_evictions_per_day * per_minute,
        "reclaim_chance": churn.spot_reclaims_per_day * per_minute,
    }
