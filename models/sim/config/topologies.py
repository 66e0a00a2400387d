"""Clusters that nobody has designed: random domains, pools and priorities, by a seed.

A controller that was shaped on one cluster may only fit that one. Sizes and behaviour of pods,
nodes and metrics stay those of the example; what differs is who shares what with whom.
"""

from typing import Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from models.cluster.description import (
    PRIORITIES,
    Call,
    Domain,
    Markets,
    Pool,
    Priority,
    Slo,
)
from models.sim.config.physics import (
    DomainPhysics,
    Limits,
    PoolPhysics,
    SimCluster,
    load_sim_cluster,
)

FEWEST_DOMAINS: Final = 3
MOST_DOMAINS: Final = 20

_TIERS: Final = ("edge", "service", "logic", "store", "archive")
_FLOORS: Final = 0.5
"""Sum of the floors, as about in the example cluster."""
_P0_FLOOR: Final = 3.0
"""Floor of a P0 domain over that of others with as many pods."""
_PODS_PER_APP: Final = 100_000 / 1550
_TARGETS_MS: Final[dict[Priority, tuple[float, float]]] = {
    "P0": (100.0, 300.0),
    "P1": (200.0, 600.0),
    "P2": (500.0, 2000.0),
    "P3": (1000.0, 3000.0),
}
"""Range of the latency target by priority."""
_QUEUED_MS: Final = 60_000.0
"""Target of a domain that works from queues, as the example's data domain."""


class _Drawn(NamedTuple):
    """A domain with its entry of the physics file."""

    domain: Domain
    physics: DomainPhysics


def generate_topology(seed: int, domains: int | None = None, apps: int | None = None) -> SimCluster:
    """A valid cluster. The same arguments give the same cluster."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(FEWEST_DOMAINS, MOST_DOMAINS + 1)) if domains is None else domains
    total = int(rng.integers(40 * count, 1551)) if apps is None else apps
    example = load_sim_cluster()
    shares = _split(rng, count)
    sizes = _counts(_split(rng, count), total)
    priorities = _priorities(rng, count)
    own, pools, pool_physics = _pools(rng, count, example)
    drawn = [
        _domain(rng, index, priorities[index], float(shares[index]), sizes[index], own[index])
        for index in range(count)
    ]
    floors = np.array([
        share * (_P0_FLOOR if one.domain.priority == "P0" else 1.0)
        for share, one in zip(shares, drawn, strict=True)
    ])  # fmt: skip
    floors *= _FLOORS / floors.sum()
    physics = example.physics
    return replace(
        example,
        name=f"generated-{seed}",
        domains=tuple(
            replace(one.domain, floor_share=round(float(floor), 4))
            for one, floor in zip(drawn, floors, strict=True)
        ),
        calls=_calls(rng, count),
        pools=pools,
        # The example's per pod, so that the cap means the same.
        spend_cap_per_hour=round(example.spend_cap_per_hour * total / example.apps, 2),
        physics=replace(
            physics,
            domains={one.domain.name: one.physics for one in drawn},
            pools=pool_physics,
            guards=(),
            population=replace(
                physics.population, seed=seed, pods_at_peak=round(_PODS_PER_APP * total)
            ),
        ),
    )


def _split(rng: np.random.Generator, parts: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Uneven shares that sum to 1, none of them tiny."""
    weights = rng.lognormal(0.0, 0.5, parts)
    shares: np.ndarray[tuple[int], np.dtype[np.float64]] = np.round(weights / weights.sum(), 4)
    # The file has decimals; the largest share takes what rounding left.
    shares[shares.argmax()] += 1.0 - shares.sum()
    return shares


def _counts(shares: np.ndarray[tuple[int], np.dtype[np.float64]], total: int) -> list[int]:
    counts = [max(1, round(total * share)) for share in shares]
    counts[int(np.argmax(counts))] += total - sum(counts)
    return counts


def _priorities(rng: np.random.Generator, count: int) -> list[Priority]:
    """Any mix, but one P0 and one P3: without them no comparison has a meaning."""
    drawn = [PRIORITIES[int(index)] for index in rng.integers(0, len(PRIORITIES), count)]
    first, last = (int(index) for index in rng.choice(count, 2, replace=False))
    drawn[first], drawn[last] = "P0", "P3"
    return drawn


def _pools(
    rng: np.random.Generator, count: int, example: SimCluster
) -> tuple[list[tuple[str, ...]], tuple[Pool, ...], dict[str, PoolPhysics]]:
    """Pools by domain, preferred first: of one's own, with neighbours, and shared by all."""
    machines, zones = [m.name for m in example.machines], len(example.physics.zones)
    names: list[str] = []
    for index in range(count):
        with_neighbour = index > 0 and rng.random() < 0.3
        names.append(names[-1] if with_neighbour else f"pool-{index}")
    shared = bool(rng.random() < 0.8)
    distinct = list(dict.fromkeys(names))
    pools = [
        Pool(name=n, machine=str(rng.choice(machines)), zones=zones, markets=_markets(rng))
        for n in distinct
    ]
    physics = {
        name: PoolPhysics(
            headroom=round(float(rng.uniform(0.02, 0.08)), 3),
            max_nodes=round(float(rng.uniform(1.2, 2.0)), 2),
        )
        for name in distinct
    }
    if shared:
        machine = str(rng.choice(machines))
        pools.append(Pool(name="shared", machine=machine, zones=zones, markets=_markets(rng)))
        share = round(float(rng.uniform(0.05, 0.25)), 3)
        physics["shared"] = PoolPhysics(headroom=0.08, max_nodes=2.0, pod_share=share)
    own: list[tuple[str, ...]] = [(name, "shared") if shared else (name,) for name in names]
    return own, tuple(pools), physics


def _markets(rng: np.random.Generator) -> Markets:
    reserved, spot = int(rng.integers(0, 8)), int(rng.integers(0, 4))
    # In tenths, which decimals write exactly enough.
    return Markets(
        reserved=reserved / 10, spot=spot / 10, on_demand=round(1 - (reserved + spot) / 10, 1)
    )


def _domain(
    rng: np.random.Generator,
    index: int,
    priority: Priority,
    share: float,
    apps: int,
    pools: tuple[str, ...],
) -> _Drawn:
    queued = priority in ("P2", "P3") and bool(rng.random() < 0.4)
    low, high = _TARGETS_MS[priority]
    target = _QUEUED_MS if queued else round(float(rng.uniform(low, high)))
    domain = Domain(
        name=f"domain-{index}",
        priority=priority,
        floor_share=0.0,
        tiers=_TIERS[: int(rng.integers(2, len(_TIERS) + 1))],
        pools=pools,
        slo=Slo(kind="throughput" if queued else "latency", latency_target_ms=target),
    )
    # Only the lower half may use more than it requests, as in the example.
    bursts = priority in ("P2", "P3")
    physics = DomainPhysics(
        apps=apps,
        pod_share=share,
        timeout_ms=target * (10 if queued else 6),
        limits=Limits(cpu_ratio=1.5, memory_ratio=1.25) if bursts else Limits(),
        retryable=bool(rng.random() < 0.8),
        best_effort_share=round(float(rng.uniform(0, 0.4)), 2) if priority == "P3" else 0.0,
        weekend_factor=round(float(rng.uniform(0.4, 1.2)), 2),
    )
    return _Drawn(domain, physics)


def _calls(rng: np.random.Generator, count: int) -> tuple[Call, ...]:
    """Each domain may call later ones, so that no calls go round in a circle."""
    return tuple(
        Call(
            caller=f"domain-{caller}",
            callee=f"domain-{callee}",
            calls_per_request=round(float(rng.uniform(0.05, 0.3)), 2),
        )
        for caller in range(count)
        for callee in range(caller + 1, count)
        if rng.random() < 1.5 / count
    )
