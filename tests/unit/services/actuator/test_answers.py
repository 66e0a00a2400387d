"""A write is requested until it is answered, and objections have the last word on it until then."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from models.cluster.description import load_cluster
from schemas.fields import Event
from schemas.override_issued import OverrideIssued
from schemas.scale_applied import ScaleApplied
from services._kit.memory import Killed
from services.actuator.decide import ActuatorHandler
from services.actuator.settings import STALE_TICKS, Modes
from services.actuator.target import Withdrawal, Write, Written
from tests.service_helpers import APPS, DOMAIN, declared, granted, heartbeat, sampled
from tests.unit.services.actuator.actuator_helpers import HOT, Alone, System


def order(**changes: Any) -> OverrideIssued:
    plain = OverrideIssued(scope=DOMAIN, kind="domain", order="mode", mode="off")
    return msgspec.structs.replace(plain, **changes)


OBJECTIONS: dict[str, Sequence[Event]] = {
    "breaker-open": [heartbeat(1, "open")],
    # By the time of the restart, the write is more than a minute old.
    "breaker-stale": [heartbeat(tick) for tick in range(1, 3 + STALE_TICKS)],
    "off": [order()],
    "preview": [order(mode="preview")],
    "paused": [order(order="pause", mode=None, pause="all")],
    "not-declared": [declared(APPS[1], removed=True)],
    "no-bounds": [declared(APPS[2], max_replicas=None)],
}


def interrupted(*, made: bool) -> System:
    """An actuator that died after its write was saved, before or after it was made."""
    system = System()
    system.bus.run()
    if made:
        system.bus.fail_next("actuator", "publish")
    else:
        system.target.dies = True
    system.bus.publish(sampled(1, use=HOT))
    with pytest.raises(Killed):
        system.bus.run()
    system.target.dies = False
    assert bool(system.target.journal) == made
    return system


def restarted(system: System, *events: Event) -> ScaleApplied:
    """The outcomes of tick 1."""
    system.bus.publish(*events)
    system.bus.start("actuator")
    system.bus.run()
    (found,) = (done for done in system.bus.events(ScaleApplied) if done.tick == 1)
    return found


def test_outcomes_wait_until_the_target_has_answered() -> None:
    system = System()
    system.bus.run()
    system.target.silent = 3
    done = system.apply()
    assert [write.tick for write in system.target.writes] == [0, 1, 1, 1, 1]
    assert len(system.target.journal) == len(APPS)
    assert (done.tick, set(done.outcomes)) == (1, {"applied"})
    assert [event.tick for event in system.bus.events(ScaleApplied)] == [0, 1]


def test_a_write_that_changes_nothing_needs_no_answer_unless_the_cluster_waits_for_it() -> None:
    for grace_s, is_pending in ((2.0, False), (None, True)):
        alone = Alone(grace_s)
        frame, plan = alone.frames[1], alone.plans[1]
        same = msgspec.structs.replace(plan, replicas=frame.pods.replicas, epoch=-1)
        alone.take(frame)
        step = alone._handle(same)
        step = alone.handler.written(alone.read(step.read), step.state, alone.clock)
        (write,) = step.writes
        assert isinstance(write, Write)
        assert write.changes == []
        silence = Written(domain=DOMAIN, tick=1, answers={}, answered=False)
        step = alone.handler.written(silence, step.state, alone.clock)
        assert (step.state.pending is not None) == is_pending


@pytest.mark.parametrize("reason", OBJECTIONS)
def test_a_restart_does_not_write_what_is_objected_to_by_now(reason: str) -> None:
    system = interrupted(made=False)
    done = restarted(system, *OBJECTIONS[reason])
    assert system.target.journal == []
    assert set(done.outcomes) == {"held"}
    assert set(done.reasons) == {reason}
    assert done.replicas == done.replicas_before


@pytest.mark.parametrize("reason", OBJECTIONS)
def test_what_was_made_before_the_restart_counts_as_applied_whatever_objects_now(
    reason: str,
) -> None:
    system = interrupted(made=True)
    before = list(system.target.journal)
    done = restarted(system, *OBJECTIONS[reason])
    assert system.target.journal == before
    assert set(done.outcomes) == {"applied"}


def test_a_restart_writes_what_nothing_objects_to() -> None:
    system = interrupted(made=False)
    done = restarted(system, heartbeat(1))
    assert len(system.target.journal) == len(APPS)
    assert system.target.withdrawals == []
    assert set(done.outcomes) == {"applied"}


def test_a_write_is_withdrawn_as_a_whole() -> None:
    # The target takes all changes of one decision for one write: a late one would pass beside it.
    system = interrupted(made=False)
    restarted(system, declared(APPS[0], pause="all"))
    (withdrawal,) = system.target.withdrawals
    assert [change.app for change in withdrawal.write.changes] == list(APPS)


def test_the_write_of_a_domain_that_was_renamed_is_withdrawn() -> None:
    system = interrupted(made=False)
    whole = load_cluster()
    first, *others = whole.domains
    assert first.name == DOMAIN
    domains = (msgspec.structs.replace(first, name="renamed"), *others)
    renamed = msgspec.structs.replace(whole, domains=domains, calls=())
    handler = ActuatorHandler(renamed, Modes(), 2.0, 60.0)
    data = system.bus.state("actuator", DOMAIN)
    assert data is not None
    step = handler.wake(handler.load(DOMAIN, data), system.clock)
    assert isinstance(step.writes[0], Withdrawal)


def test_a_tick_that_is_closed_by_a_saved_frame_lets_the_next_plan_follow() -> None:
    alone = Alone(None)
    alone.take(granted(0), alone.frames[1])
    step = alone._handle(alone.plans[1])
    alone.state = alone.handler.written(alone.read(step.read), step.state, alone.clock).state
    assert alone.take(alone.plans[2], alone.frames[2]) == []
    alone.restart()
    answer = Written(domain=DOMAIN, tick=1, answers=dict.fromkeys(APPS, "applied"))
    (write,) = alone._carry(alone.handler.written(answer, alone.state, alone.clock))
    assert write.tick == 2
    assert alone._handle(alone.plans[3]).refused is None
