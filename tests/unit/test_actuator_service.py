from typing import Any

import pytest

from schemas.override_issued import OverrideIssued
from schemas.scale_applied import ScaleApplied
from schemas.scale_planned import ScalePlanned
from services._kit.clock import ManualClock
from services._kit.cluster_file import parameters_of
from services._kit.handler import Service
from services._kit.memory import MemoryBus
from services.actuator.decide import ActuatorHandler
from services.actuator.permission import Modes
from services.actuator.target import Write, Written
from services.aggregator.decide import AggregatorHandler
from services.soldier.decide import SoldierHandler
from tests.services_data import (
    APPS,
    CLUSTER,
    DOMAIN,
    declared,
    granted,
    heartbeat,
    inventory,
    pools,
    sampled,
)

GRACE_S, STALE_S, HOT = 2.0, 60.0, 0.79


class Target:
    """Keeps a journal, and knows each decision once."""

    def __init__(self) -> None:
        self.journal: list[tuple[str, str, int]] = []
        self.writes: list[Write] = []
        self.reachable = True

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
        return Written(domain=write.domain, tick=write.tick, answers=answers)


class System:
    def __init__(self, modes: Modes | None = None, use: float = HOT) -> None:
        self.clock, self.target = ManualClock(1000.0), Target()
        self.bus = MemoryBus(self.clock)
        self.bus.add(lambda: Service(AggregatorHandler(CLUSTER, parameters_of(), GRACE_S)))
        self.bus.add(lambda: Service(SoldierHandler(CLUSTER, parameters_of(), GRACE_S)))
        self.bus.add(
            lambda: Service(
                ActuatorHandler(CLUSTER, modes or Modes(), self.clock, GRACE_S, STALE_S),
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


def test_changes_are_applied_and_the_tick_is_closed() -> None:
    system = System()
    done = system.apply()
    assert done.apps == list(APPS)
    assert set(done.outcomes) == {"applied"}
    assert [entry[0] for entry in system.target.journal] == list(APPS)
    assert [write.tick for write in system.target.writes] == [0, 1]


def test_a_tick_without_changes_is_written_too() -> None:
    system = System(use=0.4)
    done = system.apply(use=0.4)
    assert done.apps == []
    assert system.target.writes[-1].changes == []


def test_preview_holds_everything_and_writes_nothing() -> None:
    system = System(Modes("preview"))
    done = system.apply()
    assert set(done.outcomes) == {"held"}
    assert set(done.reasons) == {"preview"}
    assert system.target.journal == []


def test_a_canary_changes_its_share_and_holds_the_rest() -> None:
    system = System(Modes("canary", canary_share=0.5))
    done = system.apply()
    assert set(done.reasons) <= {"not-in-canary", "scale-out"}
    applied = [app for app, out in zip(done.apps, done.outcomes, strict=True) if out == "applied"]
    assert [entry[0] for entry in system.target.journal] == applied


def test_an_app_can_be_in_preview_by_itself() -> None:
    system = System()
    system.bus.publish(declared(APPS[1], mode="preview"))
    done = system.apply()
    held = dict(zip(done.apps, done.reasons, strict=True))
    assert held[APPS[1]] == "preview"
    assert APPS[1] not in {entry[0] for entry in system.target.journal}


@pytest.mark.parametrize("state", ["open", "half-open"])
def test_an_open_breaker_holds_and_a_half_open_one_lets_increases_pass(state: str) -> None:
    system = System()
    system.bus.publish(heartbeat(0, state))
    done = system.apply()
    outcome = "held" if state == "open" else "applied"
    assert set(done.outcomes) == {outcome}
    assert done.breaker == state


def test_a_breaker_that_fell_silent_is_as_good_as_open() -> None:
    system = System()
    system.bus.run()
    system.clock.advance(STALE_S + 1)
    done = system.apply()
    assert set(done.reasons) == {"breaker-stale"}


def test_without_a_breaker_ever_heard_nothing_is_changed() -> None:
    system = System()
    system.bus = MemoryBus(system.clock)
    clock, target = system.clock, system.target
    for build in (
        lambda: Service(AggregatorHandler(CLUSTER, parameters_of(), GRACE_S)),
        lambda: Service(SoldierHandler(CLUSTER, parameters_of(), GRACE_S)),
        lambda: Service(ActuatorHandler(CLUSTER, Modes(), clock, GRACE_S, STALE_S), target),
    ):
        system.bus.add(build)
    system.bus.publish(*inventory(), sampled(0, use=HOT), granted(0), sampled(1, use=HOT))
    system.bus.advance(3 * GRACE_S)
    reasons = {reason for e in system.bus.events(ScaleApplied) for reason in e.reasons}
    assert reasons <= {"breaker-stale", "newer-plan"}
    assert target.journal == []


def test_an_operators_order_wins_over_the_plan_and_the_breaker() -> None:
    system = System()
    order = OverrideIssued(scope=APPS[0], kind="app", replicas=3, reason="incident")
    system.bus.publish(order, heartbeat(0, "open"))
    done = system.apply()
    found = dict(zip(done.apps, zip(done.outcomes, done.replicas, strict=True), strict=True))
    assert found[APPS[0]] == ("applied", 3)
    assert found[APPS[1]][0] == "held"


def test_a_paused_domain_is_left_alone_until_the_order_is_lifted() -> None:
    system = System()
    order = OverrideIssued(scope=DOMAIN, kind="domain", pause="scale-out")
    system.bus.publish(order)
    assert set(system.apply().reasons) == {"paused"}
    system.bus.publish(OverrideIssued(scope=DOMAIN, kind="domain", lifted=True))
    assert set(system.apply(2).outcomes) == {"applied"}


def test_a_restart_between_write_and_answer_applies_nothing_twice() -> None:
    system = System()
    system.apply()
    before = list(system.target.journal)
    system.bus.kill("actuator", redeliver=3)
    system.bus.start("actuator")
    system.bus.run()
    assert system.target.journal == before
    ids = [done.decision_id for done in system.bus.events(ScaleApplied) if done.apps]
    assert set(ids) == {
        plan.decision_id for plan in system.bus.events(ScalePlanned) if plan.changes
    }


def test_a_target_that_cannot_be_reached_holds_the_changes() -> None:
    system = System()
    system.target.reachable = False
    done = system.apply()
    assert set(done.outcomes) == {"held"}
    assert set(done.reasons) == {"target-refused"}


def test_a_plan_that_waits_is_superseded_by_the_next() -> None:
    handler = ActuatorHandler(CLUSTER, Modes(), ManualClock(), None, None)
    for event in inventory():
        handler.learn(event)
    system = System()
    system.apply()
    first, second = system.bus.events(ScalePlanned)
    step = handler.handle(first, handler.start(DOMAIN), ManualClock())
    assert step.events == ()
    step = handler.handle(second, step.state, ManualClock())
    (gone,) = step.events
    assert isinstance(gone, ScaleApplied)
    assert gone.decision_id == first.decision_id
    assert set(gone.outcomes) <= {"superseded"}


def test_increases_beyond_the_budget_are_cut_whoever_planned_them() -> None:
    system = System()
    system.apply()
    plan = system.bus.events(ScalePlanned)[-1]
    greedy = ScalePlanned(
        tick=2,
        time=plan.time,
        domain=DOMAIN,
        decision_id="greedy",
        epoch=0,
        policy="greedy/1",
        apps=plan.apps,
        replicas=[50, 50, 50],
        cpu_request=plan.cpu_request,
        memory_request=plan.memory_request,
        reasons=["scale-out"] * 3,
        replicas_before=plan.replicas_before,
        cpu_request_before=plan.cpu_request_before,
        memory_request_before=plan.memory_request_before,
    )
    bus = MemoryBus(system.clock)
    bus.add(lambda: Service(AggregatorHandler(CLUSTER, parameters_of(), GRACE_S)))
    bus.add(
        lambda: Service(
            ActuatorHandler(CLUSTER, Modes(), system.clock, GRACE_S, STALE_S), system.target
        )
    )
    bus.publish(*inventory(), *pools(0), heartbeat(0), granted(0, cores=36.0), sampled(2, use=HOT))
    bus.publish(greedy)
    bus.run()
    done = bus.events(ScaleApplied)[-1]
    assert sum(done.replicas) <= 36
