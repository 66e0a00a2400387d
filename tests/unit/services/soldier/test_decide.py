from dataclasses import replace

import msgspec
import numpy as np
import pytest

from models.control.tuned import tuned_parameters
from schemas.budget_granted import BudgetGranted
from schemas.domain_observed import DomainObserved, Pods
from schemas.scale_planned import ScalePlanned
from schemas.transition_recorded import TransitionRecorded
from services._kit.clock import ManualClock
from services._kit.handler import Service
from services._kit.memory import MemoryBus
from services._kit.state_records import state_records
from services.aggregator.decide import AggregatorHandler
from services.commander.decide import CommanderHandler
from services.soldier.decide import SoldierHandler
from tests.service_helpers import (
    APPS,
    CLUSTER,
    DOMAIN,
    REPLICAS,
    granted,
    heartbeat,
    inventory,
    planned,
    pools,
    sampled,
    time_of,
)

GRACE_S = 2.0
HOT = 0.79
"""Use at which pods with a saturation of 0.8 are full."""


@pytest.fixture
def bus() -> MemoryBus:
    bus = MemoryBus(ManualClock(1000.0))
    bus.add(lambda: Service(AggregatorHandler(CLUSTER, tuned_parameters(), GRACE_S)))
    bus.add(lambda: Service(SoldierHandler(CLUSTER, tuned_parameters(), GRACE_S)))
    bus.publish(*inventory(), *pools(0))
    return bus


def plans(bus: MemoryBus) -> list[ScalePlanned]:
    bus.run()
    return bus.events(ScalePlanned)


def test_every_app_has_a_number_and_a_reason(bus: MemoryBus) -> None:
    bus.publish(sampled(0))
    (plan,) = plans(bus)
    assert plan.apps == list(APPS)
    assert len(plan.replicas) == len(plan.reasons) == len(plan.need) == len(APPS)
    assert plan.sums is not None
    assert plan.sums.held == pytest.approx(len(APPS) * REPLICAS)


def test_without_a_budget_nothing_grows(bus: MemoryBus) -> None:
    bus.publish(sampled(0, use=HOT))
    (plan,) = plans(bus)
    assert plan.epoch == -1
    assert plan.replicas == plan.replicas_before


def test_with_a_budget_full_apps_grow_within_it(bus: MemoryBus) -> None:
    bus.publish(sampled(0, use=HOT), granted(0), sampled(1, use=HOT))
    plan = plans(bus)[-1]
    assert plan.epoch == 0
    assert all(
        now > before for now, before in zip(plan.replicas, plan.replicas_before, strict=True)
    )
    assert set(plan.reasons) == {"scale-out"}
    assert plan.overruns == 0


def test_a_domain_that_fell_back_prepares_for_no_forecast_growth(bus: MemoryBus) -> None:
    events = (sampled(0), granted(0, growth=3.0, headroom=0.1), sampled(1))
    bus.publish(*events)
    trusting = plans(bus)[-1]
    # Between two budgets: the Commander has not answered yet.
    bus.publish(heartbeat(1, level="reactive"), sampled(2))
    reactive = plans(bus)[-1]
    assert sum(trusting.need) > 2 * sum(reactive.need) > 0
    assert all(
        now >= load
        for now, load in zip(reactive.need, bus.events(DomainObserved)[-1].load_pods, strict=True)
    )
    assert reactive.versions == trusting.versions | {"level": "reactive"}


def test_a_small_budget_is_shared_and_never_exceeded(bus: MemoryBus) -> None:
    bus.publish(sampled(0, use=HOT), granted(0, cores=33.0), sampled(1, use=HOT))
    plan = plans(bus)[-1]
    assert 30 < sum(plan.replicas) <= 33


def test_a_budget_binds_from_the_tick_after_the_one_it_was_made_from(bus: MemoryBus) -> None:
    bus.publish(granted(6), sampled(6, use=HOT))
    bus.advance(2 * GRACE_S)
    assert plans(bus)[-1].epoch == -1
    bus.publish(sampled(7, use=HOT))
    assert plans(bus)[-1].epoch == 1


def test_a_frame_waits_for_its_budget_only_for_the_grace_period(bus: MemoryBus) -> None:
    bus.publish(sampled(0), sampled(1))
    assert [plan.tick for plan in plans(bus)] == [0]
    bus.advance(GRACE_S + 0.1)
    assert [plan.tick for plan in plans(bus)] == [0, 1]


def test_a_frame_does_not_wait_for_a_silent_commander(bus: MemoryBus) -> None:
    bus.publish(sampled(12))
    assert [plan.tick for plan in plans(bus)] == [12]
    bus.advance(70.0)
    bus.publish(granted(12), sampled(19))
    assert [plan.tick for plan in plans(bus)] == [12]
    bus.advance(110.0)
    bus.publish(sampled(30))
    assert [plan.tick for plan in plans(bus)] == [12, 19, 30]


def test_commander_and_soldier_do_not_wait_for_each_other_when_the_first_ticks_were_missed() -> (
    None
):
    bus = MemoryBus(ManualClock(1000.0))
    bus.add(
        lambda: Service(
            CommanderHandler(CLUSTER, tuned_parameters(), GRACE_S, await_forecasts=False)
        )
    )
    bus.add(lambda: Service(AggregatorHandler(CLUSTER, tuned_parameters(), GRACE_S)))
    bus.add(lambda: Service(SoldierHandler(CLUSTER, tuned_parameters(), GRACE_S)))
    bus.publish(*inventory())
    others = [domain for domain in CLUSTER.domain_names if domain != DOMAIN]
    for tick in range(3, 20):
        bus.publish(*pools(tick), sampled(tick), *(planned(other, tick) for other in others))
        bus.run()
        bus.advance(GRACE_S)
        bus.advance(10.0 - GRACE_S)
    assert any(budget.domain == DOMAIN for budget in bus.events(BudgetGranted))


def test_the_next_frame_does_not_overtake_one_that_waits(bus: MemoryBus) -> None:
    bus.publish(sampled(0), sampled(1), sampled(2))
    bus.advance(GRACE_S + 0.1)
    assert [plan.tick for plan in plans(bus)] == [0, 1, 2]


def test_an_older_epoch_is_ignored(bus: MemoryBus) -> None:
    bus.publish(granted(6), granted(0, cores=1.0), sampled(7, use=HOT))
    assert plans(bus)[-1].epoch == 1


def test_an_expired_budget_lowers_nothing_and_raises_nothing(bus: MemoryBus) -> None:
    bus.publish(granted(0), sampled(30, use=HOT))
    bus.advance(GRACE_S + 0.1)
    plan = plans(bus)[-1]
    assert plan.replicas == plan.replicas_before


def test_a_tick_decided_again_after_a_restart_has_the_same_id_and_numbers(bus: MemoryBus) -> None:
    bus.publish(sampled(0, use=HOT), granted(0))
    for tick in range(1, 4):
        bus.publish(sampled(tick, use=HOT))
    before = {plan.tick: plan for plan in plans(bus)}
    bus.kill("soldier", redeliver=4)
    bus.start("soldier")
    bus.publish(sampled(4, use=HOT))
    after = plans(bus)
    assert [plan.tick for plan in after].count(4) == 1
    assert all(plan == before[plan.tick] for plan in after if plan.tick in before)


def test_the_first_tick_of_a_minute_ignores_the_budget_made_from_it_in_a_replay(
    bus: MemoryBus,
) -> None:
    bus.publish(sampled(0, use=HOT), granted(0), *(sampled(tick, use=HOT) for tick in range(1, 7)))
    bus.run()
    frames = bus.events(DomainObserved)
    handler, clock = SoldierHandler(CLUSTER, tuned_parameters(), GRACE_S), ManualClock(1000.0)
    for app in inventory():
        handler.learn(app, clock)
    state = handler.start(DOMAIN)
    for event in (frames[0], granted(0), *frames[1:6]):
        state = handler.handle(event, state, clock).state
    saved = handler.save(state)
    (once, *_) = handler.handle(frames[6], state, clock).events
    later = handler.handle(granted(6, cores=1.0), handler.load(DOMAIN, saved), clock).state
    (again, *_) = handler.handle(frames[6], later, clock).events
    assert isinstance(once, ScalePlanned)
    assert once.epoch == 0
    assert again == once


def test_a_frame_that_waited_before_a_restart_still_waits_for_its_budget(bus: MemoryBus) -> None:
    bus.publish(sampled(0), sampled(1, use=HOT))
    bus.run()
    bus.kill("soldier")
    bus.start("soldier")
    assert [plan.tick for plan in plans(bus)] == [0]
    bus.publish(granted(0))
    assert [plan.epoch for plan in plans(bus)] == [-1, 0]


def test_each_minute_records_a_transition(bus: MemoryBus) -> None:
    bus.publish(granted(0), *(sampled(tick) for tick in range(13)))
    bus.advance(3 * GRACE_S)
    steps = bus.events(TransitionRecorded)
    assert [(step.tick, step.next_tick) for step in steps] == [(0, 6), (6, 12)]
    assert steps[0].agent == "soldier/payments"
    assert steps[0].reward < 0
    assert steps[0].next_state == steps[1].state


def test_aggregates_that_no_transition_could_hold_cost_no_state(bus: MemoryBus) -> None:
    bus.publish(granted(0), *(sampled(tick) for tick in range(6)))
    bus.advance(3 * GRACE_S)
    last = bus.events(DomainObserved)[-1]
    invented = {f"{number}{'x' * 200}": 1.0 for number in range(1500)}
    for tick in (6, 12):
        forged = {"tick": tick, "time": time_of(tick), "aggregates": last.aggregates | invented}
        bus.publish(msgspec.structs.replace(last, **forged))
        bus.advance(60.0)
    assert [plan.tick for plan in plans(bus)][-2:] == [6, 12]
    (*_, recorded) = bus.events(TransitionRecorded)
    assert "domain." + min(last.aggregates) in recorded.state
    assert not any("xxx" in name for name in recorded.state)


def test_a_frame_without_a_feature_is_refused_and_the_next_is_planned(bus: MemoryBus) -> None:
    bus.publish(sampled(0))
    plans(bus)
    (frame,) = bus.events(DomainObserved)
    fewer = {name: column for name, column in frame.features.items() if name != "saturation"}
    bus.publish(msgspec.structs.replace(frame, tick=1, features=fewer), sampled(2))
    bus.advance(2 * GRACE_S)
    assert [plan.tick for plan in plans(bus)] == [0, 2]
    (letter,) = bus.dead_letters
    assert (letter.error, "`saturation`" in letter.detail) == ("missing-feature", True)


def test_an_epoch_saved_as_a_validity_by_an_older_release_is_taken_back() -> None:
    handler, clock = SoldierHandler(CLUSTER, tuned_parameters(), GRACE_S), ManualClock(1000.0)
    budgets = (granted(0), granted(6))
    state = replace(handler.start(DOMAIN), closed=7, budgets=budgets)
    state.memory.epoch[0] = 24
    loaded = handler.load(DOMAIN, handler.save(state))
    assert loaded.memory.epoch.tolist() == [1]
    assert handler.handle(granted(12), loaded, clock).state.budgets[-1].epoch == 2


def test_a_frame_of_12_400_apps_waits_for_its_budget_over_a_restart(bus: MemoryBus) -> None:
    bus.publish(sampled(0))
    bus.run()
    frame, count = bus.events(DomainObserved)[0], 12_400
    rng = np.random.default_rng(0)
    bus.publish(
        msgspec.structs.replace(
            frame,
            tick=1,
            time=time_of(1),
            apps=[f"payments-{number:06d}" for number in range(count)],
            pods=Pods(**dict.fromkeys(Pods.__struct_fields__, [0] * count)),
            measured={},
            features={name: rng.random(count).tolist() for name in frame.features},
            load_pods=rng.random(count).tolist(),
            usual_load_pods=rng.random(count).tolist(),
        )
    )
    bus.run()
    saved = bus.state("soldier", DOMAIN)
    assert saved is not None
    assert len(state_records(DOMAIN, saved)) > 1, "too large for one record"
    bus.kill("soldier")
    bus.start("soldier")
    bus.run()
    assert bus.state("soldier", DOMAIN) == saved
    bus.advance(GRACE_S)
    assert bus.state("soldier", DOMAIN) != saved, "the tick is closed"
    assert not bus.dead_letters
