"""The provisioner: one standing node request per pool, fenced by its tick and its epoch."""

from typing import Literal, NamedTuple

from models.cluster.plan import Plan
from schemas.capacity_requested import CapacityRequested, NodesByUrgency

Answer = Literal["accepted", "repeat", "superseded", "expired", "unknown", "refused"]
"""accepted: its nodes are part of the next step. repeat: it was accepted before. superseded: a
newer one was. expired: it was no longer valid when it arrived. unknown: the pool is unknown.
refused: it is from the future."""


class _Standing(NamedTuple):
    request: CapacityRequested
    placed: bool
    """Whether its nodes were requested from the cloud, which happens once."""


class Provisioner:
    """Obeys the newest request of each pool while it is valid."""

    def __init__(self, pools: tuple[str, ...]) -> None:
        self._pools = pools
        self._standing: dict[str, _Standing] = {}
        self._early: dict[str, int] = {}
        """By pool, the tick of a request that came one tick early; it is not made again."""

    def request(self, wanted: CapacityRequested, tick: int) -> Answer:
        """Take in a request that arrives at `tick`."""
        if wanted.pool not in self._pools:
            return "unknown"
        if wanted.tick > tick:
            if wanted.tick == tick + 1:
                self._early[wanted.pool] = wanted.tick
            return "refused"
        before = self._standing.get(wanted.pool)
        # Ticks first: they are bounded by the cluster's own, and epochs rise with them. An epoch
        # alone could be so high that no request would follow it.
        if before is not None and _order(wanted) <= _order(before.request):
            return "repeat" if _order(wanted) == _order(before.request) else "superseded"
        if wanted.valid_until_tick < tick:
            return "expired"
        self._standing[wanted.pool] = _Standing(wanted, placed=False)
        return "accepted"

    def requested_since(self, tick: int) -> bool:
        """Whether a request was made for every pool at `tick` or later, one too early included."""
        made = {pool: standing.request.tick for pool, standing in self._standing.items()}
        return all(
            max(made.get(pool, -1), self._early.get(pool, -1)) >= tick for pool in self._pools
        )

    def fill(self, plan: Plan, tick: int) -> None:
        """Add the requests to the plan of a step."""
        for index, pool in enumerate(self._pools):
            standing = self._standing.get(pool)
            if standing is None:
                continue
            request = standing.request
            # Once per epoch: the request stands for minutes, and each step would launch it again.
            if not standing.placed:
                plan.nodes[0, index] = _by_urgency(request.nodes)
                self._standing[pool] = _Standing(request, placed=True)
            # An expired request must not stop pending pods from triggering nodes themselves.
            if tick <= request.valid_until_tick:
                plan.coordinated[0, index] = 1
                plan.keep[0, index] = request.min_nodes


def _order(request: CapacityRequested) -> tuple[int, int]:
    return request.tick, request.epoch


def _by_urgency(nodes: NodesByUrgency) -> list[int]:
    """Nodes by urgency, in the order of the plan's last axis."""
    return [nodes.critical, nodes.essential, nodes.comfort, nodes.spare]
