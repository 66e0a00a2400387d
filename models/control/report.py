"""What a Soldier reports to the Commander: sums over its apps, and nothing of the single ones."""

from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F32, F64, I32
from models.cluster.observation import (
    ACTIVE,
    CPU_REQUEST,
    DOMAIN,
    MEMORY_REQUEST,
    PENDING,
    READY,
    REPLICAS,
    STARTING,
)
from models.features.memory import UNSEEN
from models.features.sums import is_at_risk
from models.features.table import APP
from models.jit import kernel

BEARABLE: Final = 0.85
"""Utilisation at which apps still keep their latency, with nothing to spare."""

_SLACK, _ERRORS, _SATURATION = APP.at("headroom"), APP.at("errors"), APP.at("saturation")
_REQUESTS, _AGE = APP.at("rps"), APP.at("sample_age")


class Report(NamedTuple):
    """In cores unless said otherwise. E environments, D domains."""

    work: F64
    """[E, D] for the work that is there, fully used."""
    essential: F64
    """[E, D] for the work that is there, at the highest bearable utilisation, and for the growth
    that the domain is told to prepare for."""
    kept: F64
    """[E, D] the same, and what pods on nodes are sized for."""
    wanted: F64
    """[E, D] what its Soldier would hold, if there were no limits."""
    held: F64
    """[E, D] requests of bound and pending pods."""
    held_memory_gib: F64
    """[E, D] GiB of the same."""
    pending: F64
    """[E, D] of the pending ones."""
    distress: F64
    """[E, D] missing for the essential work of single apps, however rich the others are."""
    rps: F64
    """[E, D] requests per second."""
    at_risk: F64
    """[E, D] how many of the apps are at risk, as the features define it."""
    apps: F64
    """[E, D] how many declared apps ever had a valid sample: nothing is known of the others."""


(
    _WORK, _ESSENTIAL, _KEPT, WANTED, _HELD, _HELD_MEMORY, _PENDING, _DISTRESS, _RPS, _AT_RISK,
    _APPS,
) = range(len(Report._fields))  # fmt: skip


def empty_sums(environments: int, domains: int) -> F64:
    """[E, sums, D] for the kernels to add to."""
    return np.zeros((environments, len(Report._fields), domains))


def as_report(sums: F64) -> Report:
    """The sums by their names."""
    return Report._make(sums[:, row] for row in range(sums.shape[1]))


def unseen_seconds(tick_s: int) -> np.float32:
    """Age of the sample of an app that never had one."""
    return np.float32(UNSEEN * tick_s)


@kernel
def sum_up(
    seen: F32,
    load: F32,
    need: F32,
    status: I32,
    growth: F32,
    unseen: np.float32,
    sums: F64,
) -> None:
    """Add one environment's declared apps to `sums` [sums, D]; WANTED is left alone.

    `growth` [D] is what the domains are told to prepare for.
    """
    for app in range(load.size):
        if status[ACTIVE, app] == 0:
            continue
        place = status[DOMAIN, app]
        _sum_pods(load[app], need[app], status, app, growth[place], sums)
        # Ones and zeros: what never had a sample counts nowhere.
        sampled = 1.0 if seen[_AGE, app] < unseen else 0.0
        risk = is_at_risk(seen[_SLACK, app], seen[_ERRORS, app], seen[_SATURATION, app])
        sums[_RPS, place] += sampled * seen[_REQUESTS, app]
        sums[_AT_RISK, place] += sampled if risk else 0.0
        sums[_APPS, place] += sampled


@kernel
def _sum_pods(
    load: np.float32,
    need: np.float32,
    status: I32,
    app: int,
    growth: np.float32,
    sums: F64,
) -> None:
    place, cores = status[DOMAIN, app], status[CPU_REQUEST, app] * 0.001
    bound = status[READY, app] + status[STARTING, app]
    pods = max(status[REPLICAS, app], bound + status[PENDING, app])
    least = load * growth / BEARABLE
    sums[_WORK, place] += load * cores
    sums[_ESSENTIAL, place] += least * cores
    sums[_KEPT, place] += max(least, min(float(bound), need)) * cores
    sums[_HELD, place] += pods * cores
    sums[_HELD_MEMORY, place] += pods * status[MEMORY_REQUEST, app] / 1024.0
    sums[_PENDING, place] += status[PENDING, app] * cores
    sums[_DISTRESS, place] += max(0.0, least - bound) * cores
