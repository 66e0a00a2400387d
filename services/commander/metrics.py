"""Metrics of the Commander: forecasts and reports that it did not believe."""

from typing import Final

from prometheus_client import Counter

from schemas.budget_granted import BudgetGranted
from schemas.fields import Event
from services._kit.models import RolloutMetrics
from services._kit.telemetry import Telemetry

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

    def __call__(self, event: Event) -> None:
        """Count the inputs of a budget that were not believed, and steps of a rollout."""
        self._rollouts(event)
        if isinstance(event, BudgetGranted):
            found = sum(reason.startswith(IMPLAUSIBLE) for reason in event.reasons)
            if found:
                self._implausible.labels(event.domain).inc(found)
