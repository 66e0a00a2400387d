"""Metrics of the actuator: outcomes of changes, holds by reason, and orders that wait."""

from prometheus_client import Counter, Gauge

from schemas.fields import Event
from schemas.reasons import MEANINGS
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
        self._waiting = Gauge(
            "hirl_orders_waiting",
            "Operators' orders that may concern a domain and wait for the limit per minute",
            ["domain"],
            registry=telemetry.registry,
        )

    def __call__(self, event: Event) -> None:
        """Count the changes of a tick."""
        if not isinstance(event, ScaleApplied):
            return
        self._contradictions.labels(event.domain).inc(event.contradictions)
        self._waiting.labels(event.domain).set(event.orders_waiting)
        for outcome, reason in zip(event.outcomes, event.reasons, strict=True):
            self._changes.labels(event.domain, outcome).inc()
            if outcome == "held":
                # Behind the colon is who or why, in the words of the target. Other texts are those
                # of a target or a plan, and their number has no bound.
                name = reason.partition(":")[0]
                self._holds.labels(name if name in MEANINGS else "other").inc()
