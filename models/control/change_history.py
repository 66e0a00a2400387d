"""What the actuator's rules go by: what was changed lately, what is held, whose turn it is.

Nothing here depends on apps of another domain or on how many apps are at hand, so that a process
that holds one domain decides as one that holds the whole cluster.
"""

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
from models.control.projection import MEBIBYTES, MILLICORES, RESOURCES, hold_of
from models.jit import kernel

BLAST_SHARE: Final = 0.1
"""Of what a domain holds: that much may be decreased within a window."""
BLAST_WINDOW_S: Final = 60
COOL_DOWN_S: Final = 360
"""From any change of an app to its next decrease; longer than what counts as turning back."""
_STRIDE: Final = 131
"""Apps of a domain by which the first turn moves on from tick to tick."""
NOBODY: Final = -1


class ChangeHistory(NamedTuple):
    """What the actuator remembers. E environments, A apps, D domains, W ticks of a window."""

    rested: I32
    """[E, A] tick from which the app may be decreased again."""
    decreased: F64
    """[E, W, D] millicores taken away in each tick of the window."""
    sizing: I32
    """[E, 2, A] millicores and MiB per pod that were asked for last: resizes land ticks later."""


class Workspace(NamedTuple):
    """Scratch of the kernels, for one environment at a time. A apps, D domains."""

    size: I32
    """[2, A] millicores and MiB per pod that count as held."""
    resized: I32
    """[2, A] the same after the tick."""
    limit: F64
    """[2, D] millicores and MiB that replicas may hold."""
    held: F64
    """[2, D]."""
    room: F64
    """[2, D]."""
    blast: F64
    """[D]."""
    low: F32
    """[D]."""
    high: F32
    """[D]."""
    order: I32
    """[A] declared apps in the order of their turns, then NOBODY."""
    members: I32
    """[D] declared apps of each domain."""
    rank: I32
    """[D]."""


def start_history(environments: int, apps: int, domains: int, tick_s: int) -> ChangeHistory:
    """Nothing was changed yet."""
    ticks = max(1, BLAST_WINDOW_S // tick_s)
    return ChangeHistory(
        np.zeros((environments, apps), np.int32),
        np.zeros((environments, ticks, domains)),
        np.zeros((environments, RESOURCES, apps), np.int32),
    )


def workspace(domains: int, apps: int) -> Workspace:
    """Scratch for one environment at a time."""
    return Workspace(
        size=np.zeros((RESOURCES, apps), np.int32),
        resized=np.zeros((RESOURCES, apps), np.int32),
        limit=np.zeros((RESOURCES, domains)),
        held=np.zeros((RESOURCES, domains)),
        room=np.zeros((RESOURCES, domains)),
        blast=np.zeros(domains),
        low=np.zeros(domains, np.float32),
        high=np.zeros(domains, np.float32),
        order=np.zeros(apps, np.int32),
        members=np.zeros(domains, np.int32),
        rank=np.zeros(domains, np.int32),
    )


def cool_down_ticks(tick_s: int) -> int:
    """Ticks from a change of an app to its next decrease."""
    return COOL_DOWN_S // tick_s


@kernel
def held_sizes(status: I32, sizing: I32, size: I32) -> None:
    """[2, A] what a pod of each app holds, or will when the resize on its way has landed.

    An app that is not declared holds nothing.
    """
    for app in range(size.shape[1]):
        active = status[ACTIVE, app] == 1
        cpu = max(status[CPU_REQUEST, app], sizing[MILLICORES, app])
        memory = max(status[MEMORY_REQUEST, app], sizing[MEBIBYTES, app])
        size[MILLICORES, app] = cpu if active else 0
        size[MEBIBYTES, app] = memory if active else 0


@kernel
def without_surge(allowed: F64, status: I32, size: I32, limit: F64) -> None:
    """[2, D] what is left of the budgets for replicas: extra pods of a deploy are held, too."""
    for resource in range(RESOURCES):
        for place in range(limit.shape[1]):
            limit[resource, place] = allowed[resource, place]
        for app in range(size.shape[1]):
            pods = status[READY, app] + status[STARTING, app] + status[PENDING, app]
            extra = max(0, pods - status[REPLICAS, app])
            lot = np.float64(extra) * np.float64(size[resource, app])
            limit[resource, status[DOMAIN, app]] -= lot


@kernel
def take_turns(active: I32, domain: I32, tick: int, work: Workspace) -> None:
    """Who comes first among the apps of each domain changes by tick.

    Turns are by rank among the declared apps of the own domain: places in the arrays at hand
    would mean something else where other apps are held beside them.
    """
    members, rank, order = work.members, work.rank, work.order
    for place in range(members.size):
        members[place] = 0
    for app in range(order.size):
        members[domain[app]] += 1 if active[app] == 1 else 0
    taken = 0
    for early in (False, True):
        for place in range(rank.size):
            rank[place] = 0
        for app in range(order.size):
            if active[app] != 1:
                continue
            place = domain[app]
            # The stride is a prime: but for its multiples, all apps come first in turn.
            stride = _STRIDE if members[place] % _STRIDE != 0 else 1
            before_first = rank[place] < (tick * stride) % members[place]
            rank[place] += 1
            if before_first == early:
                order[taken] = app
                taken += 1
    for step in range(taken, order.size):
        order[step] = NOBODY


@kernel
def left_of_blast(current: I32, size: I32, domain: I32, decreased: F64, room: F64) -> None:
    """[D] millicores that may still be taken away or resized in this window."""
    hold_of(current, size[MILLICORES], domain, room)
    for place in range(room.size):
        room[place] *= BLAST_SHARE
        for past in range(decreased.shape[0]):
            room[place] -= decreased[past, place]
