"""The cluster's own breaker, which the processes of the domains' breakers keep together.

Every process reads the breakers, budgets and pools of the whole cluster as reference data. The
first domain in the cluster file whose breaker is alive publishes the cluster's breaker with each of
its frames. If its frames stop, the next domain takes over from the last published event.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64
from models.cluster.description import PRIORITIES, Cluster
from models.cluster.inventory import declare_cluster
from models.control.breaker.actions import Cause, Phase
from models.control.breaker.cluster import (
    ClusterReadings,
    ClusterThresholds,
    Grant,
    advance_cluster,
    cluster_fallback_table,
    cluster_table,
    implausible,
)
from models.control.breaker.fallback import FallbackMemory, advance_levels, start_fallback
from models.control.breaker.limits import Thresholds
from models.control.breaker.phases import BreakerMemory, closed, start
from models.control.fallback import Level
from schemas.breaker_changed import STATES_BY_RESTRICTION, BreakerChanged, State
from schemas.budget_granted import BudgetGranted
from schemas.domain_observed import DomainObserved
from schemas.fields import Event
from schemas.pool_observed import PoolObserved
from services._kit.handler import CLUSTER
from services._kit.levels import LEVELS
from services._kit.newest import Newest
from services._kit.orders import BreakerCommand
from services.breaker.events import (
    CAUSES,
    PHASES,
    changed_event,
    level_of,
    named_readings,
    reason_of,
    reset_reason,
    state_of,
)

LEAD_TICKS: Final = 3
"""A domain leads until its last frame is older than this; below the ticks after which the actuator
takes a heartbeat for stale."""
AHEAD_TICKS: Final = 6
"""How far others' events may be ahead of the newest frame that can be due by now."""


_NO_FALLBACK: Final = start_fallback(1, cluster_fallback_table(ClusterThresholds(), Thresholds()))


class ClusterBreaker(NamedTuple):
    """What the leading domain remembers of the cluster's breaker."""

    memory: BreakerMemory
    tick: int
    """Tick of the last event."""
    reason: str
    fallback: FallbackMemory = _NO_FALLBACK


@dataclass
class ClusterWatch:
    """Reference data about the whole cluster, and the rules on it.

    `reach` is the last tick to believe. It may be ahead of the frame of a domain that catches up
    after an outage, because the other domains went on.
    """

    cluster: Cluster
    limits: ClusterThresholds
    recovery: Thresholds

    def __post_init__(self) -> None:
        self.breakers = Newest[BreakerChanged](lambda one: one.tick, _rank_of, AHEAD_TICKS)
        self._budgets = Newest[BudgetGranted](
            lambda one: one.tick, lambda one: (one.tick, one.epoch), AHEAD_TICKS
        )
        self._pools = Newest[PoolObserved](lambda one: one.tick, lambda one: one.tick, AHEAD_TICKS)
        self._table = cluster_table(self.limits, self.recovery)
        self._fallback = cluster_fallback_table(self.limits, self.recovery)
        prices: F64 = declare_cluster(self.cluster).pool_price.astype(np.float64)
        self._prices = dict(zip(self.cluster.pool_names, prices.tolist(), strict=True))
        self._critical = [d.name for d in self.cluster.domains if d.priority == PRIORITIES[0]]

    def learn(self, event: Event) -> None:
        """Take in an event of a breaker, domain or pool that the cluster file has.

        Any other one would count for ever, because no real event replaces it.
        """
        domains = self.cluster.domain_names
        match event:
            case BreakerChanged() if event.scope in (CLUSTER, *domains):
                self.breakers.learn(event.scope, event)
            case BudgetGranted() if event.domain in domains:
                self._budgets.learn(event.domain, event)
            case PoolObserved() if event.pool in self.cluster.pool_names:
                self._pools.learn(event.pool, event)

    def forget(self, kind: type[Event], key: str) -> None:
        """Remove what a tombstone names."""
        if kind is BreakerChanged:
            self.breakers.forget(key)
        elif kind is BudgetGranted:
            self._budgets.forget(key)
        elif kind is PoolObserved:
            self._pools.forget(key)

    def fits(self, saved: ClusterBreaker) -> bool:
        """Whether a saved breaker has the conditions of this release."""
        pairs = ((saved.memory, self._table), (saved.fallback, self._fallback))
        return all(memory.held.shape == (1, *table.threshold.shape) for memory, table in pairs)

    def leads(self, domain: str, tick: int, reach: int) -> bool:
        """Whether this domain publishes the cluster's breaker in this tick."""
        newest = self.breakers.upto(CLUSTER, reach)
        # While this domain was late, another one led. Readers that go by the newest record must
        # not get an older tick.
        if newest is not None and tick <= newest.tick:
            return False
        for name in self.cluster.domain_names:
            if name == domain:
                return True
            last = self.breakers.upto(name, reach)
            if last is not None and last.tick >= tick - LEAD_TICKS:
                return False
        return False  # not a domain of this cluster

    def judge(
        self,
        frame: DomainObserved,
        own: BreakerMemory,
        before: ClusterBreaker | None,
        reach: int,
        command: Callable[[int], BreakerCommand | None],
    ) -> tuple[ClusterBreaker, BreakerChanged]:
        """The cluster's breaker after a frame of the leading domain.

        `command` says what an operator orders a breaker whose phase began at a tick.
        """
        (memory, _, reason, fallback), first = self._resume(frame.tick, before, reach)
        readings, wrong = self._readings(frame, own, reach)
        after = advance_cluster(np.array([frame.tick], np.int32), readings, memory, self._table)
        fallen = advance_levels(readings.budgets[:, None, None], fallback, self._fallback)
        changed = bool(after.phase[0, 0] != memory.phase[0, 0])
        named = named_readings([float(one[0]) for one in readings], self._table)
        if changed and not (memory.phase[0, 0] == Phase.OPEN and after.phase[0, 0] != Phase.CLOSED):
            reason = reason_of(after, named)
            if after.cause[0, 0] == Cause.BUDGETS and after.phase[0, 0] != Phase.CLOSED:
                reason = f"budgets: {wrong}"
        changed |= bool(fallen.level[0, 0] != fallback.level[0, 0])
        reset = ""
        ordered = command(int(after.since[0, 0]))
        is_calm = after.phase[0, 0] == Phase.CLOSED and level_of(fallen) == Level.POLICY
        # An ordered opening opens the breaker of each domain; that is enough to stop everything.
        if ordered is not None and ordered.action == "reset" and not is_calm:
            after, fallen = closed(frame.tick, after), start_fallback(1, self._fallback)
            changed, reason, reset = True, "", reset_reason(ordered.order)
        event = changed_event(
            CLUSTER, after, fallen, tick=frame.tick, time=frame.time,
            reason=reset or reason, heartbeat=not (first or changed), readings=named,
            trace_id=frame.trace_id,
        )  # fmt: skip
        return ClusterBreaker(after, frame.tick, reason, fallen), event

    def _resume(
        self, tick: int, before: ClusterBreaker | None, reach: int
    ) -> tuple[ClusterBreaker, bool]:
        """What is remembered; after a change of the leader, what its last event says."""
        last = self.breakers.upto(CLUSTER, reach)
        if before is not None:
            own = _rank(before.tick, state_of(before.memory, before.fallback))
            # Two domains may lead in the tick in which one takes over from the other.
            if last is None or _rank_of(last) <= own:
                return before, False
        fresh = start(tick, 1, self._table, 0)
        if last is None:
            return ClusterBreaker(fresh, tick, ""), True
        # An unknown cause is one of a newer release: what it opened stays open until it is calm.
        cause = CAUSES.get(last.cause, Cause.DOMAINS)
        taken_over = fresh._replace(
            phase=np.full((1, 1), PHASES[last.state], np.int8),
            cause=np.full((1, 1), Cause.NONE if last.state == "closed" else cause, np.int8),
            since=np.full((1, 1), last.since_tick, np.int32),
        )
        reason = "" if last.state == "closed" else last.reason
        return ClusterBreaker(taken_over, tick, reason, self._fallback_of(last)), False

    def _fallback_of(self, last: BreakerChanged) -> FallbackMemory:
        fallback = start_fallback(1, self._fallback, LEVELS[last.level])
        cause = Cause.NONE if last.level == "policy" else Cause.BUDGETS
        return fallback._replace(cause=np.full_like(fallback.cause, cause))

    def _readings(
        self, frame: DomainObserved, own: BreakerMemory, reach: int
    ) -> tuple[ClusterReadings, str]:
        names = self.cluster.domain_names
        tripped = sum(
            _is_tripped(self.breakers.upto(name, reach)) for name in names if name != frame.domain
        )
        phase, cause = Phase(own.phase[0, 0]), Cause(own.cause[0, 0])
        tripped += phase != Phase.CLOSED and not cause.own_outage
        budgets = dict(self._budgets.all_upto(reach))
        grants = {
            name: Grant(one.epoch, one.share, one.reserve_share, one.cores)
            for name, one in budgets.items()
        }
        wrong = implausible(grants, self._critical)
        # Ticks since the newest budget; 0 before the first.
        newest = max((one.tick for one in budgets.values()), default=frame.tick)
        silence = float(max(0, frame.tick - newest))
        values = (tripped / len(names), self._cost(reach), silence, float(wrong != ""))
        return ClusterReadings(*(np.array([value]) for value in values)), wrong

    def _cost(self, reach: int) -> float:
        """Price of all nodes per hour over the spend cap; 0 before a pool was observed."""
        price = 0.0
        for name, pool in self._pools.all_upto(reach):
            each = pool.price_per_hour or self._prices[name]
            price += each * (pool.ready + pool.booting + pool.requested)
        return price / self.cluster.spend_cap_per_hour


def _rank(tick: int, state: State) -> tuple[int, int]:
    """Which of two events of a scope counts: the newer one, of one tick the stricter one."""
    return tick, STATES_BY_RESTRICTION.index(state)


def _rank_of(event: BreakerChanged) -> tuple[int, int]:
    return _rank(event.tick, event.state)


def _is_tripped(event: BreakerChanged | None) -> bool:
    """Whether a domain's breaker is not closed, for another reason than an outage of ours."""
    if event is None or event.state == "closed":
        return False
    return not CAUSES.get(event.cause, Cause.NONE).own_outage
