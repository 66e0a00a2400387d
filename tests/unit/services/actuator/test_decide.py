"""Each change is made once and answered once."""

import asyncio

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from models.control.tuned import tuned_parameters
from schemas.domain_observed import DomainObserved
from schemas.scale_applied import ScaleApplied
from schemas.scale_planned import ScalePlanned
from services._kit.handler import Service
from services._kit.memory import Killed, MemoryBus
from services.actuator.decide import ActuatorHandler
from services.actuator.settings import Modes
from services.actuator.simulated import SimulatedTarget
from services.actuator.target import Change, Numbers, Write, Written
from services.aggregator.decide import AggregatorHandler
from tests.service_helpers import (
    APPS,
    CLUSTER,
    DOMAIN,
    declared,
    granted,
    heartbeat,
    inventory,
    pools,
    sampled,
    time_of,
)
from tests.unit.services.actuator.actuator_helpers import GRACE_S, HOT, STALE_S, Alone, System


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


def test_an_app_without_an_answer_of_the_target_counts_as_unchanged() -> None:
    system = System()
    system.target.answers_apps = False
    done = system.apply()
    assert set(done.outcomes) == {"held"}
    assert set(done.reasons) == {"target-silent"}
    assert done.replicas == done.replicas_before


def test_the_reason_of_a_rejecting_target_is_published() -> None:
    async def refuse(request: web.Request) -> web.Response:
        if request.method == "GET":
            return web.json_response({"closed_tick": -1, "apps": {}})
        return web.Response(status=422, text="tick 9 has not come yet")

    async def write() -> Written:
        server = web.Application()
        server.router.add_route("*", "/{path:.*}", refuse)
        async with TestServer(server) as running:
            target = SimulatedTarget(str(running.make_url("")), 1.0, 1.0)
            written = await target.carry_out(Write(domain=DOMAIN, tick=9, changes=[change]))
            await target.close()
            assert target._session is not None
            assert target._session.closed
            assert isinstance(written, Written)
            return written

    change = Change(
        app=APPS[0],
        replicas=3,
        cpu_request=0,
        memory_request=0,
        before=Numbers(10, 1000, 2048),
        decision_id="d",
    )
    written = asyncio.run(write())
    assert written.answers == {APPS[0]: "refused"}
    assert "tick 9 has not come yet" in written.detail


def test_apps_with_unknown_pods_are_held() -> None:
    alone = Alone()
    pods = alone.frames[1].pods
    unknown = msgspec.structs.replace(pods, cpu_request=[0, 1000, 1000], replicas=[10, 0, 10])
    frame = msgspec.structs.replace(alone.frames[1], pods=unknown)
    alone.take(granted(0), frame)
    done = alone.decide(alone.plans[1])
    assert done.outcomes == ["held", "held", "applied"]
    assert done.reasons[:2] == ["pods-unknown"] * 2


def test_an_outcome_names_the_budget_that_the_actuator_used() -> None:
    alone = Alone()
    alone.take(granted(0), alone.frames[2])
    stale = msgspec.structs.replace(alone.plans[2], epoch=-1)
    assert alone.decide(stale).epoch == 0


def test_changed_bounds_apply_at_once() -> None:
    system = System()
    system.bus.run()
    system.bus.publish(*(declared(app, max_replicas=10) for app in APPS))
    done = system.apply()
    assert "applied" not in done.outcomes


def test_increases_beyond_the_budget_are_cut_whichever_policy_planned_them() -> None:
    system = System()
    system.apply()
    plan = system.bus.events(ScalePlanned)[-1]
    greedy = ScalePlanned(
        tick=2,
        time=plan.time,
        domain=DOMAIN,
        decision_id=f"{DOMAIN}/2/greedy",
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
    bus.add(lambda: Service(AggregatorHandler(CLUSTER, tuned_parameters(), GRACE_S)))
    bus.add(lambda: Service(ActuatorHandler(CLUSTER, Modes(), GRACE_S, STALE_S), system.target))
    bus.publish(*inventory(), *pools(0), heartbeat(0), granted(0, cores=36.0), sampled(2, use=HOT))
    bus.publish(greedy)
    bus.run()
    done = bus.events(ScaleApplied)[-1]
    assert sum(done.replicas) <= 36


def test_a_plan_with_the_id_of_an_earlier_decision_is_refused_and_audited_nowhere() -> None:
    system = System()
    system.apply()
    plan = system.bus.events(ScalePlanned)[-1]
    done = len(system.bus.events(ScaleApplied))
    # The target would answer that it has carried this out already.
    repeated = msgspec.structs.replace(plan, tick=plan.tick + 1, time=time_of(plan.tick + 1))
    system.bus.publish(repeated)
    system.bus.run()
    assert [letter.error for letter in system.bus.dead_letters] == ["wrong-decision"]
    assert len(system.bus.events(ScaleApplied)) == done


def test_frames_of_domains_that_the_cluster_file_lacks_leave_no_state() -> None:
    system = System()
    system.apply()
    frame = system.bus.events(DomainObserved)[-1]
    system.bus.publish(msgspec.structs.replace(frame, domain="forged", tick=0))
    system.bus.run()
    assert {letter.error for letter in system.bus.dead_letters} == {"unknown-domain"}
    for service in ("actuator", "soldier"):
        engine = system.bus._processes[service].engine
        assert engine is not None
        assert "forged" not in engine._store
        assert "forged" not in engine._locks
