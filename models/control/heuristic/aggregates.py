"""What a domain reports to the Commander: sums over its apps, and nothing of the single ones."""

from typing import Final, NamedTuple

import numpy as np

from models.features.normalise import Features
from models.features.table import DOMAIN as DOMAIN_LEVEL
from models.jit import kernel
from models.sim.apps import F32, F64, I8, I32
from models.sim.state import (
    ACTIVE,
    CPU_REQUEST,
    DOMAIN,
    MEMORY_REQUEST,
    PENDING,
    READY,
    REPLICAS,
    STARTING,
)

BEARABLE: Final = 0.85
"""Utilisation at which apps still keep their latency, with nothing to spare."""

_RPS, _AT_RISK = DOMAIN_LEVEL.at("rps"), DOMAIN_LEVEL.at("at_risk")
_WORK, _ESSENTIAL, _KEPT, _HELD, _HELD_MEMORY, _PENDING, _DISTRESS = range(7)
SUMS: Final = 7


class Aggregates(NamedTuple):
    """In cores unless said otherwise. E environments, D domains."""

    work: F64
    """[E, D] for the work that is there, fully used."""
    essential: F64
    """[E, D] for the work that is there, at the highest bearable utilisation; for what is foreseen,
    too, in domains of the highest priority: nobody gives way to another's announcement."""
    kept: F64
    """[E, D] the same, and what pods on nodes are sized for."""
    wanted: F64
    """[E, D] what its Soldier would hold, if there were no limits."""
    held: F64
    """[E, D] requests of bound and pending pods."""
    held_memory: F64
    """[E, D] GiB of the same."""
    pending: F64
    """[E, D] of the pending ones."""
    distress: F64
    """[E, D] missing for the essential work of single apps, however rich the others are."""
    rps: F64
    """[E, D] requests per second."""
    at_risk: F64
    """[E, D] share of the apps."""


def aggregate(
    load: F32,
    foreseen: F32,
    need: F32,
    known: I32,
    wanted: F64,
    features: Features,
    highest: I8,
) -> Aggregates:
    """Sum up; `wanted` [E, D] is in cores, `highest` [D] 1 for the highest priority."""
    sums = np.zeros((load.shape[0], SUMS, wanted.shape[1]))
    _sum_up(load, foreseen, need, known, highest, sums)
    return Aggregates(
        work=sums[:, _WORK],
        essential=sums[:, _ESSENTIAL],
        kept=sums[:, _KEPT],
        wanted=wanted,
        held=sums[:, _HELD],
        held_memory=sums[:, _HELD_MEMORY],
        pending=sums[:, _PENDING],
        distress=sums[:, _DISTRESS],
        rps=features.domain[..., _RPS].astype(np.float64),
        at_risk=features.domain[..., _AT_RISK].astype(np.float64),
    )


@kernel
def _sum_up(load: F32, foreseen: F32, need: F32, known: I32, highest: I8, sums: F64) -> None:
    for e in range(load.shape[0]):
        k, out = known[e], sums[e]
        for app in range(load.shape[1]):
            if k[ACTIVE, app] == 0:
                continue
            place, cores = k[DOMAIN, app], k[CPU_REQUEST, app] * 0.001
            bound = k[READY, app] + k[STARTING, app]
            pods = max(k[REPLICAS, app], bound + k[PENDING, app])
            work = max(load[e, app], foreseen[e, app]) if highest[place] == 1 else load[e, app]
            least = work / BEARABLE
            out[_WORK, place] += load[e, app] * cores
            out[_ESSENTIAL, place] += least * cores
            out[_KEPT, place] += max(least, min(float(bound), need[e, app])) * cores
            out[_HELD, place] += pods * cores
            out[_HELD_MEMORY, place] += pods * k[MEMORY_REQUEST, app] / 1024.0
            out[_PENDING, place] += k[PENDING, app] * cores
            out[_DISTRESS, place] += max(0.0, least - bound) * cores
