"""Where more replicas cannot help: bigger pods for apps at their maximum, memory before it ends.

CPU goes up in place when the declared maximum of replicas cannot bear an app's load, not for its
comfort, and back to its first size when it can. Memory goes up before the limit kills, and stays.
"""

import math
from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F32, I32
from models.features.table import APP
from models.jit import kernel

_ACTIVE, _MEMORY, _MISSING = (APP.at(name) for name in ("active", "memory_use", "missing"))
_MOST_CPU: Final = 2.0
"""Times its first size that a pod's CPU may become."""
_CPU_STEP: Final = 50
"""Millicores to which sizes are rounded up: fewer, larger changes."""
_FULL: Final = np.float32(0.92)
"""Memory used over requested at which a pod is given more."""
_MEMORY_STEP: Final = 1.25
_MOST_MEMORY: Final = 4.0
_BACK: Final = np.float32(0.75)
"""Need at the first size, over the maximum of replicas, at which an app goes back to it."""


class FirstSizes(NamedTuple):
    """E environments, A apps."""

    cpu: I32
    """[E, A] millicores per pod when the app was first seen."""
    memory: I32
    """[E, A] MiB."""


@kernel
def wish_sizes(
    seen: F32,
    load: F32,
    level: F32,
    domain: I32,
    most: I32,
    cpu: I32,
    memory: I32,
    first_cpu: I32,
    first_memory: I32,
    allowed: bool,
    wanted_cpu: I32,
    wanted_memory: I32,
) -> None:
    """Sizes of one environment's pods, before any limit; `level` [D] is what pods should bear."""
    for app in range(load.size):
        wanted_cpu[app], wanted_memory[app] = cpu[app], memory[app]
        if seen[_MISSING, app] > 0.0 or seen[_ACTIVE, app] == 0.0 or not allowed:
            continue
        wanted_cpu[app] = _cpu_for(
            load[app] / level[domain[app]], most[app], cpu[app], first_cpu[app]
        )
        larger = min(memory[app] * _MEMORY_STEP, first_memory[app] * _MOST_MEMORY)
        if seen[_MEMORY, app] > _FULL and larger > memory[app]:
            wanted_memory[app] = math.ceil(larger)


@kernel
def _cpu_for(need: np.float32, most: int, cpu: int, first: int) -> int:
    """Millicores per pod with which `most` pods carry the need; the first size where they can."""
    if need > most and cpu < _MOST_CPU * first:
        exact = cpu * (need / most)
        return min(int(_MOST_CPU * first), math.ceil(exact / _CPU_STEP) * _CPU_STEP)
    if cpu > first and need * cpu < _BACK * most * first:
        return first
    return cpu
