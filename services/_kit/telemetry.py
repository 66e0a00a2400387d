"""What a service says about itself to Prometheus and to whoever probes it.

Names begin with `hirl_` and are in base units; labels are topics, domains and words of our own
code, so their number is bounded.
"""

from importlib.metadata import PackageNotFoundError, version
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from services._kit.clock import Clock

FAST_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
AGE_SECONDS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


class Health:
    """Whether the process does its work (alive) and may be given any (ready)."""

    def __init__(self, clock: Clock, silence_seconds: float = 60.0) -> None:
        self._clock = clock
        self._silence_seconds = silence_seconds
        self._polled_at = clock.now()
        self.reference_read = False
        self.assigned = False

    def polled(self) -> None:
        """The bus was asked for records, whether it had any or not."""
        self._polled_at = self._clock.now()

    def alive(self) -> bool:
        """A process that stopped asking is stuck; only a restart helps."""
        return self._clock.now() - self._polled_at <= self._silence_seconds

    def ready(self) -> bool:
        """Reference data is read whole and the group gave its answer."""
        return not self.missing()

    def missing(self) -> str:
        """What it takes to be ready; empty when it is."""
        if not self.reference_read:
            return "reference data is being read"
        if not self.assigned:
            return "the group has not assigned partitions"
        return "" if self.alive() else "nothing was polled for too long"


class Telemetry:
    """Metrics of one service in a registry of its own; services add theirs to `registry`."""

    def __init__(self, service: str, clock: Clock, silence_seconds: float = 60.0) -> None:
        self.registry = CollectorRegistry()
        self.health = Health(clock, silence_seconds)
        self.events = Counter(
            "hirl_events_total",
            "Records consumed, by topic and what became of them",
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
            "hirl_holds_total", "Decisions to hold, by reason", ["reason"], registry=self.registry
        )
        self.decision_seconds = Histogram(
            "hirl_decision_seconds",
            "Time a handler takes to answer, without the bus",
            ["cause"],
            buckets=FAST_SECONDS,
            registry=self.registry,
        )
        self.handling_seconds = Histogram(
            "hirl_handling_seconds",
            "Time from taking a record to having everything acknowledged",
            ["topic"],
            buckets=FAST_SECONDS,
            registry=self.registry,
        )
        self.event_age = Histogram(
            "hirl_event_age_seconds",
            "Age of a record when it is taken, since it was produced",
            ["topic"],
            buckets=AGE_SECONDS,
            registry=self.registry,
        )
        self.lag = Gauge(
            "hirl_consumer_lag_records",
            "Records not yet consumed in the assigned partitions",
            ["topic"],
            registry=self.registry,
        )
        self.state_bytes = Gauge(
            "hirl_state_bytes", "Size of a saved state", ["key"], registry=self.registry
        )
        self.ready = Gauge("hirl_ready", "1 when the service takes work", registry=self.registry)
        self.ready.set_function(self.health.ready)
        build = Gauge(
            "hirl_build_info", "Which build runs", ["service", "version"], registry=self.registry
        )
        build.labels(service, _version()).set(1)


def _version() -> str:
    try:
        return version("hirl-scale")
    except PackageNotFoundError:  # a checkout that was never installed
        return "unknown"
