"""Builds the service from its settings."""

from services._kit.handler import Service
from services._kit.inventory import cluster_of
from services._kit.settings import KitSettings
from services.actuator.decide import ActuatorHandler
from services.actuator.metrics import Metrics
from services.actuator.settings import Settings
from services.actuator.simulated import SimulatedTarget
from services.actuator.state import ActuatorState


def build(kit: KitSettings, own: Settings) -> Service[ActuatorState]:
    """An actuator for every domain that Kafka assigns to this process."""
    # In lock-step the cluster waits for the services, so wall time says nothing about a breaker.
    stale = None if kit.lock_step else own.breaker_stale_seconds / kit.speed
    handler = ActuatorHandler(
        cluster_of(own.cluster),
        own.modes,
        kit.tick_grace_seconds,
        stale,
        own.breaker_stale_ticks,
        kit.speed,
    )
    target = SimulatedTarget(own.target, own.timeout_seconds, own.give_up_seconds)
    return Service(handler, target, Metrics, target.close)
