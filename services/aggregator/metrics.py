"""Metrics of the aggregator: what it learned about the apps."""

from typing import Final

from prometheus_client import Gauge

from schemas.domain_observed import DomainObserved
from schemas.fields import Event
from services._kit.telemetry import Telemetry

_SURE: Final = 0.1
"""Doubt below which an estimate is learned; a declaration begins at twice this."""


class Metrics:
    """Called with each published event."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._learned = Gauge(
            "hirl_saturation_learned_apps",
            "Apps whose pods showed at which CPU use they are full, whatever was declared",
            ["domain"],
            registry=telemetry.registry,
        )

    def __call__(self, event: Event) -> None:
        """Count the apps of a frame."""
        if isinstance(event, DomainObserved):
            doubts = event.features.get("doubt", [])
            self._learned.labels(event.domain).set(sum(0 < doubt < _SURE for doubt in doubts))
