"""What is off, in preview, paused, outside the canary or under an open breaker is never written."""

from typing import Any

import msgspec
import pytest

from schemas.app_declared import AppDeclared
from schemas.breaker_changed import BreakerChanged
from schemas.fields import Event
from schemas.override_issued import OverrideIssued
from schemas.scale_planned import ScalePlanned
from services.actuator.decide import ActuatorHandler
from services.actuator.settings import Modes
from tests.service_helpers import APPS, DOMAIN, declared, granted, heartbeat
from tests.unit.services.actuator.actuator_helpers import System

LOWERED = 5
"""Below the ten replicas that each app has."""
Stop = tuple[Modes, list[Event], str]
STOPS: dict[str, Stop] = {
    "off": (Modes("off"), [], "off"),
    "preview": (Modes("preview"), [], "preview"),
    "outside the canary": (Modes("canary", canary_share=1e-9), [], "not-in-canary"),
    "paused": (Modes(), [OverrideIssued(scope=DOMAIN, kind="domain", pause="all")], "paused"),
    "open": (Modes(), [heartbeat(0, "open")], "breaker-open"),
    "half-open": (Modes(), [heartbeat(0, "half-open")], "breaker-half-open"),
    "scale-in paused": (
        Modes(),
        [OverrideIssued(scope="cluster", kind="cluster", pause="scale-in")],
        "paused",
    ),
}


def at_tick(tick: int, state: str) -> BreakerChanged:
    """A heartbeat whose tick does not fit its time."""
    return msgspec.structs.replace(heartbeat(0, state), tick=tick)


@pytest.mark.parametrize("stop", STOPS)
def test_a_lowered_maximum_removes_nothing_of_an_app_that_may_not_be_decreased(stop: str) -> None:
    modes, events, reason = STOPS[stop]
    system = System(modes)
    system.bus.publish(*events, *(declared(app, max_replicas=LOWERED) for app in APPS))
    done = system.apply()
    assert set(done.outcomes) == {"held"}
    assert set(done.reasons) == {reason}
    assert system.target.journal == []


@pytest.mark.parametrize("stop", STOPS)
def test_an_exact_number_of_replicas_does_not_pass_what_stops_a_plan(stop: str) -> None:
    modes, events, reason = STOPS[stop]
    system = System(modes)
    order = OverrideIssued(scope=APPS[0], kind="app", replicas=3, reason="incident")
    system.bus.publish(order, *events)
    done = system.apply()
    found = dict(zip(done.apps, zip(done.outcomes, done.reasons, strict=True), strict=True))
    assert found[APPS[0]] == ("held", reason)
    assert APPS[0] not in {entry[0] for entry in system.target.journal}


def test_a_raised_minimum_adds_nothing_to_an_app_whose_increases_are_paused() -> None:
    system = System()
    system.bus.publish(*(declared(app, min_replicas=20, pause="scale-out") for app in APPS))
    assert set(system.apply().reasons) == {"paused"}
    assert system.target.journal == []


def test_an_app_without_a_declared_maximum_is_planned_and_never_changed() -> None:
    system = System()
    bare: dict[str, Any] = {"domain": DOMAIN, "latency_target_s": 0.2, "saturation": 0.8}
    system.bus.publish(*(AppDeclared(app=a, ordinal=i, **bare) for i, a in enumerate(APPS)))
    done = system.apply()
    assert set(done.reasons) == {"no-bounds"}
    assert system.target.journal == []
    order = OverrideIssued(scope=APPS[0], kind="app", replicas=3)
    system.bus.publish(order)
    assert set(system.apply(2).reasons) == {"no-bounds"}
    assert system.target.journal == []


def test_a_maximum_below_the_minimum_is_no_bound() -> None:
    system = System()
    system.bus.publish(*(declared(app, min_replicas=8, max_replicas=3) for app in APPS))
    assert set(system.apply().reasons) <= {"no-bounds"}
    assert system.target.journal == []


@pytest.mark.parametrize("state", ["open", "half-open"])
def test_a_late_heartbeat_does_not_close_a_breaker_that_opened_after_it(state: str) -> None:
    system = System()
    system.bus.publish(heartbeat(2, state), heartbeat(1, "closed"))
    assert system.apply(3).breaker == state


def test_of_two_states_of_one_tick_the_stricter_one_counts() -> None:
    system = System()
    system.bus.publish(heartbeat(2, "open"), heartbeat(2, "closed"))
    assert system.apply(3).breaker == "open"


def test_a_heartbeat_from_the_future_gives_no_permission_and_blocks_no_later_one() -> None:
    system = System()
    system.bus.publish(heartbeat(1, "open"), at_tick(10**9, "closed"))
    assert system.apply(2).breaker == "open"
    system.bus.publish(heartbeat(3, "closed"))
    assert system.apply(4).breaker == "closed"


def test_a_breaker_that_only_reports_from_the_future_is_stale() -> None:
    system = System()
    system.bus.publish(*(at_tick(10**6 + far, "closed") for far in range(100)))
    # The real heartbeat of tick 0 ages with the plans.
    for tick in range(1, 7):
        system.apply(tick)
    written = len(system.target.journal)
    system.bus.publish(granted(6, epoch=1))
    assert system.apply(7).breaker == "stale"
    assert len(system.target.journal) == written


def test_many_heartbeats_from_the_future_do_not_block_the_next_real_one() -> None:
    system = System()
    system.bus.publish(*(at_tick(1000 * far, "open") for far in range(1, 50)))
    system.bus.publish(heartbeat(2, "closed"))
    assert system.apply(3).breaker == "closed"


def test_a_plan_of_a_tick_that_frames_cannot_have_reached_closes_nothing() -> None:
    system = System()
    system.apply(1)
    (plan,) = system.bus.events(ScalePlanned)[-1:]
    system.bus.publish(msgspec.structs.replace(plan, tick=2**31 - 1))
    system.bus.run()
    assert [letter.error for letter in system.bus.dead_letters] == ["time-out-of-range"]
    assert system.apply(2).tick == 2


def test_breakers_of_scopes_that_do_not_exist_leave_nothing_behind() -> None:
    system = System()
    system.bus.publish(heartbeat(1, scope="forged"))
    system.bus.run()
    engine = system.bus._processes["actuator"].engine
    assert engine is not None
    assert isinstance(engine.handler, ActuatorHandler)
    breakers = engine.handler._permissions._breakers
    assert DOMAIN in breakers
    assert "forged" not in breakers
