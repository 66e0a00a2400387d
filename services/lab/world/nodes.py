"""Plays the node autoscaler and the cloud: which nodes are started, ready and removed. No IO.

With the simulator's constants and rules. Pods that found no room request nodes, unless a request of
the Commander coordinates their pool. An under-used node is removed when its pods fit elsewhere.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from models.sim.config.physics import Provisioner
from schemas.capacity_requested import CapacityRequested

_MINUTE_S: Final = 60


class Pool(NamedTuple):
    """What a pool may have."""

    name: str
    cpu: int
    """Allocatable millicores of a node; likewise MiB."""
    memory: int
    quota: int


class Waiting(NamedTuple):
    """A pod without a node."""

    pools: tuple[str, ...]
    """Preferred first."""
    cpu: int
    memory: int


@dataclass
class Node:
    """A node from its launch to its end."""

    name: str
    pool: str
    ready_tick: int
    underused_since: int | None = None


class Steps(NamedTuple):
    """What changes at a tick."""

    ready: list[Node]
    removed: list[Node]


Sizes = Mapping[str, Sequence[tuple[int, int]]]
"""Millicores and MiB of the pods on each node."""


@dataclass
class NodePools:
    """All nodes of the cluster."""

    pools: tuple[Pool, ...]
    physics: Provisioner
    tick_s: int
    nodes: dict[str, Node] = field(default_factory=dict)
    _made: int = 0
    _placed: dict[str, int] = field(default_factory=dict)
    """By pool: tick of the newest request whose nodes were launched."""

    def launch(self, pool: Pool, count: int, tick: int, *, at_once: bool = False) -> None:
        """Start nodes, as far as the quota goes; boots slow each other down."""
        existing = sum(node.pool == pool.name for node in self.nodes.values())
        for _ in range(min(count, pool.quota - existing)):
            busy = sum(node.ready_tick > tick for node in self.nodes.values())
            slow = 1 + self.physics.boot_contention * busy / (busy + self.physics.contention_half)
            ticks = 0 if at_once else max(1, round(self.physics.boot_s * slow / self.tick_s))
            self._made += 1
            name = f"{pool.name}-{self._made:04d}"
            self.nodes[name] = Node(name, pool.name, tick + ticks)

    def step(
        self,
        tick: int,
        waiting: Iterable[Waiting],
        requests: Mapping[str, CapacityRequested],
        placed: Sizes,
    ) -> Steps:
        """One tick; `requests` are the newest by pool."""
        valid = {name: one for name, one in requests.items() if tick <= one.valid_until_tick}
        self._launch_requested(tick, valid)
        self._launch_pending(tick, waiting, valid)
        ready = [node for node in self.nodes.values() if node.ready_tick == tick]
        removed = []
        if tick % max(1, _MINUTE_S // self.tick_s) == 0:
            removed = self._shrink(tick, valid, placed)
        return Steps(ready, removed)

    def _launch_requested(self, tick: int, valid: Mapping[str, CapacityRequested]) -> None:
        for pool in self.pools:
            found = valid.get(pool.name)
            # Its nodes are launched once, however long it stands.
            if found is not None and self._placed.get(pool.name, -1) < found.tick:
                self._placed[pool.name] = found.tick
                by = found.nodes
                count = by.critical + by.essential + by.comfort + by.spare
                self.launch(pool, count, tick)

    def _launch_pending(
        self, tick: int, waiting: Iterable[Waiting], valid: Mapping[str, CapacityRequested]
    ) -> None:
        needs: dict[str, list[int]] = {}
        for pod in waiting:
            pool = self._with_room(pod.pools)
            if pool is not None and pool.name not in valid:
                need = needs.setdefault(pool.name, [0, 0])
                need[0], need[1] = need[0] + pod.cpu, need[1] + pod.memory
        for pool in self.pools:
            if pool.name in needs:
                cpu, memory = needs[pool.name]
                wanted = math.ceil(max(cpu / pool.cpu, memory / pool.memory))
                booting = sum(
                    node.pool == pool.name and node.ready_tick > tick
                    for node in self.nodes.values()
                )
                self.launch(pool, max(0, wanted - booting), tick)

    def _with_room(self, names: tuple[str, ...]) -> Pool | None:
        """The most preferred pool below its quota."""
        by_name = {pool.name: pool for pool in self.pools}
        for name in names:
            existing = sum(node.pool == name for node in self.nodes.values())
            if existing < by_name[name].quota:
                return by_name[name]
        return None

    def _shrink(
        self, tick: int, valid: Mapping[str, CapacityRequested], placed: Sizes
    ) -> list[Node]:
        """Remove nodes that were under-used for long, if their pods fit on the pool's others."""
        removed: list[Node] = []
        after = self.physics.scale_down_after_s / self.tick_s
        for pool in self.pools:
            ready = [n for n in self.nodes.values() if n.pool == pool.name and n.ready_tick <= tick]
            keep = valid[pool.name].min_nodes if pool.name in valid else 0
            free = {node.name: _free(pool, placed.get(node.name, ())) for node in ready}
            for node in ready:
                cpu, memory = free[node.name]
                share = self.physics.scale_down_utilisation
                if 1 - cpu / pool.cpu >= share or 1 - memory / pool.memory >= share:
                    node.underused_since = None
                    continue
                node.underused_since = (
                    tick if node.underused_since is None else node.underused_since
                )
                due = tick - node.underused_since >= after
                most = self.physics.scale_down_nodes_per_minute
                if not due or len(free) <= max(1, keep) or len(removed) >= most:
                    continue
                others = {name: room for name, room in free.items() if name != node.name}
                if _fit(placed.get(node.name, ()), others):
                    free = others
                    removed.append(self.nodes.pop(node.name))
        return removed


def _free(pool: Pool, pods: Sequence[tuple[int, int]]) -> tuple[int, int]:
    return pool.cpu - sum(cpu for cpu, _ in pods), pool.memory - sum(memory for _, memory in pods)


def _fit(pods: Sequence[tuple[int, int]], free: dict[str, tuple[int, int]]) -> bool:
    """Whether the pods fit, the largest first, and if so take their room, in place."""
    left = dict(free)
    for cpu, memory in sorted(pods, reverse=True):
        fits = (name for name, room in left.items() if room[0] >= cpu and room[1] >= memory)
        name = next(fits, None)
        if name is None:
            return False
        left[name] = (left[name][0] - cpu, left[name][1] - memory)
    free.update(left)
    return True
