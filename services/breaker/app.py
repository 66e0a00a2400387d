"""The process: the handler with what the settings say."""

from services._kit.settings import KitSettings
from services.breaker.decide import BreakerHandler
from services.breaker.settings import Settings


def build(kit: KitSettings, own: Settings) -> BreakerHandler:
    """In lock-step the cluster waits for us, so silence says nothing."""
    return BreakerHandler(own.thresholds, None if kit.lock_step else own.stale_seconds / kit.speed)
