"""Metrics of the provisioner: nodes and the room that is held, by pool."""

from collections.abc import Callable

from prometheus_client import Counter, Gauge

from schemas.fields import Event
from services._kit.telemetry import Telemetry
from services.provisioner.capacity import Held


class Metrics:
    """`opened` creates them, `show` is called with each answer of the cluster."""

    def opened(self, telemetry: Telemetry) -> Callable[[Event], None]:
        """The service publishes no events, so nothing is derived from them."""
        registry = telemetry.registry
        self._ready = Gauge(
            "hirl_pool_nodes_ready", "Nodes of a pool that take pods", ["pool"], registry=registry
        )
        self._chunks = Gauge(
            "hirl_pool_room_chunks",
            "Nodes' worth of room that is held in a pool, ready or to come",
            ["pool"],
            registry=registry,
        )
        self._failed = Counter(
            "hirl_pool_room_failures_total",
            "Writes of room that the API server did not take",
            ["pool"],
            registry=registry,
        )
        return lambda _: None

    def show(self, held: Held) -> None:
        """Take in what the pools have."""
        for pool, found in held.pools.items():
            self._failed.labels(pool).inc(bool(found.problem))
            if not found.problem:
                self._ready.labels(pool).set(found.ready)
                self._chunks.labels(pool).set(found.chunks)
