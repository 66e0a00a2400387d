"""The provisioner: keeps the newest node request of each pool, and holds room for it.

A request names nodes to add to those that existed; what is kept is the sum. It stands until a newer
one replaces it or its validity ends, in event time or in wall time: a Commander that died must not
keep nodes for ever, and neither must one that died together with the collector.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from models.cluster.description import Cluster, Machine
from schemas.capacity_requested import CapacityRequested
from schemas.fields import Event
from schemas.pool_observed import PoolObserved
from services._kit.clock import Clock
from services._kit.errors import Refused
from services._kit.handler import Handler, Step
from services._kit.state_codec import Transient
from services.provisioner.capacity import Hold, PoolWanted
from services.provisioner.targets import Limits, Standing, Target, targets

_MOST_AHEAD: Final = 60
"""Ticks that a request may be ahead of the pools, or valid beyond its own tick."""
_MILLI: Final = 1000
_MIB: Final = 1024
_OTHER_SIZE: Final = 0.1
"""Share by which nodes have to differ from those that chunks were cut for. Pools may have nodes of
several sizes, and chunks of a new size replace all others at once."""

Size = tuple[int, int]
"""Allocatable millicores and MiB of a node."""


@dataclass(frozen=True)
class ProvisionerState:
    """Standing requests by pool."""

    standing: Mapping[str, Standing] = field(default_factory=dict)
    sizes: Mapping[str, Size] = field(default_factory=dict)
    """By pool that ever had nodes, the size of a node that chunks are cut for."""
    next_at: Transient[float] = 0.0
    """By `Clock.now`: when to compare room and nodes again."""


class ProvisionerHandler(Handler[ProvisionerState]):
    """Holds room in all pools of the cluster."""

    name = "provisioner"
    inputs = (CapacityRequested,)
    reference = (PoolObserved,)
    scope = "cluster"

    def __init__(
        self, cluster: Cluster, per_minute: int, reconcile_s: float, speed: float = 1.0
    ) -> None:
        self._known = frozenset(cluster.pool_names)
        # What chunks are cut for until the first node of a pool says what it really has.
        self._described = {pool.name: _size_of(cluster.machine_of(pool)) for pool in cluster.pools}
        self._limits = Limits(per_minute, cluster.spend_cap_per_hour)
        self._tick_s, self._reconcile_s = cluster.tick_seconds / speed, reconcile_s
        self._pools: dict[str, PoolObserved] = {}

    def learn(self, event: Event, clock: Clock) -> None:  # noqa: ARG002  needs no time
        """Take in what a pool has."""
        if isinstance(event, PoolObserved) and event.pool in self._known:
            self._pools[event.pool] = event

    def forget(self, kind: type[Event], key: str, clock: Clock) -> None:  # noqa: ARG002  as above
        """Remove a pool."""
        if kind is PoolObserved:
            self._pools.pop(key, None)

    def start(self, key: str) -> ProvisionerState:  # noqa: ARG002  there is only one
        """Nothing requested yet."""
        return ProvisionerState()

    def handle(self, event: Event, state: ProvisionerState, clock: Clock) -> Step[ProvisionerState]:
        """Let a newer request of a pool stand."""
        if not isinstance(event, CapacityRequested):
            return Step(state)
        self._check(event)
        before = state.standing.get(event.pool)
        if before is not None and _order(event) <= _order(before.request):
            return Step(state)
        pool = self._pools.get(event.pool)
        if pool is None:
            # What it is to be added to is unknown; the next request comes within a minute.
            raise Refused("pool-unknown", f"pool {event.pool} was not observed yet")
        valid = event.valid_until_tick - event.tick + 1
        standing = Standing(
            event, pool.ready + pool.booting + pool.requested, clock.date() + valid * self._tick_s
        )
        state = replace(state, standing={**state.standing, event.pool: standing})
        return self._hold(state, clock)

    def due(self, state: ProvisionerState) -> float | None:
        """At the next comparison, as long as anything was ever requested."""
        return state.next_at if state.standing else None

    def wake(self, state: ProvisionerState, clock: Clock) -> Step[ProvisionerState]:
        """Compare room with nodes and pods."""
        if not state.standing or clock.now() < state.next_at:
            return Step(state)
        return self._hold(state, clock)

    def written(self, result: Any, state: ProvisionerState, clock: Clock) -> Step[ProvisionerState]:  # noqa: ARG002  what failed is tried again at the next comparison
        """Nothing to publish: metrics have what is held."""
        return Step(state)

    def wanted(self, state: ProvisionerState, now: float) -> dict[str, Target]:
        """Targets of all pools at a wall time."""
        return targets(state.standing, self._pools, self._limits, self._tick(), now)

    def _tick(self) -> int:
        """The tick of the pools; one whose record is wrong does not end every request."""
        ticks = sorted(pool.tick for pool in self._pools.values())
        return ticks[len(ticks) // 2] if ticks else 0

    def _hold(self, state: ProvisionerState, clock: Clock) -> Step[ProvisionerState]:
        found, sizes = self.wanted(state, clock.date()), self._sizes(state)
        cut_for = self._described | sizes
        pools = {
            name: PoolWanted(
                nodes=target.nodes, node_cpu=cut_for[name][0], node_memory=cut_for[name][1]
            )
            for name, target in found.items()
            if name in state.standing
        }
        state = replace(state, sizes=sizes, next_at=clock.now() + self._reconcile_s)
        return Step(state, writes=[Hold(pools=pools)] if pools else [])

    def _sizes(self, state: ProvisionerState) -> dict[str, Size]:
        """Of the nodes now; a pool without nodes, or with hardly other ones, keeps its size."""
        sizes = dict(state.sizes)
        for name, pool in self._pools.items():
            seen = round(pool.node_cores * _MILLI), round(pool.node_memory_gib * _MIB)
            known = sizes.get(name)
            if pool.node_cores > 0 and (known is None or _differ(seen, known)):
                sizes[name] = seen
        return sizes

    def _check(self, event: CapacityRequested) -> None:
        if event.pool not in self._known:
            raise Refused("unknown-pool", f"the cluster file has no pool {event.pool:.80}")
        newest = self._tick() if self._pools else event.tick
        if event.tick > newest + _MOST_AHEAD:
            raise Refused("future", f"tick {event.tick} is ahead of the pools, at {newest}")
        if event.valid_until_tick > event.tick + _MOST_AHEAD:
            detail = f"expected at most {_MOST_AHEAD} ticks of validity"
            raise Refused("validity", f"{detail}, got {event.valid_until_tick - event.tick}")


def _size_of(machine: Machine) -> Size:
    cores = machine.cpu_cores - machine.reserved_cpu_cores
    memory = machine.memory_gib - machine.reserved_memory_gib
    return round(cores * _MILLI), round(memory * _MIB)


def _differ(seen: Size, known: Size) -> bool:
    pairs = zip(seen, known, strict=True)
    return any(abs(now - before) > _OTHER_SIZE * before for now, before in pairs)


def _order(request: CapacityRequested) -> tuple[int, int]:
    # Ticks first: an epoch alone could be so high that no request would follow it.
    return request.tick, request.epoch
