"""What the provisioner was asked for: one standing request per pool, fenced by its epoch."""

from typing import Literal, NamedTuple

from models.cluster.plan import Plan
from schemas.capacity_requested import CapacityRequested, NodesByUrgency

Answer = Literal["accepted", "repeat", "superseded", "expired", "unknown"]
"""accepted: its nodes are part of the next step. repeat: its epoch was taken before. superseded: a
newer epoch was. expired: its time was over when it came. unknown: there is no such pool."""


class _Standing(NamedTuple):
    request: CapacityRequested
    placed: bool
    """Its nodes were asked of the cloud: that is done once."""


class Provisioner:
    """Obeys the newest request of each pool as long as it is valid."""

    def __init__(self, pools: tuple[str, ...]) -> None:
        self._pools = pools
        self._standing: dict[str, _Standing] = {}

    def request(self, wanted: CapacityRequested, tick: int) -> Answer:
        """Take a request that arrives at `tick`."""
        if wanted.pool not in self._pools:
            return "unknown"
        before = self._standing.get(wanted.pool)
        if before is not None and wanted.epoch <= before.request.epoch:
            return "repeat" if wanted.epoch == before.request.epoch else "superseded"
        if wanted.valid_until_tick < tick:
            return "expired"
        self._standing[wanted.pool] = _Standing(wanted, placed=False)
        return "accepted"

    def asked_since(self, tick: int) -> bool:
        """Whether every pool has a request that was made at `tick` or later."""
        return all(
            pool in self._standing and self._standing[pool].request.tick >= tick
            for pool in self._pools
        )

    def fill(self, plan: Plan, tick: int) -> None:
        """Put into the plan of a step what is asked for in it."""
        for place, pool in enumerate(self._pools):
            standing = self._standing.get(pool)
            if standing is None:
                continue
            request = standing.request
            if not standing.placed:
                plan.nodes[0, place] = _by_urgency(request.nodes)
                self._standing[pool] = _Standing(request, placed=True)
            # A coordinator that has fallen silent must not keep pending pods from asking.
            if tick <= request.valid_until_tick:
                plan.coordinated[0, place] = 1
                plan.keep[0, place] = request.min_nodes


def _by_urgency(nodes: NodesByUrgency) -> list[int]:
    """In the order of the plan's last axis."""
    return [nodes.critical, nodes.essential, nodes.comfort, nodes.spare]
