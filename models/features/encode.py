"""The one implementation of what a controller sees.

Heuristics, environments, training and services all call it: observation, inventory and its own
memory in, features out. Nothing else is read, so nothing hidden can leak into a decision.
"""

from collections.abc import Mapping

import numpy as np

from models.cluster.arrays import F32, F64
from models.cluster.inventory import REQUEST_TYPES, Inventory, RequestType
from models.cluster.observation import Observation
from models.features.apps import Declared
from models.features.digest import Work, digest, digest_apps, digest_sorted, empty_work
from models.features.flight import age_edges
from models.features.keys import MOST_SEGMENTS
from models.features.kinds import SUMS
from models.features.memory import FeatureState, elapsed_ticks, start_memory, trend_gain
from models.features.normalise import Features, by_feature, empty_features
from models.features.pools import PoolReadings, cluster_columns, pool_columns, spend
from models.features.table import CLUSTER, DOMAIN, POOL, Level


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
        features.domain[..., DOMAIN.at("priority")] = inventory.priority
        features.domain[..., DOMAIN.at("floor_share")] = inventory.floor_share
        features.domain[..., DOMAIN.width :] = inventory.calls
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
