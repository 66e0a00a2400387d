"""Metrics of the forecaster: which model serves, how certain it is, and how well it does."""

from prometheus_client import Counter, Gauge

from models.forecaster.port import HIGH, LOW, MEDIAN
from schemas.demand_forecast import DemandForecast
from schemas.fields import Event
from services._kit.models import RolloutMetrics
from services._kit.telemetry import Telemetry


class Metrics:
    """Called with each published event."""

    def __init__(self, telemetry: Telemetry) -> None:
        registry = telemetry.registry
        self._rollouts = RolloutMetrics(telemetry)
        self._served = Counter(
            "hirl_forecasts_total",
            "Forecasts, by serving model and reason of a fallback",
            ["domain", "model", "fallback"],
            registry=registry,
        )
        self._width = Gauge(
            "hirl_forecast_width_ratio",
            "Width of the 80 % interval over the median",
            ["domain", "horizon_min"],
            registry=registry,
        )
        self._coverage = Gauge(
            "hirl_forecast_coverage_ratio",
            "Share of recent outcomes inside the 80 % interval",
            ["domain", "horizon_min"],
            registry=registry,
        )
        self._skill = Gauge(
            "hirl_forecast_skill_ratio",
            "Share by which the trained model errs less than the rule",
            ["domain"],
            registry=registry,
        )
        self._reviews = Counter(
            "hirl_forecast_reviews_total",
            "Forecasts that need a review",
            ["domain"],
            registry=registry,
        )

    def __call__(self, event: Event) -> None:
        """Record a domain's forecast, or a step of a rollout."""
        self._rollouts(event)
        if not isinstance(event, DemandForecast):
            return
        self._served.labels(event.domain, event.model, event.fallback_reason).inc()
        self._reviews.labels(event.domain).inc(bool(event.review_reason))
        if "skill" in event.calibration:
            self._skill.labels(event.domain).set(event.calibration["skill"])
        for minutes, values in zip(event.horizons_minutes, event.rps, strict=True):
            # Without traffic the ratio is undefined: the gauge keeps its last value.
            if values[MEDIAN] > 0:
                width = (values[HIGH] - values[LOW]) / values[MEDIAN]
                self._width.labels(event.domain, minutes).set(width)
            if (covered := event.calibration.get(f"coverage_{minutes}")) is not None:
                self._coverage.labels(event.domain, minutes).set(covered)
