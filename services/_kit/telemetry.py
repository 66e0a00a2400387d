"""Metrics and health of a service, and the HTTP server for Prometheus and probes.

Metric names begin with `hirl_` and are in base units. Labels are topics, domains and words of our
own code, so their number is bounded.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import PackageNotFoundError, version
from threading import Thread
from typing import Final

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)

from services._kit.clock import Clock
from services._kit.errors import BadSettings

FAST_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
AGE_SECONDS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)

_TEXT: Final = "text/plain; charset=utf-8"
_STUCK: Final = "nothing was polled for too long"


class Health:
    """Whether the process works (alive) and may be given work (ready)."""

    def __init__(self, clock: Clock, silence_seconds: float = 60.0) -> None:
        self._clock = clock
        self._silence_seconds = silence_seconds
        self._polled_at = clock.now()
        self.reference_read = False
        self.assigned = False

    def polled(self) -> None:
        """The bus was polled, with or without records."""
        self._polled_at = self._clock.now()

    def alive(self) -> bool:
        """False when polling stopped: the process is stuck, and only a restart helps."""
        return self._clock.now() - self._polled_at <= self._silence_seconds

    def ready(self) -> bool:
        """Whether reference data is read whole and partitions are assigned."""
        return not self.missing()

    def missing(self) -> str:
        """What is missing to be ready; empty when ready."""
        if not self.reference_read:
            return "reference data is being read"
        if not self.assigned:
            return "partitions are not assigned yet"
        return "" if self.alive() else _STUCK


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
        self.state_bytes = Gauge(
            "hirl_state_bytes", "Size of a saved state", ["key"], registry=self.registry
        )
        self.ready = Gauge("hirl_ready", "1 when the service is ready", registry=self.registry)
        self.ready.set_function(self.health.ready)
        build = Gauge(
            "hirl_build_info",
            "Version of the running build",
            ["service", "version"],
            registry=self.registry,
        )
        build.labels(service, _version()).set(1)


def _version() -> str:
    try:
        return version("hirl-scale")
    except PackageNotFoundError:  # a checkout that was never installed
        return "unknown"


# Probes.


@contextmanager
def serving(telemetry: Telemetry, host: str, port: int) -> Iterator[int]:
    """Serve /metrics, /healthz and /readyz; yields the port, which the system chooses for 0.

    The server runs in a thread of its own, so that probes notice a stuck event loop.
    """
    server = _listening(telemetry, host, port)
    thread = Thread(target=server.serve_forever, name="probes", daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _listening(telemetry: Telemetry, host: str, port: int) -> ThreadingHTTPServer:
    try:
        return ThreadingHTTPServer((host, port), _pages(telemetry))
    except (OSError, OverflowError) as error:
        raise BadSettings(
            f"metrics_port (HIRL_METRICS_PORT): cannot listen at {host}:{port}, {error}; "
            "choose another, 0 for any"
        ) from error


def _pages(telemetry: Telemetry) -> type[BaseHTTPRequestHandler]:
    class Pages(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            health = telemetry.health
            match self.path:
                case "/metrics":
                    self._answer(200, CONTENT_TYPE_LATEST, generate_latest(telemetry.registry))
                case "/healthz":
                    self._report(health.alive(), "alive", _STUCK)
                case "/readyz":
                    self._report(health.ready(), "ready", health.missing())
                case _:
                    self._answer(404, _TEXT, b"/metrics /healthz /readyz\n")

        def _report(self, good: bool, yes: str, no: str) -> None:
            self._answer(200 if good else 503, _TEXT, f"{yes if good else no}\n".encode())

        def _answer(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Log nothing: probes come every few seconds."""

    return Pages
