"""Metrics and health of a service; `probes.py` serves them.

Metric names begin with `hirl_` and are in base units. Labels are topics, domains and words of our
own code, so their number is bounded.
"""

from importlib.metadata import PackageNotFoundError, version
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from services._kit.clock import Clock

FAST_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
AGE_SECONDS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)

COMPILING: Final = "kernels are being loaded or compiled, which takes seconds or minutes"
STUCK: Final = "nothing was polled for too long"


class Health:
    """Whether the process works (alive) and may be given work (ready)."""

    def __init__(self, clock: Clock, silence_seconds: float = 60.0) -> None:
        self._clock = clock
        self._silence_seconds = silence_seconds
        self._polled_at = clock.now()
        self.reference_read = False
        self.assigned = False
        self.preparing = ""
        """Work that keeps the process from polling, such as compiling; empty: it has begun."""
        self.outage = ""
        """Why nothing works now, such as brokers that do not answer; empty: all is well."""

    def polled(self) -> None:
        """The bus was polled, with or without records."""
        self._polled_at = self._clock.now()

    def alive(self) -> bool:
        """False when polling stopped: the process is stuck, and only a restart helps."""
        # A restart would begin the same work again.
        return bool(self.preparing) or self._clock.now() - self._polled_at <= self._silence_seconds

    def ready(self) -> bool:
        """Whether reference data is read whole and partitions are assigned."""
        return not self.missing()

    def missing(self) -> str:
        """What is missing to be ready; empty when ready."""
        if self.preparing:
            return self.preparing
        if self.outage:
            return self.outage
        if not self.reference_read:
            return "reference data is being read"
        if not self.assigned:
            return "partitions are not assigned yet"
        return "" if self.alive() else STUCK


class Telemetry:
    """Metrics of one service, in a registry of its own that the service may add to."""

    def __init__(self, service: str, clock: Clock, silence_seconds: float = 60.0) -> None:
        self.registry = CollectorRegistry()
        self.health = Health(clock, silence_seconds)
        self.events = Counter(
            "hirl_events_total",
            "Records consumed, by topic and outcome",
            ["topic", "outcome"],
            registry=self.registry,
        )
        self.published = Counter(
            "hirl_published_total", "Events published", ["topic"], registry=self.registry
        )
        self.dead_letters = Counter(
            "hirl_dead_letters_total",
            "Records rejected, by topic and kind of error",
            ["topic", "error"],
            registry=self.registry,
        )
        self.holds = Counter(
            "hirl_holds_total",
            "Changes held, by reason; only the actuator counts them",
            ["reason"],
            registry=self.registry,
        )
        self.decision_seconds = Histogram(
            "hirl_decision_seconds",
            "Time a handler takes for a step, without the bus",
            ["cause"],
            buckets=FAST_SECONDS,
            registry=self.registry,
        )
        self.handling_seconds = Histogram(
            "hirl_handling_seconds",
            "Time from taking a record to the last acknowledgement",
            ["topic"],
            buckets=FAST_SECONDS,
            registry=self.registry,
        )
        self.event_age = Histogram(
            "hirl_event_age_seconds",
            "Age of a record when it is taken",
            ["topic"],
            buckets=AGE_SECONDS,
            registry=self.registry,
        )
        self.lag = Gauge(
            "hirl_consumer_lag_records",
            "Offsets not yet consumed in the assigned partitions; a transaction's marker takes one",
            ["topic"],
            registry=self.registry,
        )
        self.lost = Counter(
            "hirl_lost_records_total",
            "Offsets of inputs that were deleted before they were read; a marker takes one, too",
            ["topic"],
            registry=self.registry,
        )
        self.state_bytes = Gauge(
            "hirl_state_bytes",
            "Size of a saved state as sent to Kafka, all parts together",
            ["key"],
            registry=self.registry,
        )
        self.ready = Gauge("hirl_ready", "1 when the service is ready", registry=self.registry)
        self.ready.set_function(self.health.ready)
        _add_build_info(service, self.registry)


def _add_build_info(service: str, registry: CollectorRegistry) -> None:
    build = Gauge(
        "hirl_build_info", "Version of the running build", ["service", "version"], registry=registry
    )
    build.labels(service, _version()).set(1)


def _version() -> str:
    try:
        return version("hirl-scale")
    except PackageNotFoundError:  # a checkout that was never installed
        return "unknown"
