"""Metrics of the breaker: the state of each domain."""

from typing import Final

from prometheus_client import Gauge

from schemas.breaker_changed import BreakerChanged
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

    def __call__(self, event: Event) -> None:
        """Set the state of the event's scope."""
        if isinstance(event, BreakerChanged):
            for state in _STATES:
                self._state.labels(event.scope, state).set(state == event.state)
