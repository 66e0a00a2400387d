"""The whole provisioner with CapacityBuffers under a real Karpenter, whose KWOK provider makes the
nodes: the most urgent requests of all pools first, and what is no longer valid goes again.

Karpenter listens on all interfaces, so this runs in a network namespace of its own, by
`make lab-nodes`.
Nobody runs the nodes; the tests say that they are ready.
"""

import json
import logging
import os
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from models.inputs.errors import InputError
from schemas.capacity_requested import CapacityRequested, NodesByUrgency
from schemas.pool_observed import PoolObserved
from services._kit.kubernetes.client import encoded
from services._kit.kubernetes.objects import Node
from services.devcluster.connect import Running
from services.lab import build, controlplane
from services.lab.controlplane import Lab, kubeconfig
from tests.integration.lab_helpers import Cluster, Kubectl
from tests.integration.service_helpers import Bus, ServiceProcess
from tests.kubernetes_helpers import running_loop
from tests.service_helpers import CLUSTER, time_of

log = logging.getLogger(__name__)

_ALONE: Final = "HIRL_LAB_ALONE"
"""Set by `make lab-nodes`: nobody else can reach what listens here."""
_LABEL: Final = "karpenter.sh/nodepool"
_FIRST, _SECOND = sorted(CLUSTER.pool_names)[:2]
_ACCOUNT: Final = "/api/v1/namespaces/hirl/serviceaccounts/provisioner/token"
_STATUS: Final = {"Content-Type": "application/strategic-merge-patch+json"}
_MOST_S: Final = 240.0
_VALID: Final = 18
_OFFERED: Final = {"karpenter.sh/capacity-type": "on-demand", "topology.kubernetes.io/zone": "a"}
_NODE: Final = {
    "name": "c8",
    "offerings": [
        {
            "Price": 0.34,
            "Available": True,
            "Requirements": [
                {"key": key, "operator": "In", "values": [value]} for key, value in _OFFERED.items()
            ],
        }
    ],
    "architecture": "amd64",
    "operatingSystems": ["linux"],
    "resources": {"cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "20Gi"},
}


def node_pool(name: str) -> dict[str, Any]:
    """A pool that lets go of empty nodes at once."""
    reference = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "lab"}
    capacity = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "template": {"spec": {"requirements": [capacity], "nodeClassRef": reference}},
            "limits": {"cpu": "400"},
            "disruption": {
                "consolidationPolicy": "WhenEmpty",
                "consolidateAfter": "5s",
                "budgets": [{"nodes": "100%"}],
            },
        },
    }


class Cloud:
    """The nodes that Karpenter makes, and who says that they are ready."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def until(self, expected: dict[str, int]) -> float:
        """Seconds until each pool has as many ready nodes."""
        began = time.monotonic()
        while self._ready() != Counter(expected):
            took = time.monotonic() - began
            assert took < _MOST_S, f"expected {expected}, got {self._ready()}"
            time.sleep(0.5)
        return time.monotonic() - began

    def _ready(self) -> Counter[str]:
        """Ready nodes by pool, of which new ones become so at once."""
        api = self._cluster.api
        found = Counter[str]()
        for node in self._cluster.run(api.list("/api/v1/nodes", Node)).items:
            if any(one.type == "Ready" and one.status == "True" for one in node.status.conditions):
                if not node.metadata.deletion_timestamp:
                    found[node.metadata.labels.get(_LABEL, "")] += 1
                continue
            ready = {"type": "Ready", "status": "True", "reason": "Lab"}
            body = encoded({"status": {"conditions": [ready], "phase": "Running"}})
            path = f"/api/v1/nodes/{node.metadata.name}/status"
            self._cluster.run(api.request("PATCH", path, None, body, _STATUS))
        return found


@pytest.fixture(scope="module")
def karpenter(
    workplace: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[], Lab]]:
    """A lab of its own with Karpenter, started when it is called."""
    if os.environ.get(_ALONE) != "1":
        pytest.skip(f"Karpenter listens on all interfaces: {_ALONE}=1 says that nobody is there")
    try:
        program = build.karpenter()
    except InputError as error:
        pytest.skip(str(error))
    home, folder = workplace / "karpenter", tmp_path_factory.mktemp("karpenter")
    lab = controlplane.start(home)
    kubectl = Kubectl(lab.kubeconfig)
    for words in (["-k", "infra/k8s/namespace"], ["-k", "infra/k8s/room"]):
        kubectl("apply", *words)
    kubectl("apply", "-k", "infra/k8s/overlays/kubernetes")
    kubectl("apply", "--server-side", "-f", str(program.parent / "crds"))
    kubectl("wait", "--for=condition=Established", "crd", "--all")
    (folder / "types.json").write_text(json.dumps([_NODE]))
    nodes: dict[str, Any] = {
        "apiVersion": "karpenter.kwok.sh/v1alpha1",
        "kind": "KWOKNodeClass",
        "metadata": {"name": "lab"},
        "spec": {"nodeRegistrationDelay": "3s"},
    }
    items = [nodes, node_pool(_FIRST), node_pool(_SECOND)]
    manifests = {"apiVersion": "v1", "kind": "List", "items": items}
    (folder / "pools.json").write_text(json.dumps(manifests))
    kubectl("apply", "-f", str(folder / "pools.json"))
    with (folder / "log").open("wb") as output:
        child = subprocess.Popen(
            [str(program)], stdout=output, stderr=output,
            env={
                **os.environ, "KUBECONFIG": str(lab.kubeconfig), "DISABLE_LEADER_ELECTION": "true",
                "METRICS_PORT": "18080", "HEALTH_PROBE_PORT": "18081",
                "FEATURE_GATES": "CapacityBuffer=true", "SYSTEM_NAMESPACE": "default",
                "BATCH_MAX_DURATION": "10s", "BATCH_IDLE_DURATION": "1s",
                "INSTANCE_TYPES_FILE_PATH": str(folder / "types.json"),
            },
        )  # fmt: skip
    try:
        yield lambda: lab
        assert child.poll() is None, (folder / "log").read_text()[-2000:]
    finally:
        child.kill()
        child.wait()
        controlplane.stop(home, wipe=True)


def observed(tick: int, pool: str) -> PoolObserved:
    return PoolObserved(
        tick=tick, time=time_of(tick), pool=pool, ready=0, booting=0, quota=50,
        free_cores=0.0, free_memory_gib=0.0, node_cores=7.5, node_memory_gib=28.0,
    )  # fmt: skip


def requested(tick: int, pool: str, critical: int, spare: int) -> CapacityRequested:
    return CapacityRequested(
        tick=tick, time=time_of(tick), pool=pool, epoch=tick, valid_until_tick=tick + _VALID,
        nodes=NodesByUrgency(critical=critical, spare=spare), decision_id=f"{pool}/{tick}",
    )  # fmt: skip


def test_buffers_become_nodes_by_urgency_and_go_after_their_validity(
    karpenter: Callable[[], Lab], start_kafka: Callable[..., Running], tmp_path: Path
) -> None:
    lab, kafka = karpenter(), start_kafka("karpenter")
    with running_loop() as run:
        cluster = Cluster(lab, run, "karpenter-test")
        token = cluster.post(_ACCOUNT, {"spec": {}})["status"]["token"]
        settings = {
            "HIRL_PROVISIONER_KUBECONFIG": str(kubeconfig(lab, token, tmp_path / "config")),
            "HIRL_PROVISIONER_MODE": "auto",
            "HIRL_PROVISIONER_ROOM": "buffers",
            "HIRL_PROVISIONER_NODES_PER_MINUTE": "6",
        }
        service = ServiceProcess("provisioner", kafka, tmp_path / "log", settings)
        bus, cloud = Bus(kafka), Cloud(cluster)
        try:
            bus.publish(observed(1, _FIRST), observed(1, _SECOND))
            bus.flush()
            service.start()
            time.sleep(1.0)
            # Nine are asked for and six may come: the urgent ones of both pools, then one more.
            bus.publish(requested(1, _FIRST, 2, 4), requested(1, _SECOND, 3, 0))
            came = cloud.until({_FIRST: 3, _SECOND: 3})
            # A service that is killed leaves the room as it is, and the next one holds it.
            service.kill()
            bus.publish(requested(2, _SECOND, 5, 0))
            grew = cloud.until({_FIRST: 2, _SECOND: 4})
            service.stop()
            bus.publish(observed(3 + _VALID, _FIRST), observed(3 + _VALID, _SECOND))
            service.start()
            went = cloud.until({})
        finally:
            service.stop()
            bus.close()
            cluster.close()
    log.info("6 nodes after %.0f s, moved after %.0f s, all gone after %.0f s", came, grew, went)
