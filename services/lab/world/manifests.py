"""What the second world has on its API server: nodes, Deployments, HPAs and the metrics API."""

from typing import Any, Final

from models.cluster.description import Machine
from services._kit.kubernetes.adoption import DOMAIN, MANAGED

NAMESPACE: Final = "lab"
POOL: Final = "hirl.dev/pool"
"""Label of a node with its pool."""
METRICS: Final = "/apis/metrics.k8s.io/v1beta1"
_HPA_PERIOD_S: Final = 15
_HPA_WINDOW_S: Final = 300


def namespace() -> dict[str, Any]:
    """Where all apps are."""
    return {"metadata": {"name": NAMESPACE}}


def node(name: str, pool: str, machine: Machine) -> dict[str, Any]:
    """A node that is ready; no kubelet stands behind it."""
    cpu = round(1000 * (machine.cpu_cores - machine.reserved_cpu_cores))
    memory = round(1024 * (machine.memory_gib - machine.reserved_memory_gib))
    room = {"cpu": f"{cpu}m", "memory": f"{memory}Mi", "pods": str(machine.max_pods)}
    return {
        "metadata": {"name": name, "labels": {POOL: pool, "kubernetes.io/hostname": name}},
        "status": {
            "capacity": room,
            "allocatable": room,
            "conditions": [{"type": "Ready", "status": "True", "reason": "Lab"}],
        },
    }


def deployment(
    app: str,
    domain: str,
    pools: tuple[str, ...],
    replicas: int,
    size: tuple[int, int],
    grace_s: int,
) -> dict[str, Any]:
    """An app of `size` (millicores, MiB) a pod, which prefers the first of its pools."""
    requests = {"cpu": f"{size[0]}m", "memory": f"{size[1]}Mi"}
    first = {"matchExpressions": [{"key": POOL, "operator": "In", "values": [pools[0]]}]}
    any_of = {"matchExpressions": [{"key": POOL, "operator": "In", "values": list(pools)}]}
    affinity = {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [any_of]},
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": first}],
    }
    return {
        "metadata": {
            "name": app,
            "labels": {DOMAIN: domain},
            "annotations": {MANAGED: "true"},
        },
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": app}},
            "template": {
                "metadata": {"labels": {"app": app}},
                "spec": {
                    "terminationGracePeriodSeconds": grace_s,
                    "affinity": {"nodeAffinity": affinity},
                    "containers": [
                        {"name": "app", "image": "app", "resources": {"requests": requests}}
                    ],
                },
            },
        },
    }


def autoscaler(app: str, least: int, most: int, percent: int, speed: float) -> dict[str, Any]:
    """An HPA on the CPU use of an app; its rates are the API's defaults, `speed` times as fast."""
    period = max(1, round(_HPA_PERIOD_S / speed))
    doubled = {"type": "Percent", "value": 100, "periodSeconds": period}
    four = {"type": "Pods", "value": 4, "periodSeconds": period}
    metric = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}}
    return {
        "metadata": {"name": app},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": app},
            "minReplicas": least,
            "maxReplicas": most,
            "metrics": [{"type": "Resource", "resource": metric}],
            "behavior": {
                "scaleUp": {
                    "stabilizationWindowSeconds": 0,
                    "selectPolicy": "Max",
                    "policies": [doubled, four],
                },
                "scaleDown": {
                    "stabilizationWindowSeconds": round(_HPA_WINDOW_S / speed),
                    "policies": [doubled],
                },
            },
        },
    }


def metrics_service(port: int) -> dict[str, Any]:
    """The aggregator refuses Endpoints on loopback, so the Service is a name."""
    return {
        "metadata": {"name": "metrics"},
        "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]},
    }


def metrics_api(port: int) -> dict[str, Any]:
    """Registers the player's server as metrics.k8s.io."""
    return {
        "metadata": {"name": "v1beta1.metrics.k8s.io"},
        "spec": {
            "group": "metrics.k8s.io",
            "version": "v1beta1",
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "insecureSkipTLSVerify": True,
            "service": {"name": "metrics", "namespace": NAMESPACE, "port": port},
        },
    }
