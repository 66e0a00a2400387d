"""The target's own numbers decide what a change is; samples that contradict them hold."""

import msgspec
import pytest

from schemas.metrics_sampled import MetricsSampled
from schemas.override_issued import OverrideIssued
from schemas.scale_applied import ScaleApplied
from services._kit.memory import Killed
from services.actuator.target import Numbers
from tests.service_helpers import APPS, REPLICAS, declared, granted, sampled
from tests.unit.services.actuator.actuator_helpers import HOT, Alone, System, present

LARGE = 40
"""Replicas that the target has while samples claim far fewer."""


def forged(tick: int, **columns: int) -> MetricsSampled:
    """One batch with false pods of the first app."""
    honest = sampled(tick, use=HOT)
    lies = {name: [value, *getattr(honest, name)[1:]] for name, value in columns.items()}
    return msgspec.structs.replace(honest, **lies)


def outcomes(done: ScaleApplied) -> dict[str, tuple[str, str]]:
    found = zip(done.outcomes, done.reasons, strict=True)
    return dict(zip(done.apps, found, strict=True))


def large(system: System) -> None:
    """Let the target have more than the samples of these tests say."""
    system.target.apps[APPS[0]] = present(replicas=LARGE, ready=LARGE)


def test_a_forged_sample_does_not_turn_a_decrease_into_an_increase() -> None:
    system = System()
    large(system)
    # By the sample it has 10 pods and needs a few more; the target has 40. That could be a change
    # of the last seconds, but not any more when the target is read again.
    assert outcomes(system.apply(1))[APPS[0]] == ("held", "target-changed")
    done = system.apply(2)
    assert outcomes(done)[APPS[0]] == ("held", "sample-contradicts-target")
    assert APPS[0] not in {entry[0] for entry in system.target.journal}
    assert outcomes(done)[APPS[1]][0] == "applied"
    assert done.contradictions == 1


@pytest.mark.parametrize("column", ["cpu_request", "memory_request"])
def test_a_forged_size_of_pods_is_held_too(column: str) -> None:
    system = System()
    system.bus.publish(forged(1, **{column: 8000}))
    system.bus.run()
    done = system.bus.events(ScaleApplied)[-1]
    assert done.tick == 1
    assert done.contradictions == 1
    assert APPS[0] not in {entry[0] for entry in system.target.journal}


def test_pods_that_samples_call_pending_do_not_widen_the_blast_radius() -> None:
    system = System(use=0.01)
    for app in APPS:
        system.bus.publish(declared(app, max_replicas=2))
    # Pending pods may leave without counting, so a liar would call all of them pending.
    system.bus.publish(sampled(1, use=0.01, pending=[REPLICAS] * 3, ready=[0] * 3))
    system.bus.run()
    kept = {entry[0]: entry[2] for entry in system.target.journal}
    assert sum(REPLICAS - replicas for replicas in kept.values()) <= 3


def test_a_sample_that_is_older_than_our_last_change_contradicts_nothing() -> None:
    system = System()
    assert set(system.apply(1).outcomes) == {"applied"}
    large(system)
    # The read of tick 1 found what the samples still say.
    done = system.apply(2)
    assert done.contradictions == 0
    assert outcomes(done)[APPS[0]] == ("held", "target-changed")


def test_the_previous_read_survives_a_restart() -> None:
    system = System()
    system.apply(1)
    large(system)
    system.bus.kill("actuator")
    system.bus.start("actuator")
    assert system.apply(2).contradictions == 0


def test_small_churn_is_no_contradiction_and_the_change_starts_from_what_the_target_has() -> None:
    system = System()
    system.target.apps[APPS[0]] = present(replicas=REPLICAS + 2, ready=REPLICAS + 2)
    done = system.apply()
    assert done.contradictions == 0
    assert done.replicas_before[0] == REPLICAS + 2
    assert done.replicas[0] > REPLICAS + 2
    assert outcomes(done)[APPS[0]][0] == "applied"
    (first, *_) = system.target.writes[-1].changes
    assert first.before == Numbers(REPLICAS + 2, 1000, 2048)


def test_a_target_that_changed_since_it_was_read_refuses_the_change() -> None:
    system = System()
    system.target.on_read = lambda: large(system)
    done = system.apply()
    assert outcomes(done)[APPS[0]] == ("held", "target-changed")
    assert done.replicas[0] == done.replicas_before[0] == REPLICAS
    assert outcomes(done)[APPS[1]][0] == "applied"


def test_a_target_that_cannot_be_read_holds_the_tick_and_closes_it() -> None:
    system = System()
    system.target.readable = False
    done = system.apply()
    assert set(done.outcomes) == {"held"}
    assert set(done.reasons) == {"target-unreadable"}
    assert system.target.writes[-1].changes == []
    system.target.readable = True
    assert set(system.apply(2).outcomes) == {"applied"}


def test_an_app_that_the_target_does_not_have_is_held() -> None:
    system = System()
    del system.target.apps[APPS[0]]
    system.bus.publish(OverrideIssued(scope=APPS[0], kind="app", replicas=5))
    done = system.apply()
    assert outcomes(done)[APPS[0]] == ("held", "target-unknown")
    assert outcomes(done)[APPS[1]][0] == "applied"


@pytest.mark.parametrize("moment", ["save", "publish", "acknowledge"])
def test_a_restart_around_the_read_reads_again_and_applies_once(moment: str) -> None:
    system = System()
    system.bus.run()
    system.bus.publish(sampled(1, use=HOT))
    system.bus.fail_next("actuator", moment)  # type: ignore[arg-type]
    with pytest.raises(Killed):
        system.bus.run()
    system.bus.start("actuator")
    system.bus.run()
    done = system.bus.events(ScaleApplied)[-1]
    assert (done.tick, set(done.outcomes)) == (1, {"applied"})
    assert len(system.target.journal) == len(set(system.target.journal)) == len(APPS)


def test_an_override_starts_from_what_the_target_has() -> None:
    system = System()
    large(system)
    system.bus.publish(OverrideIssued(scope=APPS[0], kind="app", replicas=30))
    done = system.apply()
    assert outcomes(done)[APPS[0]] == ("applied", "override")
    assert (done.replicas_before[0], done.replicas[0]) == (LARGE, 30)


def test_a_reason_of_a_newer_release_is_published_as_the_plan_gave_it() -> None:
    alone = Alone()
    alone.take(granted(0), alone.frames[1])
    newer = msgspec.structs.replace(alone.plans[1], reasons=["learned-raise"] * len(APPS))
    done = alone.decide(newer)
    assert set(done.outcomes) == {"applied"}
    assert set(done.reasons) == {"learned-raise"}
