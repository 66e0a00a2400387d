"""An actuator with the services around it, and one without a bus."""

from collections.abc import Callable
from typing import Any

import msgspec

from models.control.tuned import tuned_parameters
from schemas.domain_observed import DomainObserved
from schemas.fields import Event
from schemas.scale_applied import ScaleApplied
from schemas.scale_planned import ScalePlanned
from services._kit.clock import ManualClock
from services._kit.handler import Service, Step
from services._kit.memory import Killed, MemoryBus
from services.actuator.decide import ActuatorHandler
from services.actuator.settings import Modes
from services.actuator.state import ActuatorState
from services.actuator.target import (
    Numbers,
    Present,
    Read,
    Reading,
    StepLimits,
    TargetRequest,
    Withdrawal,
    Write,
    Written,
    withdrawn,
)
from services.aggregator.decide import AggregatorHandler
from services.soldier.decide import SoldierHandler
from tests.service_helpers import (
    APPS,
    CLUSTER,
    DOMAIN,
    REPLICAS,
    granted,
    heartbeat,
    inventory,
    pools,
    sampled,
)

GRACE_S, STALE_S, HOT = 2.0, 60.0, 0.79


def present(**changes: int) -> Present:
    """What each app has, as `sampled` reports it."""
    each = {"replicas": REPLICAS, "cpu_request": 1000, "memory_request": 2048, "ready": REPLICAS}
    return msgspec.convert({**each, "starting": 0, "pending": 0, **changes}, Present)


class Target:
    """Journals each decision once; can be unreachable, or leave apps out of its answer.

    As in the samples of these tests, writes change nothing of what the apps have.
    """

    def __init__(self) -> None:
        self.journal: list[tuple[str, str, int]] = []
        self.writes: list[Write] = []
        self.reads = 0
        self.apps = {app: present() for app in APPS}
        self.reachable = self.readable = self.answers_apps = True
        self.silent = 0
        """Writes that are made and not answered."""
        self.dies = False
        """Whether the actuator's process ends before a write is made."""
        self.withdrawals: list[Withdrawal] = []
        self.trials: dict[str, str] = {}
        """What it says of each trial."""
        self.on_read: Callable[[], None] | None = None
        """Called after each read: what happens between a read and its write."""

    async def carry_out(self, request: TargetRequest) -> Reading | Written:
        if isinstance(request, Withdrawal):
            self.withdrawals.append(request)
            return withdrawn(request, {app: decision for app, decision, _ in self.journal})
        return self._read(request) if isinstance(request, Read) else self._write(request)

    def _read(self, read: Read) -> Reading:
        self.reads += 1
        found = dict(self.apps) if self.readable else None
        if self.on_read is not None:
            self.on_read()
        return Reading(domain=read.domain, tick=read.tick, apps=found)

    def _write(self, write: Write) -> Written:
        if self.dies:
            raise Killed("before the write")
        self.writes.append(write)
        answers: dict[str, Any] = {}
        for change in write.changes:
            entry, now = (change.app, change.decision_id, change.replicas), self.apps[change.app]
            if not self.reachable:
                answers[change.app] = "refused"
            elif entry in self.journal:
                answers[change.app] = "repeat"
            elif change.before != Numbers(now.replicas, now.cpu_request, now.memory_request):
                answers[change.app] = "conflict"
            else:
                answers[change.app] = "applied"
                self.journal.append(entry)
        if self.silent:
            self.silent -= 1
            return Written(domain=write.domain, tick=write.tick, answers={}, answered=False)
        sent = answers if self.answers_apps else {}
        tried = {c.app: self.trials[c.app] for c in write.trials if c.app in self.trials}
        return Written(domain=write.domain, tick=write.tick, answers=sent, trials=tried)


class System:
    def __init__(
        self,
        modes: Modes | None = None,
        use: float = HOT,
        stale_s: float | None = STALE_S,
        limits: StepLimits | None = None,
    ) -> None:
        self.clock, self.target = ManualClock(1000.0), Target()
        self.bus = MemoryBus(self.clock)
        self.bus.add(lambda: Service(AggregatorHandler(CLUSTER, tuned_parameters(), GRACE_S)))
        self.bus.add(lambda: Service(SoldierHandler(CLUSTER, tuned_parameters(), GRACE_S)))
        self.bus.add(
            lambda: Service(
                ActuatorHandler(CLUSTER, modes or Modes(), GRACE_S, stale_s, limits=limits),
                self.target,
            )
        )
        self.bus.publish(*inventory(), *pools(0), heartbeat(0), sampled(0, use=use))
        self.bus.run()
        self.bus.publish(granted(0))

    def apply(self, tick: int = 1, use: float = HOT) -> ScaleApplied:
        self.bus.publish(sampled(tick, use=use))
        self.bus.run()
        return self.bus.events(ScaleApplied)[-1]


class Alone:
    """An actuator without a bus, with the frames and plans of a few ticks."""

    def __init__(self, grace_s: float | None = None) -> None:
        others = System()
        for tick in (1, 2, 3):
            others.apply(tick)
        self.frames = {frame.tick: frame for frame in others.bus.events(DomainObserved)}
        self.plans = {plan.tick: plan for plan in others.bus.events(ScalePlanned)}
        self.clock = ManualClock(1000.0)
        self.handler = ActuatorHandler(CLUSTER, Modes(), grace_s, None)
        for event in (*inventory(), heartbeat(0)):
            self.handler.learn_recorded(event, self.clock.date(), self.clock)
        self.state = self.handler.start(DOMAIN)

    def take(self, *events: Event) -> list[Write]:
        """Writes that the events lead to; the target accepts them all."""
        return [write for e in events for write in self._carry(self._handle(e))]

    def decide(self, plan: ScalePlanned) -> ScaleApplied:
        """What becomes of a plan before its write is answered."""
        step = self._handle(plan)
        step = self.handler.written(self.read(step.read), step.state, self.clock)
        assert step.state.pending is not None
        return step.state.pending.applied

    def restart(self) -> None:
        self.state = self.handler.load(DOMAIN, self.handler.save(self.state))

    def wake(self) -> list[Write]:
        return self._carry(self.handler.wake(self.state, self.clock))

    def _handle(self, event: Event) -> Step[ActuatorState]:
        return self.handler.handle(event, self.state, self.clock)

    def _carry(self, step: Step[ActuatorState]) -> list[Write]:
        if step.read is not None:
            found = self.read(step.read)
            return self._carry(self.handler.written(found, step.state, self.clock))
        self.state, writes = step.state, []
        for write in step.writes:
            writes.append(write)
            result = Written(domain=DOMAIN, tick=write.tick, answers={})
            writes += self._carry(self.handler.written(result, self.state, self.clock))
        return writes

    def read(self, request: Read) -> Reading:
        """What the target has, which is what the samples say."""
        apps = {app: present() for app in APPS}
        return Reading(domain=request.domain, tick=request.tick, apps=apps)
