"""Room on a real API server, held with the account of the provisioner, which may do no more."""

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest

from services._kit.kubernetes.client import KubernetesApi, encoded
from services.lab.controlplane import Lab, kubeconfig
from tests.integration.lab_helpers import Cluster, Kubectl
from tests.kubernetes_helpers import running_loop
from tests.room_suite import Held, RoomSuite

_ACCOUNT: Final = "/api/v1/namespaces/hirl/serviceaccounts/provisioner/token"
_BUFFERS: Final = "tests/integration/capacitybuffers.yaml"
_NUMBERS: Final = count()


class RealRooms:
    """The lab's API server with the manifests applied."""

    namespace = "hirl-room"

    def __init__(self, cluster: Cluster, account: Path) -> None:
        self.cluster, self.run, self._account = cluster, cluster.run, account

    def api(self) -> KubernetesApi:
        return self.cluster.client(self._account)

    def create(self, path: str, body: dict[str, Any]) -> None:
        self.cluster.post(path, body)

    def stored(self, path: str) -> dict[str, Any] | None:
        found = self.run(self.cluster.api.get(path, dict[str, Any]))
        return None if found is None else dict(found)

    def replace_replicas(self, path: str, replicas: int) -> None:
        assert self.cluster.patch(path, {"spec": {"replicas": replicas}}) == 200


@pytest.fixture(scope="module")
def place(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealRooms]:
    kubectl = Kubectl(lab.kubeconfig)
    for words in (["-k", "infra/k8s/room"], ["-k", "infra/k8s/overlays/kubernetes"]):
        kubectl("apply", *words)
    kubectl("apply", "--server-side", "-f", _BUFFERS)
    kubectl("wait", "--for=condition=Established", "crd/capacitybuffers.autoscaling.x-k8s.io")
    with running_loop() as run:
        cluster = Cluster(lab, run, "room-tests")
        token = cluster.post(_ACCOUNT, {"spec": {}})["status"]["token"]
        account = kubeconfig(lab, token, tmp_path_factory.mktemp("account") / "config")
        yield RealRooms(cluster, account)
        cluster.close()


class TestReal(RoomSuite):
    @pytest.fixture
    def held(self, place: RealRooms) -> Iterator[Callable[..., Held]]:
        made: list[Held] = []

        def make(**settings: Any) -> Held:
            # A pool of its own: nodes and pods of other tests stay on the server.
            made.append(Held(place, f"pool-{next(_NUMBERS)}", **settings))
            return made[-1]

        yield make
        for one in made:
            one.close()


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PATCH", "/apis/apps/v1/namespaces/hirl/deployments/actuator"),
        ("PATCH", "/apis/apps/v1/namespaces/default/deployments/web"),
        ("DELETE", "/apis/apps/v1/namespaces/hirl-room/deployments/room-a"),
        ("POST", "/api/v1/namespaces/hirl-room/pods"),
        ("PATCH", "/api/v1/nodes/any"),
        ("DELETE", "/api/v1/nodes/any"),
        ("GET", "/api/v1/namespaces/hirl-room/secrets"),
        ("PATCH", "/apis/scheduling.k8s.io/v1/priorityclasses/hirl-placeholder"),
        ("PATCH", "/apis/karpenter.sh/v1/nodepools/any/scale"),
    ],
)
def test_the_account_can_do_nothing_else(place: RealRooms, method: str, path: str) -> None:
    api = place.api()
    headers = {
        "Content-Type": "application/merge-patch+json" if method == "PATCH" else "application/json"
    }
    answer = place.run(api.request(method, path, None, encoded({}), headers))
    place.run(api.close())
    assert answer.status == 403


def test_a_placeholder_meets_the_restricted_standard(place: RealRooms) -> None:
    pool = Held(place, f"pool-{next(_NUMBERS)}")
    pool.hold(1)
    found = pool.stored()
    assert found is not None
    template = found["spec"]["template"]
    pod = {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "room", "labels": template["metadata"]["labels"]},
        "spec": template["spec"],
    }  # fmt: skip
    path = f"/api/v1/namespaces/{place.namespace}/pods"
    # The namespace enforces it: another pod would be answered 403.
    place.create(f"{path}?dryRun=All", pod)
    pool.close()
