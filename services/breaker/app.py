"""The process: the handler with what the settings say."""

from services._kit.handler import Service
from services._kit.settings import KitSettings
from services.breaker.decide import BreakerHandler, BreakerState
from services.breaker.metrics import Metrics
from services.breaker.settings import Settings


def build(kit: KitSettings, own: Settings) -> Service[BreakerState]:
    """In lock-step the cluster waits for us, so silence says nothing."""
    stale = None if kit.lock_step else own.stale_seconds / kit.speed
    return Service(BreakerHandler(own.thresholds, stale), observe=Metrics)
