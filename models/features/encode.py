"""The one implementation of what a controller sees.

Heuristics, environments, training and services all call it: observation, inventory and its own
memory in, features out. Nothing else is read, so nothing hidden can leak into a decision.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from models.cluster.arrays import F32, F64, I8, I32
from models.cluster.inventory import REQUEST_TYPES, Inventory, RequestType
from models.cluster.observation import DOMAIN, Observation
from models.features.apps import U32, Declared, encode_apps
from models.features.memory import (
    FeatureState,
    age_edges,
    elapsed_ticks,
    remember,
    start_memory,
    trend_gain,
)
from models.features.normalise import Features, by_feature, empty_features
from models.features.pools import PoolReadings, cluster_columns, pool_columns, spend
from models.features.summary import MOST_SEGMENTS, expose, find_groups, summarise, write_keys
from models.features.sums import SUMS, sum_groups
from models.features.table import APP, CLUSTER, POOL, Level
from models.features.table import DOMAIN as DOMAIN_LEVEL
from models.jit import kernel

_LIVE = APP.at("active")
_USE = APP.at("utilisation")
_SLACK = APP.at("headroom")


class Work(NamedTuple):
    """Space between the kernels."""

    group: I32
    """[2, A] tier group and domain of each app of the environment at hand, -1 for none."""
    groups: F64
    """[E, G, SUMS]."""
    domains: F64
    """[E, D, SUMS]."""
    keys: U32
    """[4, E, A] sort keys of utilisation and headroom by group, then by domain."""


@kernel
def digest_apps(
    measured: F32,
    missing: I8,
    status: I32,
    elapsed: I32,
    st: FeatureState,
    declared: Declared,
    apps: F32,
) -> None:
    """Memory and app features [E, APP, A] of every environment."""
    for e in range(elapsed.size):
        remember(
            st, e, measured[e], missing[e], status[e], elapsed[e], declared.gain, declared.edges
        )
        encode_apps(st, e, status[e], declared, apps[e])


@kernel
def digest(
    measured: F32,
    missing: I8,
    status: I32,
    elapsed: I32,
    st: FeatureState,
    declared: Declared,
    apps: F32,
    work: Work,
) -> None:
    """As `digest_apps`, and the sums and sort keys for groups and domains."""
    group, domain = work.group[0], work.group[1]
    for e in range(elapsed.size):
        count, rows, age = status[e], apps[e], st.age[e]
        remember(st, e, measured[e], missing[e], count, elapsed[e], declared.gain, declared.edges)
        encode_apps(st, e, count, declared, rows)
        find_groups(count[DOMAIN], rows[_LIVE], declared, group, domain)
        sum_groups(st, e, count, rows, declared, group, work.groups[e])
        _add_groups(work.groups[e], declared.first, declared.tiers, work.domains[e])
        write_keys(rows[_USE], age, group, work.keys[0, e])
        write_keys(rows[_SLACK], age, group, work.keys[1, e])
        write_keys(rows[_USE], age, domain, work.keys[2, e])
        write_keys(rows[_SLACK], age, domain, work.keys[3, e])


@kernel
def _add_groups(groups: F64, first: I32, tiers: I32, domains: F64) -> None:
    domains[:] = 0.0
    for domain in range(tiers.size):
        for group in range(first[domain], first[domain] + tiers[domain]):
            for kind in range(groups.shape[1]):
                domains[domain, kind] += groups[group, kind]


@kernel
def digest_sorted(work: Work, capacity: F64, declared: Declared, group: F32, domain: F32) -> None:
    """Group [E, GROUP, G] and domain [E, DOMAIN, D] features, once the keys are sorted."""
    for e in range(capacity.shape[0]):
        cpu, memory = capacity[e, 0], capacity[e, 1]
        summarise(work.groups[e], work.keys[0, e], work.keys[1, e], cpu, memory, group[e])
        summarise(work.domains[e], work.keys[2, e], work.keys[3, e], cpu, memory, domain[e])
        expose(work.domains[e], declared.calls, domain[e])


def empty_work(environments: int, apps: int, groups: int, domains: int, sums: int) -> Work:
    """Space for so many environments."""
    return Work(
        group=np.zeros((2, apps), np.int32),
        groups=np.zeros((environments, groups, sums)),
        domains=np.zeros((environments, domains, sums)),
        keys=np.zeros((4, environments, apps), np.uint32),
    )


class Encoder:
    """Features of one cluster, for any number of environments at once.

    The features are valid until the next call, which uses their buffers again.
    """

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._declared = _compile(inventory)
        self._features, self._work = self._allocate(1)

    def start(self, observation: Observation) -> FeatureState:
        """The memory before the first encoding."""
        return start_memory(observation, self._inventory)

    def encode(
        self, observation: Observation, state: FeatureState
    ) -> tuple[Features, FeatureState]:
        """What is seen at this tick; the memory takes it in and is handed back."""
        self._fit(observation)
        features, work = self._features, self._work
        elapsed = elapsed_ticks(observation, state)
        digest(
            observation.measured,
            observation.missing,
            observation.status,
            elapsed,
            state,
            self._declared,
            by_feature(features.app),
            work,
        )
        work.keys.sort(axis=-1)
        seen = PoolReadings(observation.pool, self._inventory)
        spend(seen, elapsed, self._inventory.tick_s, state)
        group, domain = by_feature(features.group), by_feature(features.domain)
        digest_sorted(work, seen.capacity, self._declared, group, domain)
        cluster = cluster_columns(seen, work.domains, self._inventory, state)
        _write(POOL, pool_columns(seen), by_feature(features.pool))
        _write(CLUSTER, cluster, features.cluster[..., None])
        return features, state

    def encode_apps(
        self, observation: Observation, state: FeatureState
    ) -> tuple[F32, FeatureState]:
        """Only the apps' features, for ticks in which nobody looks at the rest."""
        self._fit(observation)
        elapsed = elapsed_ticks(observation, state)
        digest_apps(
            observation.measured,
            observation.missing,
            observation.status,
            elapsed,
            state,
            self._declared,
            by_feature(self._features.app),
        )
        spend(
            PoolReadings(observation.pool, self._inventory), elapsed, self._inventory.tick_s, state
        )
        return self._features.app, state

    def _fit(self, observation: Observation) -> None:
        if self._features.app.shape[0] != observation.tick.size:
            self._features, self._work = self._allocate(observation.tick.size)

    def _allocate(self, environments: int) -> tuple[Features, Work]:
        inventory = self._inventory
        apps, domains = inventory.domain.size, inventory.tiers.size
        groups, pools = int(inventory.tiers.sum()), inventory.pool_cpu.size
        features = empty_features(environments, apps, groups, domains, pools)
        features.domain[..., DOMAIN_LEVEL.at("priority")] = inventory.priority
        features.domain[..., DOMAIN_LEVEL.at("floor_share")] = inventory.floor_share
        features.domain[..., DOMAIN_LEVEL.width :] = inventory.calls
        return features, empty_work(environments, apps, groups, domains, SUMS)


def _compile(inventory: Inventory) -> Declared:
    groups = int(inventory.tiers.sum())
    if groups > MOST_SEGMENTS:
        raise ValueError(f"expected at most {MOST_SEGMENTS} tier groups, got {groups}")
    first = (np.cumsum(inventory.tiers) - inventory.tiers).astype(np.int32)
    return Declared(
        latency_target=inventory.latency_target,
        per_target=np.float32(1.0) / inventory.latency_target,
        per_saturation=np.float32(1.0) / inventory.saturation,
        per_most=(1.0 / np.maximum(inventory.max_replicas, 1)).astype(np.float32),
        interactive=_mix_share(inventory, "api") + _mix_share(inventory, "web"),
        batch=_mix_share(inventory, "batch"),
        tier=inventory.tier.astype(np.int32),
        tiers=inventory.tiers,
        first=first,
        order=np.argsort(first[inventory.domain] + inventory.tier, kind="stable").astype(np.uint32),
        edges=age_edges(inventory.tick_s),
        calls=inventory.calls,
        tick_s=float(inventory.tick_s),
        gain=trend_gain(inventory.tick_s),
    )


def _mix_share(inventory: Inventory, kind: RequestType) -> F32:
    return np.ascontiguousarray(inventory.request_mix[:, REQUEST_TYPES.index(kind)])


def _write(level: Level, columns: Mapping[str, F64], out: F32) -> None:
    """Put columns into their rows of `out` [E, columns, things]; a linear one in its range."""
    for place, feature in enumerate(level.features):
        column = columns[feature.name]
        if feature.how == "linear":
            column = np.clip(column, feature.low * feature.scale, feature.high * feature.scale)
        out[:, place] = column
