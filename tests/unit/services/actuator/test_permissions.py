"""Modes, breakers and overrides decide which apps may be changed."""

from typing import Any

import msgspec
import pytest

from models.control.breaker.actions import permitted
from models.control.tuned import tuned_parameters
from schemas.breaker_changed import Action, BreakerChanged, Rollback
from schemas.fields import Mode
from schemas.override_issued import OverrideIssued
from schemas.scale_applied import ScaleApplied
from schemas.topics import topic_of
from services._kit.handler import Service
from services._kit.memory import MemoryBus
from services._kit.orders import MOST_CHANGES, NO_EFFECT
from services.actuator.decide import ActuatorHandler
from services.actuator.permissions import Permissions, Verdict
from services.actuator.settings import Modes
from services.actuator.target import StepLimits
from services.aggregator.decide import AggregatorHandler
from services.breaker.applied import held_changes
from services.soldier.decide import SoldierHandler
from tests.service_helpers import (
    APPS,
    CLUSTER,
    DOMAIN,
    declared,
    granted,
    heartbeat,
    inventory,
    sampled,
)
from tests.unit.services.actuator.actuator_helpers import GRACE_S, HOT, STALE_S, System


def test_preview_holds_everything_and_writes_nothing() -> None:
    system = System(Modes("preview"))
    done = system.apply()
    assert set(done.outcomes) == {"held"}
    assert set(done.reasons) == {"preview"}
    assert system.target.journal == []


def test_what_preview_holds_is_offered_to_the_target_as_a_trial() -> None:
    system, said = System(Modes("preview"), limits=StepLimits(4, 1)), "it would be taken"
    system.target.trials = dict.fromkeys(APPS, said)
    done = system.apply()
    assert set(done.reasons) == {f"preview: {said}"}
    assert held_changes(done) == (0, 0)
    write = system.target.writes[-1]
    assert write.changes == []
    assert [change.app for change in write.trials] == done.apps
    for change, before in zip(write.trials, done.replicas_before, strict=True):
        assert change.before.replicas == before < change.replicas <= 4 * before + 1
        assert change.decision_id == done.decision_id


def test_a_trial_is_lost_with_the_process_and_its_tick_is_not() -> None:
    system = System(Modes("preview"))
    system.target.silent = 1
    assert set(system.apply().reasons) == {"preview"}


@pytest.mark.parametrize("modes", [Modes("off"), Modes("canary", canary_share=0.01)])
def test_nothing_is_tried_in_other_modes(modes: Modes) -> None:
    system = System(modes)
    system.apply()
    assert [write.trials for write in system.target.writes] == [[], []]


def test_a_canary_changes_its_share_and_holds_the_rest() -> None:
    system = System(Modes("canary", canary_share=0.5))
    done = system.apply()
    assert set(done.reasons) <= {"not-in-canary", "scale-out"}
    applied = [app for app, out in zip(done.apps, done.outcomes, strict=True) if out == "applied"]
    assert [entry[0] for entry in system.target.journal] == applied


def test_a_single_app_can_be_in_preview() -> None:
    system = System()
    system.bus.publish(declared(APPS[1], mode="preview"))
    done = system.apply()
    held = dict(zip(done.apps, done.reasons, strict=True))
    assert held[APPS[1]] == "preview"
    assert APPS[1] not in {entry[0] for entry in system.target.journal}


@pytest.mark.parametrize("mode", ["off", "preview"])
def test_no_app_declares_itself_out_of_what_the_operator_configured(mode: Mode) -> None:
    system = System(Modes(mode))
    for app in APPS:
        system.bus.publish(declared(app, mode="auto"))
    assert set(system.apply().reasons) == {mode}
    assert system.target.journal == []


@pytest.mark.parametrize("state", ["open", "half-open"])
def test_an_open_breaker_holds_and_a_half_open_one_lets_increases_pass(state: str) -> None:
    system = System()
    system.bus.publish(heartbeat(0, state))
    done = system.apply()
    outcome = "held" if state == "open" else "applied"
    assert set(done.outcomes) == {outcome}
    assert done.breaker == state


def test_a_silent_breaker_holds_everything_like_an_open_one() -> None:
    system = System()
    system.bus.run()
    system.clock.advance(STALE_S + 1)
    done = system.apply()
    assert set(done.reasons) == {"breaker-stale"}


def test_without_any_heartbeat_of_a_breaker_nothing_is_changed() -> None:
    system = System()
    system.bus = MemoryBus(system.clock)
    target = system.target
    for build in (
        lambda: Service(AggregatorHandler(CLUSTER, tuned_parameters(), GRACE_S)),
        lambda: Service(SoldierHandler(CLUSTER, tuned_parameters(), GRACE_S)),
        lambda: Service(ActuatorHandler(CLUSTER, Modes(), GRACE_S, STALE_S), target),
    ):
        system.bus.add(build)
    system.bus.publish(*inventory(), sampled(0, use=HOT), granted(0), sampled(1, use=HOT))
    system.bus.advance(3 * GRACE_S)
    reasons = {reason for e in system.bus.events(ScaleApplied) for reason in e.reasons}
    assert reasons == {"breaker-stale"}
    assert target.journal == []


@pytest.mark.parametrize(("tick", "breaker"), [(6, "closed"), (7, "stale")])
def test_a_dead_breaker_is_stale_by_event_time_after_a_restart(tick: int, breaker: str) -> None:
    system = System(stale_s=None)
    system.bus.run()
    system.bus.kill("actuator")
    system.bus.start("actuator")
    system.bus.advance(10.0 * tick)
    system.bus.publish(granted(tick - 1, epoch=1))
    done = system.apply(tick)
    assert done.breaker == breaker
    assert set(done.outcomes) == {"applied" if breaker == "closed" else "held"}


def test_a_restart_while_no_tick_passes_holds_nothing() -> None:
    system = System()
    system.bus.run()
    system.bus.kill("actuator")
    system.clock.advance(10 * STALE_S)
    system.bus.start("actuator")
    # Nothing has happened since the last heartbeat that the breaker could have looked at.
    done = system.apply(1)
    assert (done.breaker, set(done.outcomes)) == ("closed", {"applied"})


def test_a_breaker_that_stays_silent_after_a_restart_becomes_stale() -> None:
    system = System()
    system.bus.run()
    system.bus.kill("actuator")
    system.bus.start("actuator")
    system.bus.run()
    system.clock.advance(STALE_S + 1)
    done = system.apply(1)
    assert (done.breaker, set(done.outcomes)) == ("stale", {"held"})


def test_an_operators_override_wins_over_the_plan() -> None:
    system = System()
    override = OverrideIssued(scope=APPS[0], kind="app", replicas=3, reason="incident")
    system.bus.publish(override)
    done = system.apply()
    found = dict(zip(done.apps, zip(done.outcomes, done.replicas, strict=True), strict=True))
    assert found[APPS[0]] == ("applied", 3)
    assert found[APPS[1]][1] > 10


def test_a_paused_domain_is_not_changed_until_the_override_is_lifted() -> None:
    system = System()
    override = OverrideIssued(scope=DOMAIN, kind="domain", pause="scale-out")
    system.bus.publish(override)
    assert set(system.apply().reasons) == {"paused"}
    system.bus.publish(OverrideIssued(scope=DOMAIN, kind="domain", lifted=True))
    assert set(system.apply(2).outcomes) == {"applied"}


@pytest.mark.parametrize("column", [0, 1, 2])
@pytest.mark.parametrize(
    ("breaker", "pause", "step", "reason"),
    [
        ("half-open", "none", -1, "breaker-half-open"),
        ("half-open", "none", 1, ""),
        ("closed", "scale-in", -1, "paused"),
        ("closed", "scale-in", 1, ""),
        ("closed", "scale-out", 1, "paused"),
        ("closed", "scale-out", -1, ""),
    ],
)
def test_smaller_pods_are_a_decrease_like_fewer_pods(
    column: int, breaker: str, pause: Any, step: int, reason: str
) -> None:
    steps = [0, 0, 0]
    steps[column] = step
    app = declared(pause=pause)
    action: Action = "increases-only" if breaker == "half-open" else "none"
    verdict = Verdict(breaker, permitted((action,), 0))
    permissions = Permissions(Modes(), None)
    assert permissions.hold_reason(app, steps, NO_EFFECT, verdict, "scale-in") == reason


@pytest.mark.parametrize(
    ("action", "reason", "outcome"),
    [
        ("no-scale-in", "yield", ""),
        ("no-scale-in", "scale-in", "breaker-half-open"),
        ("increases-only", "yield", "breaker-half-open"),
    ],
)
def test_a_breakers_order_decides_which_decreases_pass(
    action: Action, reason: str, outcome: str
) -> None:
    verdict = Verdict("half-open", permitted((action,), 0))
    permissions = Permissions(Modes(), None)
    held = permissions.hold_reason(declared(), [-1, 0, 0], NO_EFFECT, verdict, reason)
    assert held == outcome


def test_a_rollback_raises_its_apps_within_the_rules() -> None:
    system = System()
    back = Rollback(apps=[APPS[0]], replicas=[30])
    beat = msgspec.structs.replace(heartbeat(0, "half-open"), action="rollback", rollback=back)
    system.bus.publish(beat)
    done = system.apply(use=0.4)
    index = done.apps.index(APPS[0])
    assert (done.replicas[index], done.reasons[index]) == (30, "rollback")


def test_an_override_changes_nothing_in_preview() -> None:
    system = System(Modes("preview"))
    system.bus.publish(OverrideIssued(scope=APPS[0], kind="app", replicas=3))
    assert set(system.apply().outcomes) == {"held"}
    assert system.target.journal == []


def test_an_override_stays_within_the_declared_bounds() -> None:
    system = System()
    system.bus.publish(OverrideIssued(scope=APPS[0], kind="app", replicas=5000))
    system.bus.publish(OverrideIssued(scope=APPS[1], kind="app", replicas=0))
    assert system.apply().replicas[:2] == [50, 2]


def test_an_override_of_the_cluster_wins_over_those_of_domains_and_apps() -> None:
    system = System()
    system.bus.publish(OverrideIssued(scope=APPS[0], kind="app", mode="auto", replicas=3))
    system.bus.publish(OverrideIssued(scope=DOMAIN, kind="domain", mode="canary"))
    system.bus.publish(OverrideIssued(scope="cluster", kind="cluster", mode="off"))
    done = system.apply()
    assert set(done.reasons) == {"off"}
    assert done.mode == "off"
    assert system.target.journal == []


def test_a_tombstone_removes_an_override_or_a_breaker() -> None:
    system = System()
    system.bus.publish(OverrideIssued(scope=DOMAIN, kind="domain", pause="all"))
    assert set(system.apply(1).reasons) == {"paused"}
    system.bus.put(topic_of(OverrideIssued).name, f"domain/{DOMAIN}/any".encode(), None)
    assert set(system.apply(2).outcomes) == {"applied"}
    system.bus.put(topic_of(BreakerChanged).name, DOMAIN.encode(), None)
    system.bus.publish(sampled(3, use=HOT))
    system.bus.advance(2 * GRACE_S)
    assert set(system.bus.events(ScaleApplied)[-1].reasons) == {"breaker-stale"}


def test_an_app_called_like_a_domain_does_not_share_its_overrides() -> None:
    system = System()
    system.bus.publish(OverrideIssued(scope=DOMAIN, kind="domain", pause="all"))
    system.bus.publish(OverrideIssued(scope=DOMAIN, kind="app", lifted=True))
    system.bus.kill("actuator")
    system.bus.compact()
    system.bus.start("actuator")
    assert set(system.apply().reasons) == {"paused"}


def test_a_flood_of_orders_changes_ten_apps_a_minute_at_most() -> None:
    permissions, orders = Permissions(Modes(), None), []
    for number in range(30):
        name = f"{DOMAIN}-{number:04}"
        orders.append(OverrideIssued(scope=name, kind="app", order="replicas", replicas=2))
    for order in orders:
        permissions.orders.learn(order, 0.0)
    permissions.advance(1.0)
    found = [permissions.effect(declared(o.scope), "2026-11-27T08:00:00Z") for o in orders]
    assert sum(one != NO_EFFECT for one in found) == MOST_CHANGES


def test_orders_are_in_force_again_after_a_restart_however_many_there_are() -> None:
    system = System()
    for number in range(25):
        system.bus.publish(
            OverrideIssued(scope=f"other-{number:04}", kind="app", order="ceiling", ceiling=9)
        )
        system.bus.advance(10)
    system.bus.publish(OverrideIssued(scope=APPS[0], kind="app", order="replicas", replicas=3))
    system.bus.advance(60)
    system.bus.kill("actuator")
    system.bus.start("actuator")
    system.bus.publish(heartbeat(1), granted(1, epoch=1))
    done = system.apply(2)
    assert done.replicas[done.apps.index(APPS[0])] == 3


@pytest.mark.parametrize(
    ("order", "replicas", "reason"),
    [({"floor": 30}, 30, "order-floor"), ({"ceiling": 9}, 9, "order-ceiling")],
)
def test_floors_and_ceilings_change_an_app_and_name_their_order(
    order: dict[str, Any], replicas: int, reason: str
) -> None:
    system = System()
    bounds: Any = {"order": next(iter(order)), "order_id": "o-1", **order}
    system.bus.publish(OverrideIssued(scope=APPS[0], kind="app", reason="a test", **bounds))
    done = system.apply(use=0.4)
    index = done.apps.index(APPS[0])
    assert (done.replicas[index], done.outcomes[index]) == (replicas, "applied")
    assert (done.reasons[index], done.orders[index]) == (reason, "o-1")


def test_a_floor_does_not_pass_a_pause() -> None:
    system = System()
    system.bus.publish(
        OverrideIssued(scope=APPS[0], kind="app", order="floor", order_id="f", floor=12),
        OverrideIssued(scope=DOMAIN, kind="domain", order="pause", order_id="p", pause="all"),
    )
    done = system.apply(use=0.4)
    index = done.apps.index(APPS[0])
    assert (done.outcomes[index], done.reasons[index]) == ("held", "paused")
    assert done.orders[index] == "p"
    assert system.target.journal == []
