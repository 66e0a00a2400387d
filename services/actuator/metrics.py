"""Metrics of the actuator: outcomes of changes, and holds by reason."""

from prometheus_client import Counter

from schemas.fields import Event
from schemas.scale_applied import ScaleApplied
from services._kit.telemetry import Telemetry


class Metrics:
    """Called with each published event."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._holds = telemetry.holds
        self._changes = Counter(
            "hirl_changes_total",
            "Planned changes, by outcome",
            ["domain", "outcome"],
            registry=telemetry.registry,
        )
        self._contradictions = Counter(
            "hirl_contradicting_samples_total",
            "Apps whose reported pods contradict what the cluster has; once per tick",
            ["domain"],
            registry=telemetry.registry,
        )

    def __call__(self, event: Event) -> None:
        """Count the changes of a tick."""
        if not isinstance(event, ScaleApplied):
            return
        self._contradictions.labels(event.domain).inc(event.contradictions)
        for outcome, reason in zip(event.outcomes, event.reasons, strict=True):
            self._changes.labels(event.domain, outcome).inc()
            if outcome == "held":
                self._holds.labels(reason).inc()
