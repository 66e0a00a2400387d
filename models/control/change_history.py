"""What the safety rules go by: recent changes, what is held, and which app is served first.

Nothing here depends on apps of another domain or on how many apps a process holds, so a process
with one domain decides exactly like one with the whole cluster.
"""

from typing import Final, NamedTuple

import numpy as np

from models.cluster import rows
from models.cluster.arrays import F64, I32
from models.control.projection import (
    MEBIBYTES,
    MILLICORES,
    RESOURCES,
    Bisection,
    bisection_scratch,
    sum_held,
)
from models.jit import kernel

BLAST_SHARE: Final = 0.1
"""Share of what a domain holds that may be decreased within a window."""
BLAST_WINDOW_S: Final = 60
"""Together with the share it is the default of invariant 8; other values were not compared."""
COOL_DOWN_S: Final = 360
"""From any change of an app to its next decrease; longer than the 5 minutes within which a
change back counts as an oscillation."""
_STRIDE: Final = 131
"""Apps of a domain by which the first one moves on from tick to tick.

A step of 1 would let the same neighbours go first for many ticks in a row, and a limit that binds
would be used up by them. A prime visits all apps before it repeats one."""
NO_APP: Final = -1
"""Fills the end of `Workspace.order`, after the last declared app."""


class ChangeHistory(NamedTuple):
    """What the rules remember. E environments, A apps, D domains, W ticks of a window."""

    rested: I32
    """[E, A] tick from which the app may be decreased again."""
    decreased: F64
    """[E, W, D] millicores taken away in each tick of the window."""
    sizing: I32
    """[E, 2, A] millicores and MiB per pod of the last plan: resizes take effect ticks later."""


class FirstSizes(NamedTuple):
    """Sizes at the first observation, [E, A] each; 0 if unknown. E environments, A apps.

    They are those that the owners chose.
    """

    cpu: I32
    """Millicores per pod."""
    memory: I32
    """MiB per pod."""


class Workspace(NamedTuple):
    """Scratch of the kernels, for one environment at a time. A apps, D domains."""

    size: I32
    """[2, A] millicores and MiB per pod that count as held."""
    resized: I32
    """[2, A] the same after the tick."""
    held: F64
    """[2, D] millicores and MiB that replicas hold now."""
    limit: F64
    """[2, D] millicores and MiB that replicas may hold."""
    room: F64
    """[2, D] of the limit that is not held; then what is held after the tick."""
    blast: F64
    """[D] millicores that may still be decreased or resized in this window."""
    bisection: Bisection
    order: I32
    """[A] declared apps, the one to serve first at the front, then NO_APP."""
    members: I32
    """[D] declared apps of each domain."""
    rank: I32
    """[D] declared apps of the domain so far, less those that come last: see `rotate_order`."""


def start_history(environments: int, apps: int, domains: int, tick_s: int) -> ChangeHistory:
    """A history without changes."""
    ticks = max(1, BLAST_WINDOW_S // tick_s)
    # Zeros restrict nothing: every app may shrink from tick 0 on, and no resize is on its way.
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
        held=np.zeros((RESOURCES, domains)),
        limit=np.zeros((RESOURCES, domains)),
        room=np.zeros((RESOURCES, domains)),
        blast=np.zeros(domains),
        bisection=bisection_scratch(domains),
        order=np.zeros(apps, np.int32),
        members=np.zeros(domains, np.int32),
        rank=np.zeros(domains, np.int32),
    )


def cool_down_ticks(tick_s: int) -> int:
    """Ticks from a change of an app to its next decrease."""
    return COOL_DOWN_S // tick_s


@kernel
def prepare_workspace(status: I32, tick: int, may_hold: F64, sizing: I32, work: Workspace) -> None:
    """Fill sizes, holdings, limits and order of the workspace for one environment."""
    # Sizes first: holdings and the surge are counted in them.
    held_sizes(status, sizing, work.size)
    sum_held(status[rows.REPLICAS], work.size, status[rows.DOMAIN], work.held)
    subtract_surge(may_hold, status, work.size, work.limit)
    rotate_order(status[rows.ACTIVE], status[rows.DOMAIN], tick, work)


@kernel
def held_sizes(status: I32, sizing: I32, size: I32) -> None:
    """What a pod of each app holds [2, A], or will hold once a pending resize takes effect.

    An app that is not declared holds nothing.
    """
    for app in range(size.shape[1]):
        active = status[rows.ACTIVE, app] == 1
        # A resize takes effect ticks later. Until the status shows it the larger size counts, or
        # the same room would be granted twice.
        cpu = max(status[rows.CPU_REQUEST, app], sizing[MILLICORES, app])
        memory = max(status[rows.MEMORY_REQUEST, app], sizing[MEBIBYTES, app])
        size[MILLICORES, app] = cpu if active else 0
        size[MEBIBYTES, app] = memory if active else 0


@kernel
def subtract_surge(may_hold: F64, status: I32, size: I32, limit: F64) -> None:
    """Limits of replicas [2, D]: the extra pods of a rolling deploy hold capacity, too."""
    for resource in range(RESOURCES):
        for d in range(limit.shape[1]):
            limit[resource, d] = may_hold[resource, d]
    for app in range(size.shape[1]):
        pods = status[rows.READY, app] + status[rows.STARTING, app] + status[rows.PENDING, app]
        extra = pods - status[rows.REPLICAS, app]
        if extra > 0:
            d = status[rows.DOMAIN, app]
            for resource in range(RESOURCES):
                limit[resource, d] -= np.float64(extra) * np.float64(size[resource, app])


@kernel
def rotate_order(active: I32, domain: I32, tick: int, work: Workspace) -> None:
    """Order the apps so that another one of each domain comes first every tick.

    Limits are used up in this order: with a fixed one, the apps at its end could wait for ever. It
    goes by rank among the declared apps of the domain. Array indices would give another order in a
    process that holds other domains as well.
    """
    members, rank, order = work.members, work.rank, work.order
    for d in range(members.size):
        members[d] = 0
    for app in range(order.size):
        members[domain[app]] += 1 if active[app] == 1 else 0
    taken = 0
    # Two passes rotate the order: first the apps from this tick's first one on, then those before.
    for early in (False, True):
        for d in range(rank.size):
            # The stride is prime, so every app comes first once, unless it divides their number.
            stride = _STRIDE if members[d] % _STRIDE != 0 else 1
            rank[d] = -((tick * stride) % max(1, members[d]))
        for app in range(order.size):
            if active[app] != 1:
                continue
            d = domain[app]
            before_first = rank[d] < 0
            rank[d] += 1
            if before_first == early:
                order[taken] = app
                taken += 1
    for step in range(taken, order.size):
        order[step] = NO_APP


@kernel
def blast_radius_left(held: F64, decreased: F64, left: F64) -> None:
    """Millicores [D] that may still be decreased or resized in this window."""
    for d in range(left.size):
        left[d] = held[MILLICORES, d] * BLAST_SHARE
        for past in range(decreased.shape[0]):
            # Slots of lost ticks still hold older decreases. That only allows less.
            left[d] -= decreased[past, d]
