"""What the actuator's account may do on a real API server, and that everything else is refused."""

import asyncio
import json
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from services._kit.kubernetes.client import Answer, KubernetesApi, encoded
from services.actuator.kubernetes import KubernetesTarget
from services.lab.controlplane import Lab, kubeconfig
from tests.integration.lab_helpers import Cluster, Kubectl, within
from tests.kubernetes_helpers import deployment, running_loop
from tests.target_suite import answer, present, raising

_ACCOUNT = "/api/v1/namespaces/hirl/serviceaccounts/actuator/token"
_MERGE = "application/merge-patch+json"


@dataclass(frozen=True)
class Installed:
    """The overlay is applied; `kubeconfig` is that of the actuator's account."""

    cluster: Cluster
    kubeconfig: Path
    api: KubernetesApi
    domain: str = "bounded"
    app: str = "bounded/web"

    def run(self, awaitable: Awaitable[Any]) -> Any:
        return self.cluster.run(awaitable)

    def target(self) -> KubernetesTarget:
        return self.cluster.target(self.kubeconfig)

    def made(self) -> int:
        return self.cluster.changes("web")

    def request(self, method: str, path: str, body: Any = None, manager: str = "hirl:x") -> Answer:
        query = {} if method in {"GET", "DELETE"} else {"fieldManager": manager}
        headers = {"Content-Type": _MERGE if method == "PATCH" else "application/json"}
        sent = encoded(body) if body is not None else b""
        found: Answer = self.run(self.api.request(method, path, query, sent, headers))
        return found

    def scale(self, replicas: int, manager: str) -> Answer:
        path = f"{self.cluster.path('web')}/scale"
        return self.request("PATCH", path, {"spec": {"replicas": replicas}}, manager)

    def set_replicas(self, replicas: int) -> None:
        """As the administrator, whom our policy does not bind."""
        scale = f"{self.cluster.path('web')}/scale"
        assert self.cluster.patch(scale, {"spec": {"replicas": replicas}}) == 200


@pytest.fixture(scope="module")
def installed(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    Kubectl(lab.kubeconfig)("apply", "-k", "infra/k8s/overlays/kubernetes")
    with running_loop() as run:
        cluster = Cluster(lab, run, "bounded")
        cluster.create(deployment("web", domain="bounded"))
        token = cluster.post(_ACCOUNT, {"spec": {}})["status"]["token"]
        path = kubeconfig(lab, token, tmp_path_factory.mktemp("account") / "config")
        made = Installed(cluster, path, cluster.client(path))
        # The policy is enforced a moment after it was stored.
        assert within(30, lambda: made.scale(4, "nobody").status == 422)
        yield made
        run(made.api.close())
        cluster.close()


def test_the_actuators_account_can_do_its_work(installed: Installed) -> None:
    target = installed.target()
    before = installed.made()
    write = raising(installed, present(installed, target))
    assert answer(installed, target, write) == "applied"
    assert installed.made() == before + 1


def test_describe_says_what_was_done(installed: Installed) -> None:
    target = installed.target()
    now = present(installed, target, 1)
    assert answer(installed, target, raising(installed, now, 1)) == "applied"
    kubectl = Kubectl(installed.cluster.lab.kubeconfig)
    line = f"{now.replicas} -> {now.replicas + 1} replicas, decision bounded/1/3/heuristic/2"

    def told() -> bool:
        # The Event is stored while the loop runs.
        installed.run(asyncio.sleep(0.2))
        return line in kubectl("-n", "bounded", "describe", "deployment", "web")

    assert within(30, told)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PATCH", "/apis/apps/v1/namespaces/bounded/deployments/web", {"spec": {"paused": True}}),
        ("DELETE", "/apis/apps/v1/namespaces/bounded/deployments/web", None),
        ("POST", "/apis/apps/v1/namespaces/bounded/deployments", deployment("other")),
        ("PATCH", "/api/v1/namespaces/bounded/pods/web-1/resize", {"spec": {}}),
        ("DELETE", "/api/v1/namespaces/bounded/pods/web-1", None),
        ("POST", "/api/v1/namespaces/bounded/pods/web-1/eviction", {}),
        ("POST", "/api/v1/namespaces/bounded/pods", {}),
        ("GET", "/api/v1/namespaces/bounded/secrets", None),
        ("GET", "/api/v1/namespaces/hirl/configmaps", None),
        ("PATCH", "/api/v1/nodes/any", {"spec": {"unschedulable": True}}),
        ("GET", "/api/v1/nodes", None),
        ("POST", "/api/v1/namespaces/hirl/serviceaccounts/actuator/token", {"spec": {}}),
        ("PATCH", "/apis/rbac.authorization.k8s.io/v1/clusterroles/hirl-actuator", {"rules": []}),
        (
            "DELETE",
            "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/hirl-actuator",
            None,
        ),
        ("PATCH", "/apis/apps/v1/namespaces/bounded/replicasets/web-1/scale", {"spec": {}}),
        ("POST", "/apis/autoscaling/v2/namespaces/bounded/horizontalpodautoscalers", {}),
    ],
)
def test_everything_else_is_refused(
    installed: Installed, method: str, path: str, body: Any
) -> None:
    assert installed.request(method, path, body).status == 403


@pytest.mark.parametrize(
    ("before", "after", "manager", "words"),
    [
        (4, 27, "hirl:x", "more than fourfold"),
        (12, 2, "hirl:x", "less than a quarter"),
        (4, 0, "hirl:x", "no workload is scaled to 0"),
        (0, 3, "hirl:x", "stopped by its owner"),
        (4, 5, "someone", "without its decision"),
    ],
)
def test_the_second_lock_holds_whatever_our_code_does(
    installed: Installed, before: int, after: int, manager: str, words: str
) -> None:
    installed.set_replicas(before)
    found = installed.scale(after, manager)
    assert found.status == 422
    assert words in found.message
    assert installed.cluster.stored("web")["spec"]["replicas"] == before


def test_a_denied_write_is_refused_with_the_policys_words(installed: Installed) -> None:
    installed.set_replicas(4)
    target = installed.target()
    write = raising(installed, present(installed, target), by=30)
    found = installed.run(target.carry_out(write))
    assert found.answers == {installed.app: "refused"}
    assert "more than fourfold" in found.reasons[installed.app]


@pytest.mark.parametrize(
    "overlay",
    ["base", "overlays/kubernetes", "overlays/simulated", "crds", "adoption", "topics"],
)
def test_the_api_server_admits_every_manifest(installed: Installed, overlay: str) -> None:
    kubectl = Kubectl(installed.cluster.lab.kubeconfig)
    said = kubectl("apply", "--dry-run=server", "-k", f"infra/k8s/{overlay}")
    # Pods that the restricted standard would not admit are warnings of their Deployments.
    assert "would violate PodSecurity" not in said


def test_the_pods_pass_the_restricted_standard(installed: Installed) -> None:
    kubectl = Kubectl(installed.cluster.lab.kubeconfig)
    for name in ("actuator", "collector"):
        found = json.loads(kubectl("-n", "hirl", "get", "deployment", name, "-o", "json"))
        template = found["spec"]["template"]
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{name}-trial"},
            "spec": template["spec"],
        }
        path = "/api/v1/namespaces/hirl/pods?dryRun=All"
        assert installed.cluster.post(path, pod)["metadata"]["name"] == f"{name}-trial"
