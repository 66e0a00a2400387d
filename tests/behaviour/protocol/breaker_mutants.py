"""Breakers with one mistake each, which the checker has to find."""

from dataclasses import replace
from typing import Any

from models.cluster.description import Cluster
from models.control.breaker.limits import Thresholds
from models.control.breaker.phases import closed
from schemas.breaker_changed import BreakerChanged
from schemas.domain_observed import DomainObserved
from schemas.fields import Event
from services._kit.clock import Clock
from services._kit.handler import CLUSTER, Step
from services.breaker.cluster import ClusterBreaker, ClusterWatch
from services.breaker.decide import BreakerHandler
from services.breaker.state import BreakerState


class StartsClosedWithoutItsState(BreakerHandler):
    def lost(self, key: str) -> BreakerState:
        return self._fresh(key)


class TakesAGoneStateForANewDomain(BreakerHandler):
    def start(self, key: str) -> BreakerState:
        return self._fresh(key)


class ClosesAtItsStart(BreakerHandler):
    """Goes on from a saved state as if nothing had tripped."""

    def accept(self, key: str, state: BreakerState) -> BreakerState:
        memory = closed(state.tick, state.memory)
        return super().accept(key, replace(state, memory=memory, reason=""))


class Impatient(BreakerHandler):
    """Tries again after a shorter quiet period."""

    def __init__(self, cluster: Cluster, limits: Thresholds, *others: Any) -> None:
        super().__init__(cluster, limits._replace(quiet_ticks=1), *others)


class WithoutProbation(BreakerHandler):
    def __init__(self, cluster: Cluster, limits: Thresholds, *others: Any) -> None:
        super().__init__(cluster, limits._replace(probation_ticks=1), *others)


class Tolerant(BreakerHandler):
    """Needs one bad tick more."""

    def __init__(self, cluster: Cluster, limits: Thresholds, *others: Any) -> None:
        super().__init__(cluster, limits._replace(missing_ticks=3), *others)


class SleepsThroughSilence(BreakerHandler):
    def due(self, state: BreakerState) -> float | None:
        del state
        return None


class JudgesOldFrames(BreakerHandler):
    """Judges a frame again that it has judged."""

    def handle(self, event: Event, state: BreakerState, clock: Clock) -> Step[BreakerState]:
        if isinstance(event, DomainObserved):
            state = replace(state, tick=min(state.tick, event.tick - 1))
        return super().handle(event, state, clock)


class _LeadsAnyhow(ClusterWatch):
    def leads(self, domain: str, tick: int, reach: int) -> bool:
        newest = self.breakers.last_received(CLUSTER)
        self.breakers.forget(CLUSTER)
        try:
            return super().leads(domain, tick, reach)
        finally:
            if newest is not None:
                self.breakers.learn(CLUSTER, newest)


class _NeverTakesOver(ClusterWatch):
    def leads(self, domain: str, tick: int, reach: int) -> bool:
        return super().leads(domain, tick, reach) and domain == self.cluster.domain_names[0]


class _ObeysTheLast(ClusterWatch):
    """Goes by the last of two events of a tick, whoever is stricter."""

    def learn(self, event: Event) -> None:
        if isinstance(event, BreakerChanged):
            self.breakers.forget(event.scope)
        super().learn(event)


class _TrustsItself(ClusterWatch):
    """Goes on from its own memory when another domain led in the same tick."""

    def judge(
        self, frame: DomainObserved, own: Any, before: ClusterBreaker | None, *others: Any
    ) -> tuple[ClusterBreaker, BreakerChanged]:
        last = self.breakers.last_received(CLUSTER)
        if before is not None and last is not None and last.tick <= before.tick:
            self.breakers.forget(CLUSTER)
        try:
            return super().judge(frame, own, before, *others)
        finally:
            if last is not None:
                self.breakers.learn(CLUSTER, last)


def _with_watch(kind: type[ClusterWatch]) -> type[BreakerHandler]:
    class Watched(BreakerHandler):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            watch = self._watch
            self._watch = kind(watch.cluster, watch.limits, watch.recovery)

    return Watched


LeadsWhileItIsLate = _with_watch(_LeadsAnyhow)
NeverTakesOver = _with_watch(_NeverTakesOver)
ObeysTheLast = _with_watch(_ObeysTheLast)
TrustsItself = _with_watch(_TrustsItself)
