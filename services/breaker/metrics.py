"""Metrics of the breaker: state and level of each domain and of the cluster, and why they trip."""

from typing import Final, get_args

from prometheus_client import Counter, Gauge

from schemas.breaker_changed import BreakerChanged, Level
from schemas.fields import Event
from services._kit.telemetry import Telemetry

_STATES: Final = ("closed", "half-open", "open")


class Metrics:
    """Called with each published event."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._state = Gauge(
            "hirl_breaker_state",
            "1 for the present state of a breaker, 0 for its other states",
            ["scope", "state"],
            registry=telemetry.registry,
        )

        self._level = Gauge(
            "hirl_breaker_level",
            "1 for what a breaker lets decide at most, 0 for the other levels",
            ["scope", "level"],
            registry=telemetry.registry,
        )
        self._trips = Counter(
            "hirl_breaker_trips_total",
            "Changes of a breaker to a state that is not closed or a level below policy, by cause",
            ["scope", "cause"],
            registry=telemetry.registry,
        )

    def __call__(self, event: Event) -> None:
        """Set state and level of the event's scope, and count its trips."""
        if isinstance(event, BreakerChanged):
            for state in _STATES:
                self._state.labels(event.scope, state).set(state == event.state)
            for level in get_args(Level):
                self._level.labels(event.scope, level).set(level == event.level)
            limited = event.state != "closed" or event.level != "policy"
            if limited and not event.heartbeat:
                self._trips.labels(event.scope, event.cause).inc()
