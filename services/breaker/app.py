"""Builds the service from its settings."""

from services._kit.handler import Service
from services._kit.inventory import cluster_of
from services._kit.settings import KitSettings
from services.breaker.decide import BreakerHandler
from services.breaker.metrics import Metrics
from services.breaker.settings import Settings
from services.breaker.state import BreakerState


def build(kit: KitSettings, own: Settings) -> Service[BreakerState]:
    """A breaker for every domain that Kafka assigns to this process, and the cluster's."""
    # In lock-step the cluster waits for the services, so missing frames mean nothing.
    stale = None if kit.lock_step else own.stale_seconds / kit.speed
    handler = BreakerHandler(
        cluster_of(own.cluster, kit.domains),
        own.thresholds,
        stale,
        own.cluster_thresholds,
        kit.speed,
    )
    return Service(handler, observe=Metrics)
