"""Which domain and tier each app belongs to, whether other domains call it, and its SLO.

No domain is special by name: priority, SLO kind, tier order and calls decide.
"""

from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64, I32, Mask
from models.cluster.description import PRIORITIES, Domain
from models.sim.config.physics import SimCluster
from models.sim.population.fitted import generator, pick

_OPEN_SHARE: Final = 0.5
"""Share of a domain's apps that requests of other domains may reach."""
_OPEN_FIRST_TIER: Final = 0.8
"""Share of the first tier that is open: other domains call apps of this tier."""
_CALLED_GROWTH: Final = 6.0
"""Growth of an entry app per call that a request of another domain makes."""
_PODS_PER_NODE: Final = 8
"""A pod takes at most a node's capacity divided by this; larger pods would dominate packing."""


class Structure(NamedTuple):
    """Each array is [apps]."""

    domain: I32
    tier: I32
    tiers: I32
    """Number of tiers of the app's domain."""
    priority: I32
    queued: Mask
    """The domain has a throughput SLO, so a queue feeds the app."""
    best_effort: Mask
    open: Mask
    """Requests of other domains may reach the app."""
    inline: Mask
    """Open, and in a domain that others call: its latency is part of theirs."""
    target: F64
    """Latency target of the domain, seconds."""
    timeout: F64
    """Seconds; where inline, at most that of the calling domains."""
    inline_target: F64
    """Seconds: the tightest target of the domain and those that call it inline."""
    popularity: F64
    """Size over what it would be if no other domain called its domain."""
    most_cpu: F64
    """Cores a pod may request."""
    most_memory: F64
    """GiB a pod may request."""


def draw_structure(cluster: SimCluster) -> Structure:
    """The apps' structure, ordered by domain, then by tier."""
    counts = [domain.apps for domain in cluster.domain_physics]
    domain = np.repeat(np.arange(len(counts)), counts).astype(np.int32)
    tier = np.concatenate([_tiers(cluster, spec) for spec in cluster.domains]).astype(np.int32)
    best_effort = np.concatenate([_best_effort(cluster, spec) for spec in cluster.domains])
    # The latency of a caller in another domain must not depend on an app without a target.
    opened = np.concatenate([_open(cluster, spec) for spec in cluster.domains]) & ~best_effort
    targets, timeouts, called = _inline_limits(cluster)
    inline = opened & called[domain]
    limits = np.array([_pod_limits(cluster, spec) for spec in cluster.domains])
    own = np.array([spec.slo.latency_target_ms / 1000 for spec in cluster.domains])
    own_timeout = np.array([spec.timeout_ms / 1000 for spec in cluster.domain_physics])
    return Structure(
        domain=domain,
        tier=tier,
        tiers=np.array([len(spec.tiers) for spec in cluster.domains], np.int32)[domain],
        priority=_priorities(cluster)[domain],
        queued=np.array([spec.slo.kind == "throughput" for spec in cluster.domains])[domain],
        best_effort=best_effort,
        open=opened,
        inline=inline,
        target=own[domain],
        timeout=np.where(inline, timeouts[domain], own_timeout[domain]),
        inline_target=np.where(inline, targets[domain], own[domain]),
        popularity=np.where(inline & (tier == 0), _popularity(cluster)[domain], 1.0),
        most_cpu=limits[domain, 0],
        most_memory=limits[domain, 1],
    )


def _priorities(cluster: SimCluster) -> I32:
    return np.array([PRIORITIES.index(spec.priority) for spec in cluster.domains], np.int32)


def _tiers(cluster: SimCluster, spec: Domain) -> I32:
    """Tiers of about equal size."""
    apps = cluster.physics_of(spec).apps
    return (np.arange(apps) * len(spec.tiers) // apps).astype(np.int32)


def _best_effort(cluster: SimCluster, spec: Domain) -> Mask:
    """Mostly apps of the inner tiers: user-facing apps usually have a target."""
    rng = generator(cluster.physics.population.seed, f"best-effort/{spec.name}")
    weight = 1.0 + 4.0 * _tiers(cluster, spec).astype(np.float64)
    domain = cluster.physics_of(spec)
    return pick(rng, weight, round(domain.best_effort_share * domain.apps))


def _open(cluster: SimCluster, spec: Domain) -> Mask:
    """Most of the first tier, then apps of other tiers until the share is reached."""
    rng = generator(cluster.physics.population.seed, f"open/{spec.name}")
    tier = _tiers(cluster, spec)
    # At least one app, so that other domains have something to call.
    quota = max(1, int(_OPEN_SHARE * tier.size))
    first = pick(rng, (tier == 0).astype(float), int(_OPEN_FIRST_TIER * np.sum(tier == 0)))
    # `pick` takes apps of weight zero when there are too few others.
    first &= tier == 0
    inner = pick(rng, (tier > 0).astype(float), max(0, quota - int(first.sum())))
    return np.asarray(first | inner)


def _inline_limits(cluster: SimCluster) -> tuple[F64, F64, Mask]:
    """Per domain: tightest target and timeout of itself and its callers; whether it is called."""
    targets = [spec.slo.latency_target_ms / 1000 for spec in cluster.domains]
    timeouts = [spec.timeout_ms / 1000 for spec in cluster.domain_physics]
    called = np.zeros(len(targets), dtype=np.bool_)
    names = cluster.domain_names
    for call in cluster.calls:
        callee, caller = names.index(call.callee), cluster.domains[names.index(call.caller)]
        called[callee] = True
        # Half, because the caller does work of its own in the same time.
        targets[callee] = min(targets[callee], 0.5 * caller.slo.latency_target_ms / 1000)
        timeouts[callee] = min(timeouts[callee], cluster.physics_of(caller).timeout_ms / 1000)
    return np.array(targets), np.array(timeouts), called


def _popularity(cluster: SimCluster) -> F64:
    """Growth of the entry apps of a called domain, which have to carry the calls."""
    called = np.zeros(len(cluster.domains))
    for call in cluster.calls:
        called[cluster.domain_names.index(call.callee)] += call.calls_per_request
    return 1 + _CALLED_GROWTH * np.minimum(called, 1)


def _pod_limits(cluster: SimCluster, spec: Domain) -> tuple[float, float]:
    """Maximum cores and GiB of a pod, by the smallest node that it may run on."""
    machines = [cluster.machine_of(pool) for pool in cluster.pools if pool.name in spec.pools]
    cpu = min(machine.cpu_cores - machine.reserved_cpu_cores for machine in machines)
    memory = min(machine.memory_gib - machine.reserved_memory_gib for machine in machines)
    return cpu / _PODS_PER_NODE, memory / _PODS_PER_NODE
