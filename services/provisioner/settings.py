"""Settings of the provisioner, besides those of the kit."""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

SERVICE: Final = "provisioner"


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where room is held, how, and how much of it."""

    cluster: str = ""
    """Path of a cluster description (YAML), for pools and spend cap; the example cluster when
    empty."""
    # A forgotten variable must not switch writing on.
    mode: Literal["preview", "auto"] = "preview"
    """preview: the API server checks every write and stores none. auto: room is held."""
    room: Literal["placeholders", "buffers", "static"] = "placeholders"
    """How a pool is made larger: pods of low priority, which every autoscaler makes nodes for; a
    CapacityBuffer, where your autoscaler has it switched on; or the replicas of a static NodePool
    of Karpenter, which then has exactly the requested nodes."""
    namespace: str = "hirl-room"
    """Where placeholders and buffers are: infra/k8s/room gives the right to write there."""
    image: str = "registry.k8s.io/pause:3.10"
    """Image of the placeholders."""
    kubeconfig: str = ""
    """Path of a kubeconfig; empty: the pod's ServiceAccount."""
    pool_label: str = "karpenter.sh/nodepool"
    """Label of a node with its pool."""
    tolerate: str = ""
    """Keys of the taints of your pools, separated by commas: placeholders tolerate them, as your
    pods do. Those of a tainted pool would otherwise wait for ever, and no node be made for them."""
    chunk_share: Annotated[float, Meta(gt=0.5, le=1)] = 0.85
    """Size of a placeholder, as a share of a node; the rest is for DaemonSets. Above a half, so
    that a node never takes two."""
    nodes_per_minute: Annotated[int, Meta(ge=1)] = 100
    """Most nodes that are added per minute, over all pools; the most urgent come first."""
    reconcile_seconds: Annotated[float, Meta(gt=0)] = 5.0
    """Time after which room is compared with nodes and pods again. Pods that took room lower it."""
    timeout_seconds: Annotated[float, Meta(gt=0)] = 5.0
    """Timeout of one request to the API server."""
    calls_per_second: Annotated[float, Meta(gt=0)] = 20.0
    """Requests to the API server per second."""

    @property
    def taints(self) -> list[str]:
        """Keys that placeholders tolerate."""
        return [key for part in self.tolerate.split(",") if (key := part.strip())]
