"""The cluster as deciding services know it: its description, declared apps, observed pools.

Apps and pools are reference data: handlers keep these objects as mutable members.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Generic, TypeVar

import numpy as np

from models.cluster.arrays import Records
from models.cluster.description import Cluster, Domains, load_cluster, with_domains
from models.cluster.inventory import NO_MAXIMUM, REQUEST_TYPES, Inventory, declare_cluster
from models.cluster.observation import POOL_STATUS
from models.inputs import yamlfile
from models.inputs.errors import InputError
from schemas.app_declared import AppDeclared
from schemas.pool_observed import PoolObserved
from services._kit.errors import BadSettings, Refused
from services._kit.newest import Newest

_REMOVED_KEPT: Final = 10_000
"""Removed apps that are remembered. Frames name an app until its domain's next tick closes: this
is far more than the frames in flight can need, and bounded."""

_AHEAD_TICKS: Final = 6
"""How far an observation of a pool may be ahead of the tick that is due."""
_MOST_NODES: Final = 2**31 - 1

T = TypeVar("T")


def cluster_of(file: str, domains: str = "") -> Cluster:
    """The description in a file, the example cluster when empty; with other domains if there are.

    `domains` is the path of their file, which need not exist.
    """
    try:
        cluster = load_cluster(Path(file) if file else None)
        if not domains or not Path(domains).is_file():
            return cluster
        return with_domains(cluster, yamlfile.load(Path(domains), Domains).domains)
    except InputError as error:
        raise BadSettings(f"cluster: {error}") from None
    except ValueError as error:
        raise BadSettings(f"domains: {domains}: {error}") from None


class DeclaredApps:
    """Apps as declared on the bus; the last declaration of an app counts."""

    def __init__(self, cluster: Cluster) -> None:
        self.domains = cluster.domain_names
        self.pools = cluster.pool_names
        self._cluster = declare_cluster(cluster)
        self.version = 0
        """Rises with each change: what was built from the inventory before is outdated."""
        self._apps: dict[str, AppDeclared] = {}
        self._removed: dict[str, AppDeclared] = {}
        """Last declarations of removed apps, oldest first: frames in flight may still name them."""
        self._members: dict[str, tuple[AppDeclared, ...]] = {}
        self._names: dict[str, tuple[str, ...]] = {}

    # Changes.

    def learn(self, declared: AppDeclared) -> None:
        """Add, change or remove an app."""
        self.check_domain(declared.domain)
        # A repeated declaration changes nothing: everything built from the inventory stays valid.
        if declared.removed:
            if self._removed.get(declared.app) != declared:
                self._apps.pop(declared.app, None)
                self._remove(declared)
        elif self._apps.get(declared.app) != declared:
            self._removed.pop(declared.app, None)
            self._apps[declared.app] = declared
            self._changed()

    def forget(self, app: str) -> None:
        """Remove an app after a tombstone."""
        declared = self._apps.pop(app, None)
        if declared is not None:
            self._remove(declared)

    def _remove(self, declared: AppDeclared) -> None:
        # Pop first: a key that is set again keeps its old position, and the oldest one is dropped.
        self._removed.pop(declared.app, None)
        self._removed[declared.app] = declared
        if len(self._removed) > _REMOVED_KEPT:
            del self._removed[next(iter(self._removed))]
        self._changed()

    def _changed(self) -> None:
        self.version += 1
        self._members.clear()
        self._names.clear()

    # Queries.

    def check_domain(self, domain: str) -> None:
        """Refuse an event of a domain that the cluster file does not have."""
        if domain not in self.domains:
            domains = ", ".join(self.domains)
            raise Refused("unknown-domain", f"expected one of {domains}, got {domain}")

    def domain_index(self, domain: str) -> int:
        """Index of a domain on every domain axis."""
        return self.domains.index(domain)

    def find(self, app: str) -> AppDeclared | None:
        """Declaration of an app that is not removed."""
        return self._apps.get(app)

    def members(self, domain: str) -> tuple[AppDeclared, ...]:
        """Apps of a domain, in tie-break order."""
        if domain not in self._members:
            found = (app for app in self._apps.values() if app.domain == domain)
            self._members[domain] = tuple(sorted(found, key=lambda app: (app.ordinal, app.app)))
        return self._members[domain]

    def names(self, domain: str) -> tuple[str, ...]:
        """App names of a domain, in tie-break order."""
        if domain not in self._names:
            self._names[domain] = tuple(app.app for app in self.members(domain))
        return self._names[domain]

    def all_apps(self) -> tuple[AppDeclared, ...]:
        """Apps of all domains, in tie-break order."""
        return tuple(sorted(self._apps.values(), key=lambda app: (app.ordinal, app.app)))

    def all_declared(self, names: Sequence[str]) -> bool:
        """Whether all apps are or were declared: a frame may overtake a declaration."""
        return self.count_unknown(names) == 0

    def count_unknown(self, names: Sequence[str]) -> int:
        """How many apps neither are nor were declared."""
        return sum(name not in self._apps and name not in self._removed for name in names)

    def inventory_of(self, names: Sequence[str]) -> Inventory:
        """Model input for these apps; a removed app counts as last declared."""
        return self.inventory([self._last_declaration(name) for name in names])

    def _last_declaration(self, name: str) -> AppDeclared:
        declared = self._apps.get(name) or self._removed.get(name)
        if declared is None:
            detail = f"expected a declared app, got {name}; check `all_declared` first"
            raise Refused("unknown-app", detail)
        return declared

    def inventory(self, apps: Sequence[AppDeclared]) -> Inventory:
        """Model input for these apps."""
        mixes = [[getattr(app.request_mix, kind) for kind in REQUEST_TYPES] for app in apps]
        # Without a target no latency is too high.
        limits = [np.inf if a.latency_target_s is None else a.latency_target_s for a in apps]
        most = [NO_MAXIMUM if a.max_replicas is None else a.max_replicas for a in apps]
        return self._cluster._replace(
            domain=np.array([self.domain_index(app.domain) for app in apps], np.int16),
            tier=np.array([app.tier for app in apps], np.int16),
            min_replicas=np.array([app.min_replicas for app in apps], np.int32),
            max_replicas=np.array(most, np.int32),
            latency_target=np.array(limits, np.float32),
            saturation=np.array([app.saturation for app in apps], np.float32),
            # Without apps the array would have one axis, and kernels are compiled for two.
            request_mix=np.array(mixes, np.float32).reshape(len(apps), len(REQUEST_TYPES)),
        )


class InventoryCache(Generic[T]):
    """Builds something from the inventory of a domain; again when the inventory changes."""

    def __init__(self, apps: DeclaredApps, build: Callable[[Inventory], T]) -> None:
        self._apps, self._build = apps, build
        self._built: dict[str, tuple[tuple[tuple[str, ...], int], T]] = {}

    def of(self, domain: str, names: tuple[str, ...]) -> T:
        """Built for these apps of the domain."""
        built, basis = self._built.get(domain), (names, self._apps.version)
        if built is None or built[0] != basis:
            built = basis, self._build(self._apps.inventory_of(names))
            self._built[domain] = built
        return built[1]

    def without_apps(self) -> T:
        """Built for no apps: to compile kernels, and for the start state of a key."""
        return self._build(self._apps.inventory(()))


class ObservedPools:
    """The newest observation of each node pool."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)
        self._observed = Newest[PoolObserved](
            lambda one: one.tick, lambda one: one.tick, _AHEAD_TICKS
        )

    def learn(self, observed: PoolObserved) -> None:
        """Take in an observation, unless it is late or of a pool that the cluster file lacks."""
        if observed.pool in self._names:
            self._observed.learn(observed.pool, observed)

    def forget(self, pool: str) -> None:
        """Remove a pool after a tombstone."""
        self._observed.forget(pool)

    def records(self, due: int) -> Records:
        """[1, P] of POOL_STATUS, as observed last when a tick is due."""
        found = {}
        for name in self._names:
            believed = self._observed.upto(name, due + _AHEAD_TICKS)
            # In lock-step no clock shows how old a replayed tick is, so all observations may be
            # ahead of it: use the last one instead of none.
            observed = believed or self._observed.last_received(name)
            if observed is not None:
                found[name] = observed
        return pool_records(self._names, found)


def pool_records(names: Sequence[str], observed: Mapping[str, PoolObserved]) -> Records:
    """[1, P] of POOL_STATUS, in the order of the cluster file; zeros for one never observed."""
    records = np.zeros((1, len(names)), POOL_STATUS)
    for index, name in enumerate(names):
        pool = observed.get(name)
        if pool is not None:
            records[0, index] = (
                pool.ready,
                min(pool.booting + pool.requested, _MOST_NODES),
                pool.quota,
                pool.free_cores,
                pool.free_memory_gib,
            )
    return records
