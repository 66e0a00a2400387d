"""What the breaker shows: the state of each domain."""

from typing import Final

from prometheus_client import Gauge

from schemas.breaker_changed import BreakerChanged
from schemas.fields import Event
from services._kit.telemetry import Telemetry

_STATES: Final = ("closed", "half-open", "open")


class Metrics:
    """Sees each change and heartbeat."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._state = Gauge(
            "hirl_breaker_state",
            "1 for the state that a domain's breaker is in, 0 for the others",
            ["scope", "state"],
            registry=telemetry.registry,
        )

    def __call__(self, event: Event) -> None:
        """Show the state of the event's domain."""
        if isinstance(event, BreakerChanged):
            for state in _STATES:
                self._state.labels(event.scope, state).set(state == event.state)
