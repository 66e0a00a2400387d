"""Labels and annotations by which a workload belongs to a domain and is ours to scale."""

from typing import Final

DOMAIN: Final = "hirl.dev/domain"
"""Label: the domain that a workload belongs to. A label, so that lists can select by it."""
MANAGED: Final = "hirl.dev/managed"
"""Annotation: "true" adopts the workload, anything else hands it back."""
PAUSED: Final = "hirl.dev/paused"
"""Annotation: "true" holds every change of the workload."""
MANAGER: Final = "hirl:"
"""How the names of our field managers begin."""


def app_name(plural: str, namespace: str, name: str) -> str:
    """Name of a workload as an app: a Deployment's has two parts, that of other kinds three."""
    return f"{namespace}/{name}" if plural == "deployments" else f"{namespace}/{plural}/{name}"
