"""The fields that we read of Kubernetes objects; all others are skipped while decoding."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType, field

from services._kit.kubernetes.quantities import mebibytes, millicores


class _Object(msgspec.Struct, frozen=True, rename="camel"):
    """Absent fields have their defaults; the API server leaves out what is null."""


class FieldsV1(msgspec.Struct, frozen=True):
    """What a manager owns, as far as we ask."""

    spec: Mapping[str, Any] = field(default_factory=dict, name="f:spec")
    metadata: Mapping[str, Any] = field(default_factory=dict, name="f:metadata")


class ManagedFields(_Object, frozen=True):
    """One manager and its fields."""

    manager: str = ""
    subresource: str = ""
    time: str = ""
    fields_v1: FieldsV1 = field(default_factory=FieldsV1)


class OwnerReference(_Object, frozen=True):
    """What an object belongs to."""

    kind: str
    name: str
    controller: bool = False


class ObjectMeta(_Object, frozen=True):
    """Identity of an object."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str = ""
    deletion_timestamp: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    managed_fields: list[ManagedFields] = field(default_factory=list)
    owner_references: list[OwnerReference] = field(default_factory=list)


class Resources(_Object, frozen=True):
    """Requests and limits of a container or of a pod."""

    requests: Mapping[str, str | int | float] = field(default_factory=dict)
    limits: Mapping[str, str | int | float] = field(default_factory=dict)

    @property
    def size(self) -> tuple[int, int]:
        """Millicores and MiB."""
        found = {name: str(value) for name, value in self.requests.items()}
        return millicores(found.get("cpu", "0")), mebibytes(found.get("memory", "0"))


class Container(_Object, frozen=True):
    """One container."""

    name: str = ""
    resources: Resources = field(default_factory=Resources)
    restart_policy: str = ""


class PodSpec(_Object, frozen=True):
    """What a pod asks for, and where it is."""

    node_name: str = ""
    containers: list[Container] = field(default_factory=list)
    init_containers: list[Container] = field(default_factory=list)
    resources: Resources | UnsetType = UNSET
    overhead: Mapping[str, str] = field(default_factory=dict)

    @property
    def size(self) -> tuple[int, int]:
        """Millicores and MiB that the scheduler counts for a pod."""
        if self.resources is not UNSET and self.resources.requests:
            return self.resources.size
        sidecars = [c for c in self.init_containers if c.restart_policy == "Always"]
        running = [c.resources.size for c in (*self.containers, *sidecars)]
        starting = [c.resources.size for c in self.init_containers]
        extra = Resources(requests=self.overhead).size
        # Init containers run one after another, before the others.
        cpu, memory = (
            max(sum(size[i] for size in running), *(size[i] for size in starting), 0) + extra[i]
            for i in (0, 1)
        )
        return cpu, memory


class PodTemplate(_Object, frozen=True):
    """What new pods are like."""

    spec: PodSpec = field(default_factory=PodSpec)


class Selector(_Object, frozen=True):
    """Labels of a workload's pods."""

    match_labels: Mapping[str, str] = field(default_factory=dict)


class WorkloadSpec(_Object, frozen=True):
    """Of a Deployment or a StatefulSet."""

    replicas: int = 1
    selector: Selector = field(default_factory=Selector)
    template: PodTemplate = field(default_factory=PodTemplate)


class WorkloadStatus(_Object, frozen=True):
    """Pods as the controller counts them."""

    replicas: int = 0
    ready_replicas: int = 0


class WorkloadObject(_Object, frozen=True):
    """A Deployment or a StatefulSet."""

    metadata: ObjectMeta
    spec: WorkloadSpec = field(default_factory=WorkloadSpec)
    status: WorkloadStatus = field(default_factory=WorkloadStatus)


class Condition(_Object, frozen=True):
    """A condition of a pod or a node."""

    type: str
    status: str
    reason: str = ""
    message: str = ""


class ContainerStatus(_Object, frozen=True):
    """What a container has, and how often it was restarted."""

    name: str = ""
    restart_count: int = 0
    resources: Resources = field(default_factory=Resources)
    """In force on the node; empty without a kubelet that reports them."""


class PodStatus(_Object, frozen=True):
    """How far a pod is."""

    phase: str = ""
    conditions: list[Condition] = field(default_factory=list)
    container_statuses: list[ContainerStatus] = field(default_factory=list)


class Pod(_Object, frozen=True):
    """A pod."""

    metadata: ObjectMeta
    spec: PodSpec = field(default_factory=PodSpec)
    status: PodStatus = field(default_factory=PodStatus)

    @property
    def sizes(self) -> dict[str, tuple[int, int]]:
        """Millicores and MiB that each container has now; a kubelet may defer a resize."""
        found = {one.name: one.resources.requests for one in self.spec.containers}
        for one in self.status.container_statuses:
            if one.name in found:
                found[one.name] = {**found[one.name], **one.resources.requests}
        return {name: Resources(requests=requests).size for name, requests in found.items()}

    @property
    def size(self) -> tuple[int, int]:
        """Millicores and MiB that the scheduler counts: while a resize waits, the larger ones."""
        cpu, memory = self.spec.size
        now = self.sizes
        for one in self.spec.containers:
            (asked_cpu, asked_memory), (has_cpu, has_memory) = one.resources.size, now[one.name]
            cpu += max(0, has_cpu - asked_cpu)
            memory += max(0, has_memory - asked_memory)
        return cpu, memory

    @property
    def is_ready(self) -> bool:
        """Whether it serves."""
        return any(c.type == "Ready" and c.status == "True" for c in self.status.conditions)

    @property
    def is_over(self) -> bool:
        """Whether it has ended or is being deleted."""
        return self.is_ended or bool(self.metadata.deletion_timestamp)

    @property
    def is_ended(self) -> bool:
        """Whether all of its containers have ended for good."""
        return self.status.phase in {"Succeeded", "Failed"}


class NodeSpec(_Object, frozen=True):
    """Whether a node takes pods."""

    unschedulable: bool = False


class NodeStatus(_Object, frozen=True):
    """How far a node is, and what it has."""

    allocatable: Mapping[str, str] = field(default_factory=dict)
    conditions: list[Condition] = field(default_factory=list)


class Node(_Object, frozen=True):
    """A node."""

    metadata: ObjectMeta
    spec: NodeSpec = field(default_factory=NodeSpec)
    status: NodeStatus = field(default_factory=NodeStatus)


class ContainerUsage(_Object, frozen=True):
    """What a container used."""

    usage: Mapping[str, str] = field(default_factory=dict)


class PodMetrics(_Object, frozen=True):
    """A sample of metrics.k8s.io."""

    metadata: ObjectMeta
    timestamp: str
    containers: list[ContainerUsage] = field(default_factory=list)


class TargetReference(_Object, frozen=True):
    """What an autoscaler scales."""

    name: str = ""
    kind: str = "Deployment"


class AutoscalerSpec(_Object, frozen=True):
    """Of a HorizontalPodAutoscaler or a KEDA ScaledObject."""

    scale_target_ref: TargetReference = field(default_factory=TargetReference)


class Autoscaler(_Object, frozen=True):
    """Another owner of replicas."""

    metadata: ObjectMeta
    spec: AutoscalerSpec = field(default_factory=AutoscalerSpec)


class ScaleSpec(_Object, frozen=True):
    """Replicas, which are left out at 0."""

    replicas: int = 0


class Scale(_Object, frozen=True):
    """The scale subresource of a workload."""

    spec: ScaleSpec = field(default_factory=ScaleSpec)
