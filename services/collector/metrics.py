"""Metrics of the collector."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from services._kit.telemetry import FAST_SECONDS


class Metrics:
    """Metrics in the registry of the process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.ticks = Counter("hirl_collector_ticks_total", "Ticks published", registry=registry)
        self.last_tick = Gauge("hirl_collector_tick", "Last tick published", registry=registry)
        self.skipped = Counter(
            "hirl_collector_skipped_ticks_total",
            "Ticks skipped because the source no longer had them",
            registry=registry,
        )
        self.samples = Counter(
            "hirl_collector_samples_total", "Samples published", ["domain"], registry=registry
        )
        self.missing = Counter(
            "hirl_collector_missing_samples_total",
            "Samples that did not arrive",
            ["domain"],
            registry=registry,
        )
        self.errors = Counter(
            "hirl_collector_errors_total",
            "Failed requests to the source, by kind",
            ["question"],
            registry=registry,
        )
        self.publish_seconds = Histogram(
            "hirl_collector_publish_seconds",
            "Time from receiving a tick to its last acknowledgement",
            buckets=FAST_SECONDS,
            registry=registry,
        )
