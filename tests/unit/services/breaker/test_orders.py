"""Operators' orders to a breaker."""

import msgspec

from schemas.breaker_changed import BreakerChanged
from services._kit.clock import ManualClock
from services._kit.handler import Service
from services._kit.memory import MemoryBus
from services.breaker.decide import BreakerHandler
from tests.unit.services.breaker.breaker_helpers import (
    APPS,
    CLUSTER,
    DOMAIN,
    SHORT,
    frame,
    order,
)


def test_an_order_opens_a_breaker_until_it_is_lifted() -> None:
    bus = MemoryBus(ManualClock())
    bus.add(lambda: Service(BreakerHandler(CLUSTER, SHORT, None)))
    bus.publish(frame(1), order("open"), *(frame(tick) for tick in range(2, 20)))
    bus.run()
    own = [one for one in bus.events(BreakerChanged) if one.scope == DOMAIN]
    assert {(one.state, one.cause) for one in own[1:]} == {("open", "order")}
    assert "a test" in own[-1].reason
    bus.publish(order("open", lifted=True), *(frame(tick) for tick in range(20, 40)))
    bus.run()
    assert bus.events(BreakerChanged)[-2].state == "closed"


def test_the_longest_reason_of_an_order_does_not_keep_a_breaker_from_publishing() -> None:
    bus = MemoryBus(ManualClock())
    bus.add(lambda: Service(BreakerHandler(CLUSTER, SHORT, None)))
    bus.publish(frame(1), msgspec.structs.replace(order("open"), reason="x" * 2000), frame(2))
    bus.run()
    own = [one for one in bus.events(BreakerChanged) if one.scope == DOMAIN]
    assert own[-1].state == "open"
    assert own[-1].reason.startswith("order: xxx")


def test_a_reset_closes_a_breaker_once() -> None:
    bus = MemoryBus(ManualClock())
    bus.add(lambda: Service(BreakerHandler(CLUSTER, SHORT, None)))
    bad = [frame(tick, None, missing=APPS) for tick in range(2, 6)]
    bus.publish(frame(1), *bad)
    bus.run()
    states = [one.state for one in bus.events(BreakerChanged) if one.scope == DOMAIN]
    assert states[-1] == "open"
    bus.publish(order("reset", "2026-11-27T08:00:55Z", order_id="0a1b"))
    bus.publish(frame(6), *(frame(tick, None, missing=APPS) for tick in range(7, 12)))
    bus.run()
    own = [one for one in bus.events(BreakerChanged) if one.scope == DOMAIN]
    assert (own[5].reason, own[5].heartbeat) == ("reset by order 0a1b: a test", False)
    assert own[6].reason == ""
    states = [one.state for one in own]
    assert states[5] == "closed"
    assert states[-1] == "open", "the cause is still there"
