"""Settings of the collector, in addition to those of the kit."""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

SERVICE: Final = "collector"

Seconds = Annotated[float, Meta(gt=0)]


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where samples come from, and how long to wait for them."""

    source: Literal["simulated", "prometheus", "kubernetes"] = "simulated"
    """What is measured: a simulated cluster; a real one through its Prometheus; or one through its
    API server, with requests and latency from Prometheus."""
    url: str = "http://127.0.0.1:8700"
    """URL of the simulated cluster or of Prometheus."""
    cluster: str = ""
    """Path of a cluster description (YAML), for the length of a tick; the example cluster when
    empty. Prometheus only."""
    queries: str = ""
    """Set of queries (istio, linkerd, ingress-nginx, envoy-gateway), or path of a queries file
    (YAML); empty: queries for common exporters. Prometheus and Kubernetes only."""
    inventory: str = ""
    """Path of an inventory file (YAML); empty: apps are found by their labels and stay in mode
    preview. Prometheus only."""
    kubeconfig: str = ""
    """Path of a kubeconfig; empty: the pod's ServiceAccount. Kubernetes only."""
    pool_label: str = "karpenter.sh/nodepool"
    """Label of a node with its pool. Kubernetes only."""
    pools: str = ""
    """Path of a file (YAML) with `quota` and `price_per_hour` of each pool. A pool that is not in
    it is not published. Kubernetes only."""
    usage: Literal["metrics-api", "prometheus"] = "metrics-api"
    """Where CPU and memory of pods come from: metrics.k8s.io or queries. Kubernetes only."""
    sizes: str = ""
    """ConfigMap (namespace/name) with the sizes of resized pods, as infra/k8s/vertical has it;
    empty: pods have the size of their template. Kubernetes only."""
    domains: str = ""
    """ConfigMap, as namespace/name, that the domains of ScalingDomains are written to, for all
    services; empty: their cluster file counts. Kubernetes only."""
    timeout_seconds: Seconds = 5.0
    """Timeout of a query to Prometheus."""
    settle_seconds: Annotated[float, Meta(ge=0)] = 2.0
    """Delay after the end of a tick, so that its scrapes have arrived."""
    catch_up_ticks: Annotated[int, Meta(ge=0)] = 6
    """Most ticks to query afterwards when the collector was down."""

    linger_seconds: float = 0.0
    """How long the process stays after the source has ended; -1: until it is stopped, for what
    restarts a process that ends. Simulated only."""

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            # Without the value: it may hold a password.
            raise ValueError("url: expected http:// or https:// at its beginning")
