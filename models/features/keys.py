"""Who belongs where, and sort keys for quantiles inside tier groups and domains.

A key is the group (or domain) above a fixed-point value, so that one sort of plain integers per
environment orders every group at once, wherever its apps stand and however many moved.
"""

from typing import Final

import numpy as np

from models.cluster.arrays import F32, I32
from models.features.apps import U32, Declared
from models.features.memory import UNSEEN
from models.jit import kernel

_BITS: Final = 20
_LOW: Final = -5.0
_STEP: Final = 10.0 / ((1 << _BITS) - 1)
"""Resolution of the quantiles, about 1e-5, over the range of every ratio in the table."""
_FROM: Final = np.float32(_LOW)
_PER_STEP: Final = np.float32(1.0 / _STEP)
_MASK: Final = np.uint32((1 << _BITS) - 1)
_NONE: Final = np.uint32(0xFFFFFFFF)
MOST_SEGMENTS: Final = (1 << (32 - _BITS)) - 1


@kernel
def find_groups(domain: I32, live: F32, declared: Declared, group: I32, home: I32) -> None:
    """Tier group and domain of each app, -1 where it is not declared.

    An app that moved keeps its tier; where its new domain has fewer, it joins the last.
    """
    tiers, first, tier = declared.tiers, declared.first, declared.tier
    for app in range(group.size):
        there = live[app] > 0.0
        where = domain[app] if there else 0
        home[app] = where if there else -1
        group[app] = first[where] + min(tier[app], tiers[where] - 1) if there else -1


@kernel
def write_keys(value: F32, age: I32, segment: I32, keys: U32) -> None:
    """Sort keys of a feature; apps that were never seen come last."""
    for app in range(keys.size):
        point = np.uint32((value[app] - _FROM) * _PER_STEP)
        key = (np.uint32(segment[app]) << np.uint32(_BITS)) | point
        keys[app] = key if (segment[app] >= 0) & (age[app] < UNSEEN) else _NONE


@kernel
def value_of(key: np.uint32) -> float:
    """The value a key was written for."""
    return np.float64(key & _MASK) * _STEP + _LOW
