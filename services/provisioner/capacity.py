"""The port: how much room to hold in each pool, and what the pools have.

Room is held in chunks of nearly a node, so that a chunk needs a node of its own. A node with pods
of others needs no chunk: it stays without one. So the chunks of a pool are the nodes it is to have,
less those that are occupied. As pods take the room, chunks go, and no node is asked for twice.
"""

from collections.abc import Mapping

import msgspec


class PoolWanted(msgspec.Struct, frozen=True, kw_only=True):
    """What to hold in one pool."""

    nodes: int
    """That the pool is to have."""
    node_cpu: int
    """Allocatable millicores of a node; likewise MiB."""
    node_memory: int


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    """Asks for room in all pools."""

    pools: Mapping[str, PoolWanted]


class PoolHeld(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one pool."""

    ready: int = 0
    """Nodes that take pods, as counted, not as a buffer says."""
    occupied: int = 0
    """Ready nodes on which pods of others run."""
    chunks: int = 0
    """Room that is held now, ready or to come."""
    problem: str = ""
    """Why its room could not be changed; empty if it could."""


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """The answer."""

    pools: Mapping[str, PoolHeld]


def chunks_for(wanted: int, occupied: int) -> int:
    """Chunks beside the occupied nodes."""
    return max(0, wanted - occupied)
