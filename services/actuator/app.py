"""Builds the service from its settings."""

from typing import assert_never

from services._kit.handler import Service
from services._kit.inventory import cluster_of
from services._kit.kubernetes.client import KubernetesApi
from services._kit.kubernetes.credentials import access_of
from services._kit.settings import KitSettings
from services.actuator.decide import ActuatorHandler
from services.actuator.kubernetes import STEPS, KubernetesTarget
from services.actuator.metrics import Metrics
from services.actuator.settings import Settings
from services.actuator.simulated import SimulatedTarget
from services.actuator.state import ActuatorState


def build(kit: KitSettings, own: Settings) -> Service[ActuatorState]:
    """An actuator for every domain that Kafka assigns to this process."""
    # In lock-step the cluster waits for the services, so wall time says nothing about a breaker.
    stale = None if kit.lock_step else own.breaker_stale_seconds / kit.speed
    handler = ActuatorHandler(
        cluster_of(own.cluster, kit.domains),
        own.modes,
        kit.tick_grace_seconds,
        stale,
        own.breaker_stale_ticks,
        kit.speed,
        STEPS if own.target_kind == "kubernetes" else None,
    )
    target = target_of(own)
    return Service(handler, target, Metrics, target.close)


def target_of(own: Settings) -> SimulatedTarget | KubernetesTarget:
    """What the settings name; mypy reports a name without a branch."""
    match own.target_kind:
        case "simulated":
            return SimulatedTarget(own.target, own.timeout_seconds, own.give_up_seconds)
        case "kubernetes":
            api = KubernetesApi(
                access_of(own.kubeconfig), own.timeout_seconds, own.calls_per_second
            )
            return KubernetesTarget(
                api, own.timeout_seconds, own.give_up_seconds, own.concurrency, own.sizes
            )
        case never:
            assert_never(never)
