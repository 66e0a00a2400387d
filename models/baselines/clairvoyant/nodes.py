"""Which nodes to request now, so that they are ready when future pods need them.

The cloud starts a limited number of nodes per second, so a large need has to be requested long
before, and a small one at the last moment: accepted requests cannot be cancelled.
"""

from typing import Final, NamedTuple

import numpy as np

from models.cluster import rows
from models.cluster.arrays import F32, F64, I32, MIB_PER_GIB, MILLI
from models.cluster.observation import Observation
from models.sim.rules import ClusterRules

_PACKED: Final = 0.94
"""How full nodes get."""
_SCRAPS: Final = 0.02
"""Share of a pool that is free only in pieces too small to use."""


class Supply(NamedTuple):
    """What the nodes of the pools provide, and how fast they start."""

    cpu: F64
    """[P] cores of a node."""
    memory: F64
    """[P] GiB of a node."""
    quota: I32
    """[P] nodes."""
    per_tick: float
    """Nodes that the cloud starts in a tick, over all pools."""
    own: I32
    """[D] preferred pool."""
    shared: I32
    """[D] the pool that takes what the preferred one has no room for."""


def supply_of(rules: ClusterRules) -> Supply:
    """The supply of a world's pools."""
    choices = rules.domain_pools
    last = (choices >= 0).sum(axis=1) - 1
    return Supply(
        cpu=rules.pools["cpu"] / MILLI,
        memory=rules.pools["memory"] / MIB_PER_GIB,
        quota=rules.pools["end"] - rules.pools["first"],
        per_tick=float(rules.physics["launches_per_tick"][0]),
        own=choices[:, 0],
        shared=choices[np.arange(last.size), last],
    )


def holdings(pods: I32, status: I32, domains: int) -> tuple[F64, F64]:
    """[D] cores and GiB of `pods` [A] of one environment, by the apps' present domains."""
    cpu = pods * status[rows.CPU_REQUEST] / MILLI
    memory = pods * status[rows.MEMORY_REQUEST] / MIB_PER_GIB
    by = status[rows.DOMAIN]
    by_domain: tuple[F64, F64] = (
        np.bincount(by, cpu, domains).astype(np.float64),
        np.bincount(by, memory, domains).astype(np.float64),
    )
    return by_domain


def short_nodes(supply: Supply, observation: Observation, e: int, pods: I32) -> F64:
    """[P] nodes that `pods` [A] of an environment need beyond those ready and coming."""
    status, pools = observation.status[e], observation.pool[e]
    domains = supply.own.size
    bound = status[rows.READY] + status[rows.STARTING]
    wanted, held = holdings(pods, status, domains), holdings(bound, status, domains)
    # Nodes that are still coming count against the quota as well.
    left = (supply.quota - pools["ready"] - pools["coming"]).astype(float)
    nodes = np.zeros(left.size)
    # A node provides both: the scarcer of CPU and memory decides.
    for kind, size, free in ((0, supply.cpu, "free_cpu"), (1, supply.memory, "free_memory")):
        extra = np.maximum(0.0, wanted[kind] - held[kind])
        usable = _usable(size, pools["ready"], pools["coming"], pools[free])
        nodes = np.maximum(nodes, _fill(supply, extra, usable, size, left))
    return np.asarray(np.minimum(np.ceil(nodes), np.maximum(0.0, left)))


def _usable(size: F64, ready: I32, coming: I32, free: F32) -> F64:
    # Free cores of ready nodes are partly scraps; coming nodes are empty, but never fill up.
    return np.maximum(0.0, free - _SCRAPS * ready * size) + coming * size * _PACKED


def _fill(supply: Supply, extra: F64, usable: F64, size: F64, left: F64) -> F64:
    """[P] nodes for `extra` [D]: the own pool up to its quota, the shared one for the rest."""
    nodes = np.zeros(left.size)
    spilled = np.zeros(left.size)
    for domain, own in enumerate(supply.own):
        short = max(0.0, extra[domain] - usable[own])
        nodes[own] = min(short / (size[own] * _PACKED), max(0.0, left[own]))
        spilled[supply.shared[domain]] += max(0.0, short - nodes[own] * size[own] * _PACKED)
    # The shared pool has room of its own for what spills over.
    spilled = np.maximum(0.0, spilled - usable)
    return np.asarray(nodes + spilled / (size * _PACKED))


def due_nodes(short: F64, ticks_ahead: I32, per_tick: float) -> F64:
    """[P] nodes to request now, of those that are `short` [S, P] some ticks ahead.

    A need is due when the cloud, starting now, would be ready just in time. All needs before the
    last one that is due are due as well.
    """
    due = short.sum(axis=1) > per_tick * ticks_ahead
    return np.asarray((short * due[:, None]).max(axis=0))
