"""Builds the service from its settings."""

from services._kit.clock import SystemClock
from services._kit.handler import Service
from services._kit.inventory import cluster_of
from services._kit.kubernetes.client import KubernetesApi
from services._kit.kubernetes.credentials import access_of
from services._kit.settings import KitSettings
from services.provisioner.decide import ProvisionerHandler, ProvisionerState
from services.provisioner.kubernetes import KubernetesCapacity
from services.provisioner.metrics import Metrics
from services.provisioner.settings import Settings


def build(kit: KitSettings, own: Settings) -> Service[ProvisionerState]:
    """The only provisioner."""
    handler = ProvisionerHandler(
        cluster_of(own.cluster, kit.domains), own.nodes_per_minute, own.reconcile_seconds, kit.speed
    )
    metrics = Metrics()
    api = KubernetesApi(access_of(own.kubeconfig), own.timeout_seconds, own.calls_per_second)
    capacity = KubernetesCapacity(api, own, SystemClock(), metrics.show)
    return Service(handler, capacity, metrics.opened, capacity.close)
