"""One environment after the other through all kernels, while its arrays are in the cache.

Most of the time goes into moving arrays, not into arithmetic: 64 environments do not fit the
cache together, so a pass over all of them per kernel would fetch everything several times.
"""

from typing import NamedTuple

import numpy as np

from models.cluster.arrays import F32, F64, I8, I32
from models.cluster.observation import DOMAIN
from models.features.apps import U32, Declared, encode_apps
from models.features.keys import find_groups, write_keys
from models.features.memory import FeatureState, remember
from models.features.summary import expose, summarise
from models.features.sums import sum_groups
from models.features.table import APP
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
