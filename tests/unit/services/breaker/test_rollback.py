"""Decreases that do harm are rolled back."""

import msgspec

from schemas.domain_observed import DomainObserved, Pods
from tests.unit.services.breaker.breaker_helpers import (
    APPS,
    answers,
    bus_of,
    frame,
)


def slow(tick: int, replicas: int) -> DomainObserved:
    features = {"headroom": [-0.3] * len(APPS)}
    return msgspec.structs.replace(frame(tick, replicas=replicas), features=features)


def test_a_decrease_that_does_harm_is_rolled_back_at_a_limited_rate() -> None:
    bus = bus_of()
    answers(bus, *(frame(tick, replicas=100) for tick in range(33)))
    answers(bus, *(frame(32 + tick, replicas=100 - 9 * tick) for tick in range(1, 4)))
    first, _, last = answers(bus, *(slow(tick, 73) for tick in (36, 37, 38)))
    assert (first.state, first.cause, first.action) == ("half-open", "decreases", "increases-only")
    assert (last.state, last.cause, last.action) == ("half-open", "regression", "rollback")
    assert (last.since_tick, last.heartbeat) == (38, False)
    assert last.reason == "regression: 1, threshold 0.1"
    assert last.rollback is not None
    assert last.rollback.apps == APPS
    # A twentieth of the domain per tick.
    assert last.rollback.replicas == [76] * len(APPS)
    (full,) = answers(bus, slow(39, 100))
    assert (full.action, full.rollback) == ("rollback", None)


def test_good_replicas_and_the_order_to_roll_back_survive_a_restart() -> None:
    bus = bus_of()
    answers(bus, *(frame(tick, replicas=100) for tick in range(32)))
    answers(bus, frame(32, replicas=90), slow(33, 90))
    bus.kill("breaker")
    bus.start("breaker")
    (last,) = answers(bus, slow(34, 90))
    assert last.rollback is not None
    assert last.rollback.replicas == [94] * len(APPS)


def test_apps_that_come_and_go_keep_what_is_remembered_of_the_others() -> None:
    bus = bus_of()
    answers(bus, *(frame(tick, replicas=100) for tick in range(32)))
    kept = slow(33, 90)
    columns = {name: getattr(kept.pods, name)[1:] for name in Pods.__struct_fields__}
    fewer = {
        "apps": APPS[1:], "pods": Pods(**columns), "load_pods": [1.0] * 5,
        "usual_load_pods": [1.0] * 5, "features": {"headroom": [-0.3] * 5},
        "measured": {"rps": [10.0] * 5, "errors": [0.0] * 5},
    }  # fmt: skip
    answers(bus, frame(32, replicas=90))
    for tick in (33, 34):
        (last,) = answers(bus, msgspec.structs.replace(kept, tick=tick, **fewer))
    assert last.rollback is not None
    assert last.rollback.apps == APPS[1:]
