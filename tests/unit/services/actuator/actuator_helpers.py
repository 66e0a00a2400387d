"""An actuator with the services around it, and one without a bus."""

from typing import Any

from models.control.tuned import tuned_parameters
from schemas.domain_observed import DomainObserved
from schemas.fields import Event
from schemas.scale_applied import ScaleApplied
from schemas.scale_planned import ScalePlanned
from services._kit.clock import ManualClock
from services._kit.handler import Service, Step
from services._kit.memory import MemoryBus
from services.actuator.decide import ActuatorHandler, ActuatorState
from services.actuator.settings import Modes
from services.actuator.target import Write, Written
from services.aggregator.decide import AggregatorHandler
from services.soldier.decide import SoldierHandler
from tests.service_helpers import (
    CLUSTER,
    DOMAIN,
    granted,
    heartbeat,
    inventory,
    pools,
    sampled,
)

GRACE_S, STALE_S, HOT = 2.0, 60.0, 0.79


class Target:
    """Journals each decision once; can be unreachable, or leave apps out of its answer."""

    def __init__(self) -> None:
        self.journal: list[tuple[str, str, int]] = []
        self.writes: list[Write] = []
        self.reachable = self.answers_apps = True

    async def carry_out(self, write: Write) -> Written:
        self.writes.append(write)
        answers: dict[str, Any] = {}
        for change in write.changes:
            entry = (change.app, change.decision_id, change.replicas)
            answers[change.app] = "repeat" if entry in self.journal else "applied"
            if not self.reachable:
                answers[change.app] = "refused"
            elif entry not in self.journal:
                self.journal.append(entry)
        sent = answers if self.answers_apps else {}
        return Written(domain=write.domain, tick=write.tick, answers=sent)


class System:
    def __init__(
        self, modes: Modes | None = None, use: float = HOT, stale_s: float | None = STALE_S
    ) -> None:
        self.clock, self.target = ManualClock(1000.0), Target()
        self.bus = MemoryBus(self.clock)
        self.bus.add(lambda: Service(AggregatorHandler(CLUSTER, tuned_parameters(), GRACE_S)))
        self.bus.add(lambda: Service(SoldierHandler(CLUSTER, tuned_parameters(), GRACE_S)))
        self.bus.add(
            lambda: Service(
                ActuatorHandler(CLUSTER, modes or Modes(), GRACE_S, stale_s),
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

    def restart(self) -> None:
        self.state = self.handler.load(DOMAIN, self.handler.save(self.state))

    def wake(self) -> list[Write]:
        return self._carry(self.handler.wake(self.state, self.clock))

    def _handle(self, event: Event) -> Step[ActuatorState]:
        return self.handler.handle(event, self.state, self.clock)

    def _carry(self, step: Step[ActuatorState]) -> list[Write]:
        self.state = step.state
        for write in step.writes:
            accepted = Written(domain=DOMAIN, tick=write.tick, answers={})
            self.state = self.handler.written(accepted, self.state, self.clock).state
        return list(step.writes)
