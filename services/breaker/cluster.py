"""The cluster's own breaker, which the processes of the domains' breakers keep together.

Every process reads the breakers, budgets and pools of the whole cluster as reference data. The
first domain in the cluster file whose breaker is alive publishes the cluster's breaker with each of
its frames. If its frames stop, the next domain takes over from the last published event.
"""

from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64
from models.cluster.description import PRIORITIES, Cluster
from models.cluster.inventory import declare_cluster
from models.control.breaker.cluster import (
    ClusterReadings,
    ClusterThresholds,
    Grant,
    advance_cluster,
    cluster_table,
    implausible,
)
from models.control.breaker.limits import Thresholds
from models.control.breaker.orders import Cause, Phase
from models.control.breaker.phases import BreakerMemory, start
from schemas.breaker_changed import BreakerChanged
from schemas.budget_granted import BudgetGranted
from schemas.domain_observed import DomainObserved
from schemas.fields import Event
from schemas.pool_observed import PoolObserved
from services._kit.handler import CLUSTER
from services.breaker.events import (
    CAUSES,
    PHASES,
    changed_event,
    named_readings,
    reason_of,
)

LEAD_TICKS: Final = 3
"""A domain leads until its last frame is older than this; below the ticks after which the actuator
takes a heartbeat for stale."""
_AHEAD_TICKS: Final = 6
"""Budgets further ahead of the frames than this are not believed."""


class ClusterBreaker(NamedTuple):
    """What the leading domain remembers of the cluster's breaker."""

    memory: BreakerMemory
    tick: int
    """Of the last event."""
    reason: str


@dataclass
class ClusterWatch:
    """Reference data about the whole cluster, and the rules on it."""

    cluster: Cluster
    limits: ClusterThresholds
    recovery: Thresholds
    breakers: dict[str, BreakerChanged] = field(default_factory=dict)
    budgets: dict[str, BudgetGranted] = field(default_factory=dict)
    pools: dict[str, PoolObserved] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._table = cluster_table(self.limits, self.recovery)
        prices: F64 = declare_cluster(self.cluster).pool_price.astype(np.float64)
        self._prices = dict(zip(self.cluster.pool_names, prices.tolist(), strict=True))
        self._critical = [d.name for d in self.cluster.domains if d.priority == PRIORITIES[0]]

    def learn(self, event: Event) -> None:
        """Take in the newest event of a breaker, domain or pool."""
        match event:
            case BreakerChanged():
                last = self.breakers.get(event.scope)
                if last is None or last.tick <= event.tick:
                    self.breakers[event.scope] = event
            case BudgetGranted():
                budget = self.budgets.get(event.domain)
                if budget is None or budget.epoch <= event.epoch:
                    self.budgets[event.domain] = event
            case PoolObserved():
                pool = self.pools.get(event.pool)
                if pool is None or pool.tick <= event.tick:
                    self.pools[event.pool] = event

    def forget(self, kind: type[Event], key: str) -> None:
        """Remove what a tombstone names."""
        if kind is BreakerChanged:
            self.breakers.pop(key, None)
        elif kind is BudgetGranted:
            self.budgets.pop(key, None)
        elif kind is PoolObserved:
            self.pools.pop(key, None)

    def fits(self, memory: BreakerMemory) -> bool:
        """Whether a saved memory has the conditions of this release."""
        return memory.held.shape == (1, *self._table.threshold.shape)

    def leads(self, domain: str, tick: int) -> bool:
        """Whether this domain publishes the cluster's breaker in this tick."""
        for name in self.cluster.domain_names:
            if name == domain:
                return True
            last = self.breakers.get(name)
            if last is not None and last.tick >= tick - LEAD_TICKS:
                return False
        return False  # not a domain of this cluster

    def judge(
        self, frame: DomainObserved, own: BreakerMemory, before: ClusterBreaker | None
    ) -> tuple[ClusterBreaker, BreakerChanged]:
        """The cluster's breaker after a frame of the leading domain."""
        memory, reason, first = self._resume(frame.tick, before)
        readings, wrong = self._readings(frame, own)
        after = advance_cluster(np.array([frame.tick], np.int32), readings, memory, self._table)
        changed = bool(after.phase[0, 0] != memory.phase[0, 0])
        named = named_readings([float(one[0]) for one in readings], self._table)
        if changed and not (memory.phase[0, 0] == Phase.OPEN and after.phase[0, 0] != Phase.CLOSED):
            reason = reason_of(after, named)
            if after.cause[0, 0] == Cause.BUDGETS and after.phase[0, 0] != Phase.CLOSED:
                reason = f"budgets: {wrong}"
        event = changed_event(
            CLUSTER, after, tick=frame.tick, time=frame.time, reason=reason,
            heartbeat=not (first or changed), readings=named, trace_id=frame.trace_id,
        )  # fmt: skip
        return ClusterBreaker(after, frame.tick, reason), event

    def _resume(self, tick: int, before: ClusterBreaker | None) -> tuple[BreakerMemory, str, bool]:
        """What is remembered; after a change of the leader, what its last event says."""
        last = self.breakers.get(CLUSTER)
        if before is not None and (last is None or last.tick <= before.tick):
            return before.memory, before.reason, False
        fresh = start(tick, 1, self._table, 0)
        if last is None:
            return fresh, "", True
        # An unknown cause is one of a newer release: what it opened stays open until it is calm.
        cause = CAUSES.get(last.cause, Cause.DOMAINS)
        taken_over = fresh._replace(
            phase=np.full((1, 1), PHASES[last.state], np.int8),
            cause=np.full((1, 1), Cause.NONE if last.state == "closed" else cause, np.int8),
            since=np.full((1, 1), last.since_tick, np.int32),
        )
        return taken_over, last.reason, False

    def _readings(self, frame: DomainObserved, own: BreakerMemory) -> tuple[ClusterReadings, str]:
        names = self.cluster.domain_names
        tripped = sum(
            _is_tripped(self.breakers.get(name)) for name in names if name != frame.domain
        )
        phase, cause = Phase(own.phase[0, 0]), Cause(own.cause[0, 0])
        tripped += phase != Phase.CLOSED and not cause.own_outage
        grants = {
            name: Grant(one.epoch, one.share, one.reserve_share, one.cores)
            for name, one in self.budgets.items()
        }
        wrong = implausible(grants, self._critical)
        values = (tripped / len(names), self._cost(), self._silence(frame.tick), float(wrong != ""))
        return ClusterReadings(*(np.array([value]) for value in values)), wrong

    def _cost(self) -> float:
        """Price of all nodes per hour over the spend cap; 0 before a pool was observed."""
        price = 0.0
        for name, pool in self.pools.items():
            each = pool.price_per_hour or self._prices.get(name, 0.0)
            price += each * (pool.ready + pool.booting + pool.requested)
        return price / self.cluster.spend_cap_per_hour

    def _silence(self, tick: int) -> float:
        """Ticks since the newest budget; 0 before the first."""
        ticks = [one.tick for one in self.budgets.values() if one.tick <= tick + _AHEAD_TICKS]
        return float(max(0, tick - max(ticks))) if ticks else 0.0


def _is_tripped(event: BreakerChanged | None) -> bool:
    """Whether a domain's breaker is not closed, for another reason than an outage of ours."""
    if event is None or event.state == "closed":
        return False
    return not CAUSES.get(event.cause, Cause.NONE).own_outage
