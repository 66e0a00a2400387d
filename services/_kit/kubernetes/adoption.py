"""Which workload is which app: labels and annotations, and the pods of a workload."""

from typing import Final

from services._kit.kubernetes.objects import Pod

DOMAIN: Final = "hirl.dev/domain"
"""Label: the domain that a workload belongs to. A label, so that lists can select by it."""
MANAGED: Final = "hirl.dev/managed"
"""Annotation: "true" adopts the workload, anything else hands it back."""
REPLICAS_BEFORE: Final = "hirl.dev/replicas-before"
"""Annotation: replicas when it was adopted. An admission policy writes it, never we."""
PAUSED: Final = "hirl.dev/paused"
"""Annotation: "true" holds every change of the workload."""
MODE: Final = "hirl.dev/mode"
"""Annotation: mode of the workload, if stricter than that of its domain."""
MIN_REPLICAS: Final = "hirl.dev/min-replicas"
MAX_REPLICAS: Final = "hirl.dev/max-replicas"
LATENCY_TARGET: Final = "hirl.dev/latency-target-seconds"
TIER: Final = "hirl.dev/tier"
SATURATION: Final = "hirl.dev/saturation"
"""Annotations: fields of `AppDeclared`."""
PLACEHOLDER: Final = "hirl.dev/placeholder"
"""Label of a pod that holds room for nodes, with its pool: what it takes is free for others."""
MANAGER: Final = "hirl:"
"""How the names of our field managers begin."""


KINDS: Final = {"deployments": "Deployment", "statefulsets": "StatefulSet"}
"""What is scaled, by its name in paths."""


def app_name(plural: str, namespace: str, name: str) -> str:
    """Name of a workload as an app: a Deployment's has two parts, that of other kinds three."""
    return f"{namespace}/{name}" if plural == "deployments" else f"{namespace}/{plural}/{name}"


def workload_of_pod(pod: Pod) -> tuple[str, str, str] | None:
    """Kind, namespace and name of the workload of a pod."""
    for owner in pod.metadata.owner_references:
        if owner.controller and owner.kind == "ReplicaSet":
            # A Deployment names its ReplicaSets NAME-HASH, and labels their pods with the hash.
            suffix = f"-{pod.metadata.labels.get('pod-template-hash', '')}"
            if owner.name.endswith(suffix):
                return "Deployment", pod.metadata.namespace, owner.name.removesuffix(suffix)
        elif owner.controller:
            return owner.kind, pod.metadata.namespace, owner.name
    return None
