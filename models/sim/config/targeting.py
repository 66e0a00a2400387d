"""Select the apps that an event or a replay affects."""

from typing import Protocol
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from models.cluster.arrays import F32, I16, Mask
from models.sim.config.events import Target
from models.sim.config.physics import SimCluster
from models.sim.draws import Purpose, uniform

# The same apps in every environment: kernels have one weight per app for all environments.
_SHARED_SEED = 0
_APPS = int(Purpose.EVENT_APPS)


class Grouped(Protocol):
    """The properties of apps that events depend on; `apps.Apps` has them."""

    @property
    def domain(self) -> I16:
        """[apps] index into the cluster's domains."""

    @property
    def tier(self) -> I16:
        """[apps] index into the domain's tiers."""

    @property
    def request_mix(self) -> F32:
        """[apps, request types] declared shares."""


def key_of(name: str) -> int:
    """The entity of a name in draws: 32 bits, the same in every process."""
    # `hash` of a text differs between processes.
    return crc32(name.encode())


def select(target: Target, name: str, cluster: SimCluster, apps: Grouped) -> Mask:
    """The apps of `target`. Which apps a share selects depends only on `name` and the app."""
    chosen = np.zeros(len(apps.domain), dtype=np.bool_)
    chosen[list(target.apps)] = True
    for domain in target.domains:
        matching = np.flatnonzero(_matches(target, domain, cluster, apps))
        chosen[_choose_share(matching, target.share, name)] = True
    return chosen


def _matches(target: Target, domain: str, cluster: SimCluster, apps: Grouped) -> Mask:
    index = cluster.domain_names.index(domain)
    inside: Mask = apps.domain == index
    if not target.tiers:
        return inside
    tiers = [
        tier for tier, label in enumerate(cluster.domains[index].tiers) if label in target.tiers
    ]
    return inside & np.isin(apps.tier, tiers)


def _choose_share(apps: NDArray[np.intp], share: float, name: str) -> NDArray[np.intp]:
    """An exact share of `apps`, but at least one, so that small clusters show the same effects."""
    if share == 1 or not len(apps):
        return apps
    key = key_of(name)
    draws = [uniform(_SHARED_SEED, _APPS, int(app), key, 0) for app in apps]
    # The apps with the lowest draws, because a chance per app would not give an exact share.
    count = max(1, round(share * len(apps)))
    return apps[np.argsort(draws, kind="stable")[:count]]
