"""Frames, changes and a breaker on the memory bus."""

from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from models.cluster.description import load_cluster
from models.control.breaker.limits import Thresholds
from schemas.breaker_changed import BreakerChanged
from schemas.domain_observed import DomainObserved, Pods
from schemas.fields import Event
from schemas.override_issued import OverrideIssued
from schemas.scale_applied import ScaleApplied
from services._kit.clock import ManualClock
from services._kit.handler import Service
from services._kit.memory import MemoryBus
from services.breaker.decide import BreakerHandler

SHORT: Final = Thresholds(
    missing_ticks=2, mismatch_ticks=2, held_ticks=2, error_ticks=3, burn_short_ticks=3,
    burn_long_ticks=6, regression_ticks=2, quiet_ticks=3, probation_ticks=4, resume_ticks=2,
)  # fmt: skip
APPS: Final = [f"data/{letter}" for letter in "abcdef"]
TIME: Final = "2026-11-27T08:00:00Z"
DOMAIN: Final = "data"
"""Of priority P2, whose thresholds are the configured ones."""
CLUSTER: Final = load_cluster()


def time_at(tick: int) -> str:
    """Ticks are ten seconds from TIME on."""
    moment = datetime.fromisoformat(TIME) + timedelta(seconds=10 * tick)
    return moment.isoformat().replace("+00:00", "Z")


def frame(tick: int, errors: float | None = 0.0, replicas: int = 4, **other: Any) -> DomainObserved:
    count = len(APPS)
    pods = {name: [1] * count for name in Pods.__struct_fields__}
    pods |= {"replicas": [replicas] * count, "pending": [0] * count}
    fields: dict[str, Any] = {
        "missing": [],
        "measured": {"rps": [10.0] * count, "errors": [errors] * count},
    }
    return DomainObserved(
        tick=tick, time=time_at(tick), trace_id=f"t-{tick}", domain=DOMAIN, apps=APPS,
        pods=Pods(**pods),
        features={"headroom": [0.5] * count}, load_pods=[1.0] * count,
        usual_load_pods=[1.0] * count, **(fields | other),
    )  # fmt: skip


def applied(
    tick: int,
    replicas: int,
    before: int = 4,
    outcome: str = "applied",
    reason: str = "hold-budget",
) -> ScaleApplied:
    count = len(APPS)
    return msgspec.convert(
        {
            "tick": tick, "time": time_at(tick), "domain": DOMAIN, "decision_id": f"d-{tick}",
            "epoch": 1, "apps": APPS, "outcomes": [outcome] * count, "reasons": [reason] * count,
            "replicas": [replicas] * count, "replicas_before": [before] * count,
            "cpu_request": [1] * count, "memory_request": [1] * count,
        },
        ScaleApplied,
    )  # fmt: skip


def bus_of(stale_s: float | None = None, **other: Any) -> MemoryBus:
    bus = MemoryBus(**other)
    bus.add(lambda: Service(BreakerHandler(CLUSTER, SHORT, stale_s)))
    return bus


def answers(bus: MemoryBus, *events: Event) -> list[BreakerChanged]:
    """What the breaker publishes after these events."""
    before = len(of_domain(bus))
    bus.publish(*events)
    bus.run()
    return of_domain(bus)[before:]


def of_domain(bus: MemoryBus, scope: str = DOMAIN) -> list[BreakerChanged]:
    """What was published about one scope."""
    return [event for event in bus.events(BreakerChanged) if event.scope == scope]


def states(published: list[BreakerChanged]) -> list[str]:
    return [event.state for event in published]


def play(handler: BreakerHandler, step: list[Event], data: bytes | None) -> tuple[Any, bytes]:
    """Events and bytes after some events, from saved bytes."""
    clock = ManualClock()
    state = handler.start(DOMAIN) if data is None else handler.load(DOMAIN, data)
    published: list[Event] = []
    for event in step:
        # Ticks are believed as fast as the clock brings them.
        clock.move_to(10.0 * getattr(event, "tick", 0))
        answer = handler.handle(event, state, clock)
        state = answer.state
        published += answer.events
    return published, handler.save(state)


def order(action: str, issued_at: str = TIME, **other: Any) -> OverrideIssued:
    fields: Any = {"breaker": action, "order": "breaker", "issued_at": issued_at} | other
    return OverrideIssued(scope=DOMAIN, kind="domain", reason="a test", **fields)
