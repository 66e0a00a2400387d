"""metrics.k8s.io for the HPA controller: CPU of pods, as late and as noisy as metrics-server's."""

import ssl
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from services.devcluster.processes import HOST
from services.lab.world.kubelets import PodSeen
from services.lab.world.manifests import METRICS, NAMESPACE

_WINDOW_S: Final = 30.0
_SELECTOR: Final = "app="


class MetricsApi:
    """An aggregated API server with one resource."""

    def __init__(self, tls: Path, port: int, lag_s: float, speed: float) -> None:
        self._tls, self._port = tls, port
        self._age = timedelta(seconds=lag_s / speed)
        self._window = f"{max(1, round(_WINDOW_S / speed))}s"
        self._items: dict[str, list[dict[str, Any]]] = {}
        self._runner: web.AppRunner | None = None

    def show(self, pods: list[PodSeen], cores: Mapping[str, float]) -> None:
        """Answer with these from now on: `cores` of each pod by app; others are missing."""
        at = (datetime.now(UTC) - self._age).strftime("%Y-%m-%dT%H:%M:%SZ")
        items: dict[str, list[dict[str, Any]]] = {}
        for pod in pods:
            if pod.is_ready and not pod.is_leaving and pod.app in cores:
                cpu = f"{round(1e9 * cores[pod.app])}n"
                usage = [{"name": "app", "usage": {"cpu": cpu, "memory": "0"}}]
                meta = {"name": pod.name, "namespace": NAMESPACE, "labels": {"app": pod.app}}
                items.setdefault(pod.app, []).append(
                    {"metadata": meta, "timestamp": at, "window": self._window, "containers": usage}
                )
        self._items = items

    async def start(self) -> None:
        """Listen."""
        app = web.Application()
        app.router.add_get(METRICS, _resources)
        app.router.add_get(f"{METRICS}/namespaces/{{namespace}}/pods", self._pods)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._tls / "server.crt", self._tls / "server.key")
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, HOST, self._port, ssl_context=context).start()

    async def close(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _pods(self, request: web.Request) -> web.Response:
        # The HPA controller asks with the selector of the workload, which names one app here.
        app = request.query.get("labelSelector", "").removeprefix(_SELECTOR)
        found = {
            "kind": "PodMetricsList",
            "apiVersion": "metrics.k8s.io/v1beta1",
            "metadata": {},
            "items": self._items.get(app, []),
        }
        return web.json_response(found)


async def _resources(_: web.Request) -> web.Response:
    pods = {"name": "pods", "singularName": "", "namespaced": True, "kind": "PodMetrics"}
    found = {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": "metrics.k8s.io/v1beta1",
        "resources": [{**pods, "verbs": ["get", "list"]}],
    }
    return web.json_response(found)
