import asyncio
from typing import Any

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from schemas.breaker_changed import BreakerChanged
from schemas.domain_observed import DomainObserved
from schemas.fields import Event
from schemas.override_issued import OverrideIssued
from schemas.scale_applied import ScaleApplied
from schemas.scale_planned import ScalePlanned
from schemas.topics import topic_of
from services._kit.clock import ManualClock
from services._kit.cluster_file import parameters_of
from services._kit.handler import Service, Step
from services._kit.memory import Killed, MemoryBus
from services.actuator.decide import ActuatorHandler, ActuatorState
from services.actuator.permission import Modes, Permissions
from services.actuator.simulated import SimulatedTarget
from services.actuator.target import Change, Write, Written
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
        self.reachable = self.talks = True

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
        said = answers if self.talks else {}
        return Written(domain=write.domain, tick=write.tick, answers=said)


class System:
    def __init__(
        self, modes: Modes | None = None, use: float = HOT, stale_s: float | None = STALE_S
    ) -> None:
        self.clock, self.target = ManualClock(1000.0), Target()
        self.bus = MemoryBus(self.clock)
        self.bus.add(lambda: Service(AggregatorHandler(CLUSTER, parameters_of(), GRACE_S)))
        self.bus.add(lambda: Service(SoldierHandler(CLUSTER, parameters_of(), GRACE_S)))
        self.bus.add(
            lambda: Service(
                ActuatorHandler(CLUSTER, modes or Modes(), self.clock, GRACE_S, stale_s),
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
    """An actuator without a bus, and what the others say of a few ticks."""

    def __init__(self, grace_s: float | None = None) -> None:
        others = System()
        for tick in (1, 2, 3):
            others.apply(tick)
        self.frames = {frame.tick: frame for frame in others.bus.events(DomainObserved)}
        self.plans = {plan.tick: plan for plan in others.bus.events(ScalePlanned)}
        self.clock = ManualClock(1000.0)
        self.handler = ActuatorHandler(CLUSTER, Modes(), self.clock, grace_s, None)
        for event in (*inventory(), heartbeat(0)):
            self.handler.learn(event)
        self.state = self.handler.start(DOMAIN)

    def take(self, *events: Event) -> list[Write]:
        """What is asked of the target, which says yes to all of it."""
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
            yes = Written(domain=DOMAIN, tick=write.tick, answers={})
            self.state = self.handler.written(yes, self.state, self.clock).state
        return list(step.writes)


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
    assert reasons == {"breaker-stale"}
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
    system.bus.run()
    system.bus.publish(sampled(1, use=HOT))
    system.bus.fail_next("actuator", "publish")
    with pytest.raises(Killed):
        system.bus.run()
    before = list(system.target.journal)
    assert [entry[0] for entry in before] == list(APPS)
    assert [done.tick for done in system.bus.events(ScaleApplied)] == [0]
    system.bus.start("actuator")
    system.bus.run()
    assert system.target.journal == before
    assert [write.tick for write in system.target.writes] == [0, 1, 1]
    done = system.bus.events(ScaleApplied)[-1]
    assert (done.tick, set(done.outcomes)) == (1, {"applied"})


def test_a_target_that_cannot_be_reached_holds_the_changes() -> None:
    system = System()
    system.target.reachable = False
    done = system.apply()
    assert set(done.outcomes) == {"held"}
    assert set(done.reasons) == {"target-refused"}


def test_a_target_that_does_not_answer_for_an_app_has_not_changed_it() -> None:
    system = System()
    system.target.talks = False
    done = system.apply()
    assert set(done.outcomes) == {"held"}
    assert set(done.reasons) == {"target-silent"}
    assert done.replicas == done.replicas_before


def test_a_target_that_says_no_is_quoted() -> None:
    async def refuse(_: web.Request) -> web.Response:
        return web.Response(status=422, text="tick 9 has not come yet")

    async def ask() -> Written:
        server = web.Application()
        server.router.add_route("*", "/{path:.*}", refuse)
        async with TestServer(server) as running:
            target = SimulatedTarget(str(running.make_url("")), 1.0, 1.0)
            said = await target.carry_out(Write(domain=DOMAIN, tick=9, changes=[change]))
            assert target._session is not None
            await target._session.close()
            return said

    change = Change(app=APPS[0], replicas=3, cpu_request=0, memory_request=0, decision_id="d")
    said = asyncio.run(ask())
    assert said.answers == {APPS[0]: "refused"}
    assert "tick 9 has not come yet" in said.detail


def test_a_plan_that_waits_is_superseded_by_the_next() -> None:
    alone = Alone()
    first, second = alone.plans[1], alone.plans[2]
    assert first.changes > 0
    assert alone.take(first) == []
    step = alone.handler.handle(second, alone.state, alone.clock)
    (gone,) = step.events
    assert isinstance(gone, ScaleApplied)
    assert gone.decision_id == first.decision_id
    assert gone.apps == list(APPS)
    assert set(gone.outcomes) == {"superseded"}


def test_plans_that_are_a_tick_behind_the_frames_are_applied() -> None:
    alone = Alone()
    alone.take(granted(0), alone.frames[1])
    for tick in (1, 2):
        (write,) = alone.take(alone.frames[tick + 1], alone.plans[tick])
        assert write.tick == tick
        assert [change.app for change in write.changes] == list(APPS)
    assert list(alone.state.frames) == [3]


def test_a_plan_whose_frame_never_comes_is_held_when_the_grace_period_is_over() -> None:
    alone = Alone(GRACE_S)
    assert alone.take(granted(0), alone.frames[2], alone.plans[1]) == []
    alone.clock.advance(GRACE_S)
    (write,) = alone.wake()
    assert (write.tick, write.changes) == (1, [])


def test_a_frame_that_came_while_its_plan_waited_outlives_a_restart() -> None:
    alone = Alone()
    alone.take(alone.plans[1])
    before = alone.state
    alone.take(alone.frames[1])
    assert alone.state is not before
    alone.restart()
    (write,) = alone.take(granted(0))
    assert [change.app for change in write.changes] == list(APPS)


def test_frames_that_are_ahead_outlive_a_restart() -> None:
    alone = Alone()
    alone.take(granted(0), alone.frames[1], alone.frames[2], alone.plans[1])
    alone.restart()
    (write,) = alone.take(alone.plans[2])
    assert [change.app for change in write.changes] == list(APPS)


def test_a_plan_that_waited_before_a_restart_still_waits_for_its_frame() -> None:
    alone = Alone(GRACE_S)
    alone.take(granted(0), alone.plans[1])
    alone.restart()
    assert alone.handler.due(alone.state) == 0.0
    assert alone.wake() == []
    assert alone.handler.due(alone.state) == alone.clock.now() + GRACE_S
    (write,) = alone.take(alone.frames[1])
    assert [change.app for change in write.changes] == list(APPS)


def test_frames_without_plans_are_acknowledged_all_the_same() -> None:
    bus, many = MemoryBus(ManualClock(1000.0)), 50
    bus.add(lambda: Service(AggregatorHandler(CLUSTER, parameters_of(), GRACE_S)))
    bus.add(lambda: Service(ActuatorHandler(CLUSTER, Modes(), bus.clock, GRACE_S, STALE_S)))
    bus.publish(*inventory(), *pools(0), heartbeat(0), *(sampled(tick) for tick in range(many)))
    bus.run()
    assert len(bus.events(DomainObserved)) == many
    assert bus._seats["actuator"].committed[topic_of(DomainObserved).name] > many - 8


@pytest.mark.parametrize(("tick", "breaker"), [(6, "closed"), (7, "stale")])
def test_a_dead_breaker_is_stale_by_event_time_after_a_restart(tick: int, breaker: str) -> None:
    system = System(stale_s=None)
    system.bus.run()
    system.bus.kill("actuator")
    system.bus.start("actuator")
    system.bus.publish(granted(tick - 1, epoch=1))
    done = system.apply(tick)
    assert done.breaker == breaker
    assert set(done.outcomes) == {"applied" if breaker == "closed" else "held"}


def test_apps_whose_pods_nobody_told_are_left_alone() -> None:
    alone = Alone()
    pods = alone.frames[1].pods
    unknown = msgspec.structs.replace(pods, cpu_request=[0, 1000, 1000], replicas=[10, 0, 10])
    frame = msgspec.structs.replace(alone.frames[1], pods=unknown)
    alone.take(granted(0), frame)
    step = alone.handler.handle(alone.plans[1], alone.state, alone.clock)
    assert step.state.pending is not None
    done = step.state.pending.applied
    assert done.outcomes == ["held", "held", "applied"]
    assert done.reasons[:2] == ["pods-unknown"] * 2


@pytest.mark.parametrize("column", [0, 1, 2])
@pytest.mark.parametrize(
    ("breaker", "pause", "step", "why"),
    [
        ("half-open", "none", -1, "breaker-half-open"),
        ("half-open", "none", 1, ""),
        ("closed", "scale-in", -1, "paused"),
        ("closed", "scale-in", 1, ""),
        ("closed", "scale-out", 1, "paused"),
        ("closed", "scale-out", -1, ""),
    ],
)
def test_smaller_pods_are_a_decrease_as_fewer_are(
    column: int, breaker: str, pause: Any, step: int, why: str
) -> None:
    steps = [0, 0, 0]
    steps[column] = step
    app = declared(pause=pause)
    assert Permissions(Modes(), None).objection(app, steps, [], breaker) == why


def test_an_order_changes_nothing_in_preview() -> None:
    system = System(Modes("preview"))
    system.bus.publish(OverrideIssued(scope=APPS[0], kind="app", replicas=3))
    assert set(system.apply().outcomes) == {"held"}
    assert system.target.journal == []


def test_an_order_stays_within_the_declared_bounds() -> None:
    system = System()
    system.bus.publish(OverrideIssued(scope=APPS[0], kind="app", replicas=5000))
    system.bus.publish(OverrideIssued(scope=APPS[1], kind="app", replicas=0))
    assert system.apply().replicas[:2] == [50, 2]


def test_an_order_to_the_cluster_stops_everybody_whatever_was_ordered_closer_by() -> None:
    system = System()
    system.bus.publish(OverrideIssued(scope=APPS[0], kind="app", mode="auto", replicas=3))
    system.bus.publish(OverrideIssued(scope=DOMAIN, kind="domain", mode="canary"))
    system.bus.publish(OverrideIssued(scope="cluster", kind="cluster", mode="off"))
    done = system.apply()
    assert set(done.reasons) == {"off"}
    assert done.mode == "off"
    assert system.target.journal == []


def test_what_is_removed_from_the_topics_no_longer_counts() -> None:
    system = System()
    system.bus.publish(OverrideIssued(scope=DOMAIN, kind="domain", pause="all"))
    assert set(system.apply(1).reasons) == {"paused"}
    system.bus.put(topic_of(OverrideIssued).name, DOMAIN.encode(), None)
    assert set(system.apply(2).outcomes) == {"applied"}
    system.bus.put(topic_of(BreakerChanged).name, DOMAIN.encode(), None)
    system.bus.publish(sampled(3, use=HOT))
    system.bus.advance(2 * GRACE_S)
    assert set(system.bus.events(ScaleApplied)[-1].reasons) == {"breaker-stale"}


def test_the_answer_names_the_budget_that_the_actuator_went_by() -> None:
    alone = Alone()
    alone.take(granted(0), alone.frames[2])
    stale = msgspec.structs.replace(alone.plans[2], epoch=-1)
    step = alone.handler.handle(stale, alone.state, alone.clock)
    assert step.state.pending is not None
    assert step.state.pending.applied.epoch == 0


def test_bounds_that_are_declared_anew_count_at_once() -> None:
    system = System()
    system.bus.run()
    system.bus.publish(*(declared(app, max_replicas=10) for app in APPS))
    done = system.apply()
    assert "applied" not in done.outcomes


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
