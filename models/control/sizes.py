"""The actuator's rules for the sizes of pods: what may be resized, whoever wished it.

A resize touches every pod of an app: it needs data, and counts whole in the blast radius. Bigger
pods need room in the budget.
"""

import numpy as np

from models.cluster.arrays import F32, F64, I32
from models.cluster.plan import Reason
from models.control.projection import MEBIBYTES, MILLICORES, RESOURCES, hold_all
from models.jit import kernel

_RESIZE = int(Reason.RESIZE)


@kernel
def left_of_budget(replicas: I32, size: I32, domain: I32, limit: F64, room: F64) -> None:
    """[2, D] of the budgets that is not held."""
    hold_all(replicas, size, domain, room)
    for resource in range(RESOURCES):
        for place in range(room.shape[1]):
            room[resource, place] = max(0.0, limit[resource, place] - room[resource, place])


@kernel
def keep_sizes(
    wanted_cpu: I32,
    wanted_memory: I32,
    reason: I32,
    replicas: I32,
    current: I32,
    cpu: I32,
    memory: I32,
    domain: I32,
    active: I32,
    missing: F32,
    room: F64,
    blast: F64,
    spent: F64,
) -> None:
    """Cut the wishes of one environment to what is allowed.

    `room` [2, D] is left of the budgets and `blast` [D] millicores of what may be resized in this
    window; both go down by what is used, and `spent` [D] notes it for the ticks to come. The
    reason tells of a resize only where the replicas stay: theirs says whether they had to rest.
    """
    for app in range(replicas.size):
        place, pods = domain[app], np.float64(replicas[app])
        lot = pods * cpu[app]
        seen = active[app] == 1 and missing[app] == 0.0
        more_cpu = (wanted_cpu[app] - cpu[app]) * pods
        if not (seen and lot <= blast[place] and more_cpu <= room[MILLICORES, place]):
            wanted_cpu[app] = cpu[app]
        if wanted_cpu[app] != cpu[app]:
            _spend(place, MILLICORES, more_cpu, lot, room, blast, spent)
        more_memory = (wanted_memory[app] - memory[app]) * pods
        if not (seen and lot <= blast[place] and more_memory <= room[MEBIBYTES, place]):
            wanted_memory[app] = memory[app]
        if wanted_memory[app] != memory[app]:
            _spend(place, MEBIBYTES, more_memory, lot, room, blast, spent)
        resized = wanted_cpu[app] != cpu[app] or wanted_memory[app] != memory[app]
        if resized and replicas[app] == current[app]:
            reason[app] = _RESIZE


@kernel
def _spend(
    place: int, resource: int, more: float, lot: float, room: F64, blast: F64, spent: F64
) -> None:
    room[resource, place] -= max(0.0, more)
    blast[place] -= lot
    spent[place] += lot
