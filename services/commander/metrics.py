"""Metrics of the Commander: what nodes and insurance cost, and what it did not believe."""

from typing import Final

from prometheus_client import Counter, Gauge

from schemas.budget_granted import BudgetGranted
from schemas.capacity_requested import CapacityRequested
from schemas.fields import Event
from schemas.transition_recorded import TransitionRecorded
from services._kit.models import RolloutMetrics
from services._kit.telemetry import Telemetry
from services.commander.transition import SPEND, SPEND_CAP

IMPLAUSIBLE: Final = "not believed: "
"""Begins the reason of a budget that was made without an implausible input."""


class Metrics:
    """Called with each published event."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._rollouts = RolloutMetrics(telemetry)
        self._implausible = Counter(
            "hirl_implausible_inputs_total",
            "Budgets made without a forecast or report that was not believed",
            ["domain"],
            registry=telemetry.registry,
        )
        self._spend = Gauge(
            "hirl_spend_per_hour",
            "What all nodes cost, booting ones included, in the last minute that was decided",
            registry=telemetry.registry,
        )
        self._cap = Gauge(
            "hirl_spend_cap_per_hour",
            "The spend cap of the cluster file",
            registry=telemetry.registry,
        )
        self._insured = Gauge(
            "hirl_insured_nodes",
            "Nodes that are kept only to carry the loss of a zone (`survive: zone`)",
            ["pool"],
            registry=telemetry.registry,
        )
        self._insured_per_hour = Gauge(
            "hirl_insured_per_hour",
            "Price of these nodes per hour",
            ["pool"],
            registry=telemetry.registry,
        )

    def __call__(self, event: Event) -> None:
        """Record costs, steps of a rollout, and the inputs of a budget that were not believed."""
        self._rollouts(event)
        if isinstance(event, TransitionRecorded):
            self._spend.set(event.next_state[SPEND])
            self._cap.set(event.next_state[SPEND_CAP])
        if isinstance(event, CapacityRequested):
            self._insured.labels(event.pool).set(event.insured_nodes)
            self._insured_per_hour.labels(event.pool).set(event.insured_per_hour)
        if isinstance(event, BudgetGranted):
            found = sum(reason.startswith(IMPLAUSIBLE) for reason in event.reasons)
            if found:
                self._implausible.labels(event.domain).inc(found)
