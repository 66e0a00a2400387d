"""The inventory as it was declared on the bus: which apps a domain has, in which order."""

from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

import numpy as np

from models.cluster.description import Cluster
from models.cluster.inventory import REQUEST_TYPES, Inventory, declare_cluster
from schemas.app_declared import AppDeclared
from services._kit.errors import Refused

_GONE_KEPT: Final = 10_000
"""Apps that are gone and still known. A frame names them until its domain's next tick closes, so
these are many more than any frame under way could need, and no leak."""

T = TypeVar("T")


class Roster:
    """Learns apps as they are declared; what was declared last counts."""

    def __init__(self, cluster: Cluster) -> None:
        self.domains = cluster.domain_names
        self.pools = cluster.pool_names
        self._cluster = declare_cluster(cluster)
        self.version = 0
        """Rises when something was declared anew: what was made from the inventory is old then."""
        self._apps: dict[str, AppDeclared] = {}
        self._gone: dict[str, AppDeclared] = {}
        """Their last words, the longest gone first: a frame under way may still name them."""
        self._members: dict[str, tuple[AppDeclared, ...]] = {}
        self._names: dict[str, tuple[str, ...]] = {}

    def learn(self, declared: AppDeclared) -> None:
        """Take in an app, or its end."""
        self.check(declared.domain)
        if declared.removed:
            self._apps.pop(declared.app, None)
            self._let_go(declared)
        elif self._apps.get(declared.app) != declared:
            self._gone.pop(declared.app, None)
            self._apps[declared.app] = declared
            self._changed()

    def forget(self, app: str) -> None:
        """Its declaration was removed: a tombstone."""
        declared = self._apps.pop(app, None)
        if declared is not None:
            self._let_go(declared)

    def _let_go(self, declared: AppDeclared) -> None:
        self._gone.pop(declared.app, None)
        self._gone[declared.app] = declared
        if len(self._gone) > _GONE_KEPT:
            del self._gone[next(iter(self._gone))]
        self._changed()

    def _changed(self) -> None:
        self.version += 1
        self._members.clear()
        self._names.clear()

    def place(self, domain: str) -> int:
        """Index of a domain on every domain axis."""
        return self.domains.index(domain)

    def members(self, domain: str) -> tuple[AppDeclared, ...]:
        """Apps of a domain in the order in which ties are settled."""
        if domain not in self._members:
            found = (app for app in self._apps.values() if app.domain == domain)
            self._members[domain] = tuple(sorted(found, key=lambda app: (app.ordinal, app.app)))
        return self._members[domain]

    def names(self, domain: str) -> tuple[str, ...]:
        """Of the same."""
        if domain not in self._names:
            self._names[domain] = tuple(app.app for app in self.members(domain))
        return self._names[domain]

    def find(self, app: str) -> AppDeclared | None:
        """What was declared about an app."""
        return self._apps.get(app)

    def everybody(self) -> tuple[AppDeclared, ...]:
        """Apps of all domains, in order."""
        return tuple(sorted(self._apps.values(), key=lambda app: (app.ordinal, app.app)))

    def check(self, domain: str) -> None:
        """Refuse an event of a domain that the cluster file does not have."""
        if domain not in self.domains:
            known = ", ".join(self.domains)
            raise Refused("unknown-domain", f"expected one of {known}, got {domain}")

    def knows(self, names: Sequence[str]) -> bool:
        """Whether all of them were declared: topics differ in speed, so a frame may be ahead."""
        return all(name in self._apps or name in self._gone for name in names)

    def inventory_of(self, names: Sequence[str]) -> Inventory:
        """The apps of these names; one that is no longer declared is as its last word was."""
        return self.inventory([self._last_word(name) for name in names])

    def _last_word(self, name: str) -> AppDeclared:
        declared = self._apps.get(name) or self._gone.get(name)
        if declared is None:
            raise Refused("unknown-app", f"expected a declared app, got {name}; ask `knows` first")
        return declared

    def inventory(self, apps: Sequence[AppDeclared]) -> Inventory:
        """Some apps as the models take them."""
        mixes = [[getattr(app.request_mix, kind) for kind in REQUEST_TYPES] for app in apps]
        limits = [np.inf if a.latency_target_s is None else a.latency_target_s for a in apps]
        return self._cluster._replace(
            domain=np.array([self.place(app.domain) for app in apps], np.int16),
            tier=np.array([app.tier for app in apps], np.int16),
            min_replicas=np.array([app.min_replicas for app in apps], np.int32),
            max_replicas=np.array([app.max_replicas for app in apps], np.int32),
            latency_target=np.array(limits, np.float32),
            saturation=np.array([app.saturation for app in apps], np.float32),
            request_mix=np.array(mixes, np.float32).reshape(len(apps), len(REQUEST_TYPES)),
        )


class PerDomain(Generic[T]):
    """What is made from the inventory of some apps of a domain, as long as they are declared so."""

    def __init__(self, roster: Roster, make: Callable[[Inventory], T]) -> None:
        self._roster, self._make = roster, make
        self._made: dict[str, tuple[tuple[tuple[str, ...], int], T]] = {}

    def of(self, domain: str, names: tuple[str, ...]) -> T:
        """Made now, or before for the same apps."""
        made, basis = self._made.get(domain), (names, self._roster.version)
        if made is None or made[0] != basis:
            made = basis, self._make(self._roster.inventory_of(names))
            self._made[domain] = made
        return made[1]

    def without_apps(self) -> T:
        """For its form, or to have its kernels compiled."""
        return self._make(self._roster.inventory(()))
