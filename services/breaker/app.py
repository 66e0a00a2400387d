"""Builds the service from its settings."""

from services._kit.handler import Service
from services._kit.settings import KitSettings
from services.breaker.decide import BreakerHandler, BreakerState
from services.breaker.metrics import Metrics
from services.breaker.settings import Settings


def build(kit: KitSettings, own: Settings) -> Service[BreakerState]:
    """A breaker for every domain that Kafka assigns to this process."""
    # In lock-step the cluster waits for the services, so missing frames mean nothing.
    stale = None if kit.lock_step else own.stale_seconds / kit.speed
    return Service(BreakerHandler(own.thresholds, stale), observe=Metrics)
