"""A real API server for tests: Deployments on it, accounts with rights, and its audit log."""

import json
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from services._kit.kubernetes.client import KubernetesApi, encoded
from services._kit.kubernetes.credentials import access_of
from services.actuator.kubernetes import KubernetesTarget
from services.lab.controlplane import Lab
from tests.kubernetes_helpers import NAMESPACE

ROOT = Path(__file__).parents[2]
Run = Callable[[Awaitable[Any]], Any]


class AuditRecord(msgspec.Struct, frozen=True, rename="camel"):
    """One line of the audit log."""

    audit_id: str = msgspec.field(name="auditID")
    stage: str
    request_uri: str = msgspec.field(name="requestURI")
    verb: str
    stage_timestamp: str = ""
    object_ref: dict[str, Any] = {}
    response_status: dict[str, Any] = {}
    user: dict[str, Any] = {}


class Cluster:
    """The lab's API server, as its administrator."""

    def __init__(self, lab: Lab, run: Run, namespace: str = NAMESPACE) -> None:
        self.lab, self.run, self.namespace = lab, run, namespace
        self.api = self.client()
        self._targets: list[KubernetesTarget] = []
        self._apis: list[KubernetesApi] = []
        self.post("/api/v1/namespaces", {"metadata": {"name": namespace}})

    def client(self, kubeconfig: Path | None = None, calls: float = 1000.0) -> KubernetesApi:
        return KubernetesApi(access_of(str(kubeconfig or self.lab.kubeconfig)), 5.0, calls)

    def target(self, kubeconfig: Path | None = None, timeout_s: float = 5.0) -> KubernetesTarget:
        """A target in a new process.

        It waits long: after a request without an answer in time, a change that was made is found
        again as a repeat, which is right, and not what a test of an idle server expects.
        """
        access = access_of(str(kubeconfig or self.lab.kubeconfig))
        made = KubernetesTarget(KubernetesApi(access, timeout_s, 1000.0), timeout_s, 30.0, 8)
        self._targets.append(made)
        return made

    def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        headers = {"Content-Type": "application/json"}
        found = self.run(self.api.request("POST", path, None, encoded(body), headers))
        assert found.status in {200, 201, 409}, found.message
        answer: dict[str, Any] = json.loads(found.body)
        return answer

    def create(self, manifest: Mapping[str, Any]) -> None:
        """A Deployment or an autoscaler, in this namespace."""
        placed = {**manifest, "metadata": {**manifest["metadata"], "namespace": self.namespace}}
        group, plural = {
            "Deployment": ("apps/v1", "deployments"),
            "HorizontalPodAutoscaler": ("autoscaling/v2", "horizontalpodautoscalers"),
        }[manifest["kind"]]
        self.post(f"/apis/{group}/namespaces/{self.namespace}/{plural}", placed)

    def patch(self, path: str, body: Mapping[str, Any], manager: str = "kubectl") -> int:
        headers = {"Content-Type": "application/merge-patch+json"}
        query = {"fieldManager": manager}
        status = self.run(self.api.request("PATCH", path, query, encoded(body), headers)).status
        return int(status)

    def path(self, name: str) -> str:
        return f"/apis/apps/v1/namespaces/{self.namespace}/deployments/{name}"

    def stored(self, name: str) -> dict[str, Any]:
        found = self.run(self.api.request("GET", self.path(name)))
        assert found.status == 200, found.message
        answer: dict[str, Any] = json.loads(found.body)
        return answer

    def changes(self, name: str) -> int:
        """How often a Deployment's spec or annotations changed: the API server counts it."""
        return int(self.stored(name)["metadata"]["generation"]) - 1

    def audit(self) -> Iterator[AuditRecord]:
        """Writes of this namespace."""
        for line in self.lab.audit_log.read_bytes().splitlines():
            record = msgspec.json.decode(line, type=AuditRecord)
            if record.object_ref.get("namespace") == self.namespace:
                yield record

    def close(self) -> None:
        path = f"/api/v1/namespaces/{self.namespace}"
        self.run(self.api.request("DELETE", path))
        self.run(self.api.close())
        for one in self._targets:
            self.run(one.close())


class Kubectl(NamedTuple):
    """The command line that users have."""

    kubeconfig: Path

    def __call__(self, *words: str, check: bool = True) -> str:
        command = ["kubectl", f"--kubeconfig={self.kubeconfig}", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
        assert done.returncode == 0 or not check, done.stderr
        return done.stdout + done.stderr


def within(seconds: float, condition: Callable[[], bool]) -> bool:
    """Whether something comes true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
