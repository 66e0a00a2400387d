"""The only implementation of what a controller sees.

Heuristics, environments, training and services all call it: observation, inventory and its own
memory in, features out. It reads nothing else, so no hidden state can leak into a decision.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from models.cluster import rows
from models.cluster.arrays import F32, F64, I32
from models.cluster.inventory import REQUEST_TYPES, Inventory, RequestType
from models.cluster.observation import Observation
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
from models.features.saturation import Full, begin, learn_full, pace
from models.features.summary import MOST_SEGMENTS, expose, find_groups, summarise, write_keys
from models.features.sums import SUMS, sum_groups
from models.features.table import APP, CLUSTER, POOL, Level
from models.features.table import DOMAIN as DOMAIN_LEVEL
from models.jit import kernel

_LIVE = APP.at("active")
_USE = APP.at("utilisation")
_SLACK = APP.at("headroom")


class Work(NamedTuple):
    """Scratch that the kernels hand to each other."""

    group: I32
    """[2, A] tier group and domain of each app of the current environment, -1 for none."""
    groups: F64
    """[E, G, SUMS]."""
    domains: F64
    """[E, D, SUMS]."""
    keys: U32
    """[4, E, A] sort keys of utilisation and headroom by group, then by domain."""


@kernel
def _encode_apps_of_all(
    observation: Observation, elapsed: I32, state: FeatureState, declared: Declared, apps: F32
) -> None:
    """Update the memory and fill the app features [E, APP, A] of every environment."""
    for e in range(elapsed.size):
        _encode_apps_of(observation, elapsed, state, declared, apps, e)


@kernel
def _encode_apps_of(
    observation: Observation,
    elapsed: I32,
    state: FeatureState,
    declared: Declared,
    apps: F32,
    e: int,
) -> None:
    measured, missing, status = (
        observation.measured[e],
        observation.missing[e],
        observation.status[e],
    )
    # The memory first: features are computed from the last valid sample, not from this one.
    remember(state, e, measured, missing, status, elapsed[e], declared.gain, declared.edges)
    _learn_full_of(state, declared, status[rows.CPU_REQUEST], elapsed[e], e)
    encode_apps(state, e, status, declared, apps[e])


@kernel
def _learn_full_of(
    state: FeatureState, declared: Declared, request: I32, elapsed: int, e: int
) -> None:
    known = Full(
        state.declared[e],
        state.full_at[e],
        state.doubt[e],
        state.work[e],
        state.strained[e],
        state.peak[e],
        state.in_time[e],
    )
    begin(known, declared.saturation[e % declared.saturation.shape[0]])
    # A tick that is observed again must not count twice.
    if elapsed == 0:
        return
    learn_full(
        known,
        state.sample[e],
        state.fresh[e],
        state.mean_rps[e],
        request,
        state.in_flight[e],
        declared.per_target,
        declared.pace,
    )


@kernel
def _encode_unsorted(
    observation: Observation,
    elapsed: I32,
    state: FeatureState,
    declared: Declared,
    apps: F32,
    work: Work,
) -> None:
    """As `_encode_apps_of_all`, and the sums and sort keys for groups and domains.

    One environment goes through all kernels while its arrays are in the cache. Most time goes into
    moving arrays: 64 environments don't fit the cache together, so a pass over all of them per
    kernel would load everything several times.
    """
    group, domain = work.group[0], work.group[1]
    for e in range(elapsed.size):
        _encode_apps_of(observation, elapsed, state, declared, apps, e)
        status, features, age = observation.status[e], apps[e], state.age[e]
        find_groups(status[rows.DOMAIN], features[_LIVE], declared, group, domain)
        sum_groups(state, e, status, features, declared, group, work.groups[e])
        _add_groups(work.groups[e], declared.first, declared.tiers, work.domains[e])
        write_keys(features[_USE], age, group, work.keys[0, e])
        write_keys(features[_SLACK], age, group, work.keys[1, e])
        write_keys(features[_USE], age, domain, work.keys[2, e])
        write_keys(features[_SLACK], age, domain, work.keys[3, e])


@kernel
def _add_groups(groups: F64, first: I32, tiers: I32, domains: F64) -> None:
    domains[:] = 0.0
    for domain in range(tiers.size):
        for group in range(first[domain], first[domain] + tiers[domain]):
            for kind in range(groups.shape[1]):
                domains[domain, kind] += groups[group, kind]


@kernel
def _encode_sorted(work: Work, capacity: F64, declared: Declared, group: F32, domain: F32) -> None:
    """Group [E, GROUP, G] and domain [E, DOMAIN, D] features, once the keys are sorted."""
    for e in range(capacity.shape[0]):
        cpu, memory = capacity[e, 0], capacity[e, 1]
        summarise(work.groups[e], work.keys[0, e], work.keys[1, e], cpu, memory, group[e])
        summarise(work.domains[e], work.keys[2, e], work.keys[3, e], cpu, memory, domain[e])
        expose(work.domains[e], declared.calls, domain[e])


def _empty_work(environments: int, apps: int, groups: int, domains: int, sums: int) -> Work:
    return Work(
        group=np.zeros((2, apps), np.int32),
        groups=np.zeros((environments, groups, sums)),
        domains=np.zeros((environments, domains, sums)),
        keys=np.zeros((4, environments, apps), np.uint32),
    )


class Encoder:
    """Features of one cluster, for any number of environments at once.

    The features are valid until the next call, which reuses their buffers.
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
        """All features of this tick, and the memory, updated in place."""
        self._resize(observation)
        features, work = self._features, self._work
        elapsed = elapsed_ticks(observation, state)
        apps = by_feature(features.app)
        _encode_unsorted(observation, elapsed, state, self._declared, apps, work)
        # One sort for all environments, groups and domains, between the two kernels.
        work.keys.sort(axis=-1)
        pools = PoolReadings(observation.pool, self._inventory)
        spend(pools, elapsed, self._inventory.tick_s, state)
        group, domain = by_feature(features.group), by_feature(features.domain)
        _encode_sorted(work, pools.capacity, self._declared, group, domain)
        cluster = cluster_columns(pools, work.domains, self._inventory, state)
        _write(POOL, pool_columns(pools), by_feature(features.pool))
        _write(CLUSTER, cluster, features.cluster[..., None])
        return features, state

    def encode_apps(
        self, observation: Observation, state: FeatureState
    ) -> tuple[F32, FeatureState]:
        """Only the apps' features, for ticks that need no others; several times faster."""
        self._resize(observation)
        elapsed = elapsed_ticks(observation, state)
        apps = by_feature(self._features.app)
        _encode_apps_of_all(observation, elapsed, state, self._declared, apps)
        # Money is spent in every tick, also in those whose cluster features are not computed.
        spend(
            PoolReadings(observation.pool, self._inventory), elapsed, self._inventory.tick_s, state
        )
        return self._features.app, state

    def _resize(self, observation: Observation) -> None:
        if self._features.app.shape[0] != observation.tick.size:
            self._features, self._work = self._allocate(observation.tick.size)

    def _allocate(self, environments: int) -> tuple[Features, Work]:
        inventory = self._inventory
        apps, domains = inventory.domain.size, inventory.tiers.size
        groups, pools = int(inventory.tiers.sum()), inventory.pool_cpu.size
        features = empty_features(environments, apps, groups, domains, pools)
        # Declared columns never change, so they are written once, not every tick.
        features.domain[..., DOMAIN_LEVEL.at("priority")] = inventory.priority
        features.domain[..., DOMAIN_LEVEL.at("floor_share")] = inventory.floor_share
        features.domain[..., DOMAIN_LEVEL.width :] = inventory.calls
        return features, _empty_work(environments, apps, groups, domains, SUMS)


def _compile(inventory: Inventory) -> Declared:
    groups = int(inventory.tiers.sum())
    # More would not fit beside the value in a 32-bit sort key.
    if groups > MOST_SEGMENTS:
        raise ValueError(f"expected at most {MOST_SEGMENTS} tier groups, got {groups}")
    first = (np.cumsum(inventory.tiers) - inventory.tiers).astype(np.int32)
    return Declared(
        latency_target=inventory.latency_target,
        # 1 / infinity is 0, which gives a best-effort app its headroom of 1.
        per_target=np.float32(1.0) / inventory.latency_target,
        saturation=np.atleast_2d(inventory.saturation),
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
        pace=pace(inventory.tick_s),
    )


def _mix_share(inventory: Inventory, kind: RequestType) -> F32:
    return np.ascontiguousarray(inventory.request_mix[:, REQUEST_TYPES.index(kind)])


def _write(level: Level, columns: Mapping[str, F64], out: F32) -> None:
    """Write columns to rows of `out` [E, columns, things]; clip linear ones to their range."""
    for index, feature in enumerate(level.features):
        column = columns[feature.name]
        # Columns with a root keep their physical value; only `normalise` clips those.
        if feature.how == "linear":
            column = np.clip(column, feature.low * feature.scale, feature.high * feature.scale)
        out[:, index] = column
