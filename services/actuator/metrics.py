"""Metrics of the actuator: outcomes of changes, holds by reason, and orders that wait."""

from typing import Final

from prometheus_client import Counter, Gauge

from schemas.fields import Event
from schemas.scale_applied import ScaleApplied
from services._kit.arrays import REASONS
from services._kit.telemetry import Telemetry

COUNTED: Final = frozenset(REASONS.values()) | {
    "breaker-open", "breaker-half-open", "breaker-stale", "off", "preview", "not-in-canary",
    "paused", "not-declared", "no-bounds", "no-frame", "pods-unknown", "override",
    "sample-contradicts-target", "target-unreadable", "target-changed", "target-unknown",
    "target-refused", "target-silent", "order-floor", "order-ceiling", "rollback", "newer-plan",
    "hold-unmanaged", "hold-paused", "hold-second-owner", "hold-no-resize", "hold-being-deleted",
}  # fmt: skip
"""Reasons that are counted by name. Others are texts of a target or a plan, and their
number has no bound."""


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
                # Behind the colon is who or why, in the words of the target.
                name = reason.partition(":")[0]
                self._holds.labels(name if name in COUNTED else "other").inc()
