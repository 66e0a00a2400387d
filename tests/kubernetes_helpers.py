"""Workloads for the tests of the Kubernetes edges, and an API server that is played in memory.

The played server has the rules of the real one that the target relies on. `test_targets.py` runs
one suite on both, so a rule that the played server gets wrong fails there.
"""

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any, Final

from aiohttp import web

from services._kit.kubernetes.adoption import DOMAIN, MANAGED
from services._kit.kubernetes.client import KubernetesApi
from services._kit.kubernetes.credentials import Access, Token

NAMESPACE: Final = "shop"
Handle = Callable[[web.Request], Awaitable[web.StreamResponse]]


def deployment(
    name: str, replicas: int = 4, *, domain: str = "payments", managed: bool = True
) -> dict[str, Any]:
    """The manifest of a Deployment whose pods ask for 250 millicores and 512 MiB."""
    requests = {"cpu": "250m", "memory": "512Mi"}
    container = {"name": "app", "image": "app", "resources": {"requests": requests}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": {DOMAIN: domain},
            "annotations": {MANAGED: "true"} if managed else {},
        },
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [container]},
            },
        },
    }


def autoscaler(name: str, target: str) -> dict[str, Any]:
    """The manifest of a HorizontalPodAutoscaler."""
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": target}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"scaleTargetRef": reference, "minReplicas": 1, "maxReplicas": 9},
    }


def api_of(server: str, token: str, tls: ssl.SSLContext | None = None) -> KubernetesApi:
    """A client that waits for at most 2 s and sends as fast as it can."""
    return KubernetesApi(Access(server.rstrip("/"), Token(token), tls), 2.0, 1000.0)


class PlayedServer:
    """Deployments, autoscalers and pods in memory, with the rules of `/scale`."""

    def __init__(self) -> None:
        self.deployments: dict[str, dict[str, Any]] = {}
        self.autoscalers: dict[str, dict[str, Any]] = {}
        self.pods: list[dict[str, Any]] = []
        self.patched: list[tuple[str, str]] = []
        """Audit-ID and name of each patch that was made."""
        self.tried: list[str] = []
        """Names of dry runs that would have been made."""
        self.faults: list[Callable[[], web.StreamResponse | None]] = []
        """One is taken for each patch; None lets it be made and loses the answer."""
        self.before_patch: list[Callable[[], None]] = []
        """What others do between our reading and our patch; one is taken for each patch."""
        self.events: list[dict[str, Any]] = []
        self._version = 0

    def create(self, manifest: dict[str, Any]) -> None:
        """As `kubectl create` does."""
        made = deepcopy(manifest)
        meta = made["metadata"]
        meta |= {"uid": f"uid-{self._next()}", "resourceVersion": str(self._version)}
        owned: dict[str, Any] = {
            "f:metadata": {"f:annotations": {f"f:{MANAGED}": {}}},
            "f:spec": {},
        }
        if made["kind"] == "Deployment":
            owned["f:spec"] = {"f:replicas": {}}
            self.deployments[meta["name"]] = made
        else:
            self.autoscalers[meta["name"]] = made
        meta["managedFields"] = [
            {
                "manager": "kubectl-create",
                "operation": "Update",
                "time": _stamp(),
                "fieldsV1": owned,
            }
        ]

    def replicas(self, name: str) -> int:
        """What is stored."""
        return int(self.deployments[name]["spec"]["replicas"])

    def touch(self, name: str) -> None:
        """A status update: another version, and nothing that we decide on."""
        self.deployments[name]["metadata"]["resourceVersion"] = str(self._next())

    def scale(self, name: str, replicas: int, manager: str) -> None:
        """Another writer through `/scale`."""
        found = self.deployments[name]
        if found["spec"]["replicas"] == replicas:
            return
        found["spec"]["replicas"] = replicas
        meta = found["metadata"]
        meta["resourceVersion"] = str(self._next())
        for one in meta["managedFields"]:
            one["fieldsV1"]["f:spec"].pop("f:replicas", None)
        kept = [one for one in meta["managedFields"] if any(one["fieldsV1"].values())]
        meta["managedFields"] = [
            *kept,
            {
                "manager": manager,
                "operation": "Update",
                "subresource": "scale",
                "fieldsV1": {"f:spec": {"f:replicas": {}}},
            },
        ]

    def application(self) -> web.Application:
        """The server over HTTP."""
        app = web.Application()
        app.router.add_get("/apis/apps/v1/deployments", self._list)
        app.router.add_get("/apis/apps/v1/statefulsets", _nothing)
        app.router.add_get("/apis/autoscaling/v2/horizontalpodautoscalers", self._list_autoscalers)
        app.router.add_get("/apis/keda.sh/v1alpha1/scaledobjects", _not_served)
        app.router.add_get("/api/v1/pods", self._list_pods)
        one = "/apis/apps/v1/namespaces/{namespace}/deployments/{name}"
        app.router.add_get(one, self._get)
        app.router.add_patch(f"{one}/scale", self._patch)
        app.router.add_post("/apis/events.k8s.io/v1/namespaces/{namespace}/events", self._note)
        return app

    def _next(self) -> int:
        self._version += 1
        return self._version

    async def _list(self, request: web.Request) -> web.Response:
        wanted = request.query.get("labelSelector", "").partition("=")[2]
        found = [
            one
            for one in self.deployments.values()
            if not wanted or one["metadata"]["labels"].get(DOMAIN) == wanted
        ]
        return _listed(found)

    async def _list_autoscalers(self, _: web.Request) -> web.Response:
        return _listed(list(self.autoscalers.values()))

    async def _list_pods(self, _: web.Request) -> web.Response:
        return _listed(self.pods)

    async def _get(self, request: web.Request) -> web.Response:
        found = self.deployments.get(request.match_info["name"])
        return _failed(404, "not found") if found is None else web.json_response(found)

    async def _note(self, request: web.Request) -> web.Response:
        event = await request.json()
        if event["metadata"]["name"] in {one["metadata"]["name"] for one in self.events}:
            return _failed(409, "exists")
        self.events.append(event)
        return web.json_response(event, status=201)

    async def _patch(self, request: web.Request) -> web.StreamResponse:
        name, body = request.match_info["name"], await request.json()
        if self.before_patch:
            self.before_patch.pop(0)()
        fault = self.faults.pop(0) if self.faults else None
        refusal = fault() if fault is not None else None
        if refusal is not None:
            return refusal
        found = self.deployments.get(name)
        if found is None:
            return _failed(404, "not found")
        meta = found["metadata"]
        for field, value in body["metadata"].items():
            if meta[field] != value:
                return _failed(409, f"{field} differs")
        if request.query.get("dryRun") == "All":
            self.tried.append(name)
            return web.json_response({"metadata": {"name": name}, "spec": body["spec"]})
        self.scale(name, body["spec"]["replicas"], request.query["fieldManager"])
        self.patched.append((request.headers["Audit-ID"], name))
        if fault is not None:
            assert request.transport is not None
            request.transport.close()
        spec = {"replicas": found["spec"]["replicas"]}
        return web.json_response({"metadata": {"name": name}, "spec": spec})


def refusing(status: int, message: str = "no") -> Callable[[], web.StreamResponse]:
    """A fault: the server answers so, and makes nothing."""
    return lambda: _failed(status, message)


def losing_the_answer() -> None:
    """A fault: the patch is made, and its answer is lost."""


@contextmanager
def running_loop() -> Iterator[Callable[[Awaitable[Any]], Any]]:
    """A loop that outlives single calls, as clients keep their connections."""
    with asyncio.Runner() as runner:

        def run(awaitable: Awaitable[Any]) -> Any:
            async def wait() -> Any:
                return await awaitable

            return runner.run(wait())

        try:
            yield run
        finally:
            # TLS connections end a moment after their session is closed.
            runner.run(asyncio.sleep(0.25))


async def _nothing(_: web.Request) -> web.Response:
    return _listed([])


async def _not_served(_: web.Request) -> web.Response:
    return _failed(404, "the server could not find the requested resource")


def _listed(items: list[dict[str, Any]]) -> web.Response:
    return web.json_response({"metadata": {"resourceVersion": "1"}, "items": items})


def _failed(status: int, message: str) -> web.Response:
    body = {"kind": "Status", "status": "Failure", "message": message, "code": status}
    return web.Response(status=status, text=json.dumps(body), content_type="application/json")


def _stamp() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
