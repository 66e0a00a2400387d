"""The collector on a real API server: what it sees is right, and what it cannot see is missing.

`HIRL_LAB_PODS=10000` measures a large cluster: time, CPU, memory and bytes.
"""

import asyncio
import logging
import os
import resource
import time
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest

from schemas.app_declared import AppDeclared
from schemas.metrics_sampled import PODS, MetricsSampled
from services._kit.clock import SystemClock
from services._kit.kubernetes.client import encoded
from services.collector.kubernetes import ClusterView
from services.collector.prometheus import PrometheusSource, Timing
from services.collector.prometheus_api import Prometheus
from services.collector.queries import load_queries
from services.collector.workloads import PoolTerms
from services.lab import controlplane
from services.lab.controlplane import API_SERVER, Lab, kubeconfig
from tests.integration.lab_helpers import Cluster, Kubectl, within
from tests.kubernetes_helpers import deployment, running_loop

log = logging.getLogger(__name__)

_ACCOUNT: Final = "/api/v1/namespaces/hirl/serviceaccounts/collector/token"
_COUNT: Final = int(os.environ.get("HIRL_LAB_PODS", "60"))
_TTL_S: Final = 12.0
"""Longer than a watch lasts."""
_POOL: Final = "pool"
_NUMBERS: Final = count()


class Seen:
    """A cluster, and the view of it that the collector's account has."""

    def __init__(self, cluster: Cluster, account: Path) -> None:
        self.cluster, self.run = cluster, cluster.run
        self.errors: Counter[str] = Counter()
        terms = {cluster.namespace: PoolTerms(quota=9, price_per_hour=0.5)}
        self.view = ClusterView(
            cluster.client(account), SystemClock(), self.failed, _POOL, terms, _TTL_S
        )

    def failed(self, question: str) -> None:
        self.errors[question] += 1

    def value(self, column: str, app: str) -> float | None:
        found = self.run(self.view.samples()).get(column, {})
        return found.get(("", f"{self.cluster.namespace}/{app}"))  # type: ignore[no-any-return]

    def wait(self, column: str, app: str, value: float | None) -> bool:
        """Whether a value comes to be seen; watches go on meanwhile."""
        return within(30, lambda: self.breathe() or self.value(column, app) == value)

    def breathe(self) -> bool:
        self.run(asyncio.sleep(0.05))
        return False

    def add_pod(self, app: str, number: int, node: str, *, ready: bool) -> None:
        namespace = self.cluster.namespace
        owner = {
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{app}-7f9c", "uid": "u",
            "controller": True,
        }  # fmt: skip
        name = f"{app}-7f9c-{number}"
        requests = {"cpu": "250m", "memory": "512Mi"}
        container = {"name": "app", "image": "app", "resources": {"requests": requests}}
        self.cluster.post(
            f"/api/v1/namespaces/{namespace}/pods",
            {
                "metadata": {
                    "name": name,
                    "labels": {"pod-template-hash": "7f9c"},
                    "ownerReferences": [owner],
                },
                "spec": {"containers": [container], **({"nodeName": node} if node else {})},
            },
        )
        if ready:
            condition = {"type": "Ready", "status": "True"}
            status = {"status": {"phase": "Running", "conditions": [condition]}}
            path = f"/api/v1/namespaces/{namespace}/pods/{name}/status"
            assert self.cluster.patch(path, status) == 200

    def add_node(self, name: str) -> None:
        meta = {"name": name, "labels": {_POOL: self.cluster.namespace}}
        self.cluster.post("/api/v1/nodes", {"metadata": meta})
        status = {
            "allocatable": {"cpu": "16", "memory": "64Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        assert self.cluster.patch(f"/api/v1/nodes/{name}/status", {"status": status}) == 200


@pytest.fixture
def seen(lab: Lab, tmp_path: Path) -> Iterator[Seen]:
    lab = controlplane.restart(Path(lab.home))
    Kubectl(lab.kubeconfig)("apply", "-k", "infra/k8s/overlays/kubernetes")
    with running_loop() as run:
        cluster = Cluster(lab, run, f"seen-{next(_NUMBERS)}")
        token = cluster.post(_ACCOUNT, {"spec": {}})["status"]["token"]
        made = Seen(cluster, kubeconfig(lab, token, tmp_path / "config"))
        cluster.create(deployment("web", domain=cluster.namespace))
        try:
            run(made.view.start())
            yield made
        finally:
            run(made.view.close())
            cluster.close()


def test_workloads_and_pods_are_seen_as_they_change(seen: Seen) -> None:
    assert seen.wait("replicas", "web", 4.0)
    seen.add_pod("web", 1, "n1", ready=True)
    seen.add_pod("web", 2, "n1", ready=False)
    seen.add_pod("web", 3, "", ready=False)
    for column in ("ready", "starting", "pending"):
        assert seen.wait(column, "web", 1.0), column
    scale = f"{seen.cluster.path('web')}/scale"
    assert seen.cluster.patch(scale, {"spec": {"replicas": 7}}) == 200
    assert seen.wait("replicas", "web", 7.0)
    # Nobody serves metrics.k8s.io here, so usage is missing and not zero.
    assert seen.value("cpu_cores", "web") is None
    assert seen.errors["usage"] > 0


def test_nodes_are_a_pool_with_what_pods_leave_of_it(seen: Seen) -> None:
    for number in (1, 2):
        seen.add_node(f"{seen.cluster.namespace}-{number}")
    seen.add_pod("web", 1, f"{seen.cluster.namespace}-1", ready=True)
    key = ("", seen.cluster.namespace)

    def pool() -> dict[str, Any]:
        seen.breathe()
        return {name: column.get(key) for name, column in seen.view.pools().items()}

    expected = {"ready": 2.0, "booting": 0.0, "free_cores": 31.75, "quota": 9.0}
    assert within(20, lambda: expected.items() <= pool().items()), pool()


def test_an_api_server_that_is_gone_leaves_columns_missing_and_comes_back(seen: Seen) -> None:
    assert seen.wait("replicas", "web", 4.0)
    controlplane.kill(seen.cluster.lab, API_SERVER)
    try:
        assert seen.wait("replicas", "web", None)
        assert seen.view.declared() is None
        assert seen.view.pools() == {}
    finally:
        controlplane.restart(Path(seen.cluster.lab.home))
    assert seen.wait("replicas", "web", 4.0)


def test_ticks_have_pods_without_prometheus_and_apps_come_and_go(seen: Seen) -> None:
    queries = load_queries().without(PODS)

    async def observe(source: PrometheusSource) -> tuple[list[AppDeclared], list[MetricsSampled]]:
        found = await source.observe(-1)
        assert found is not None
        here = seen.cluster.namespace
        declared = [e for e in found.events if isinstance(e, AppDeclared) and e.domain == here]
        sampled = [e for e in found.events if isinstance(e, MetricsSampled) and e.domain == here]
        return declared, sampled

    async def play() -> None:
        async with aiohttp.ClientSession() as session:
            nowhere = Prometheus(session, "http://127.0.0.1:1", 1.0)
            source = PrometheusSource(
                nowhere, queries, None, SystemClock(), seen.failed, Timing(1, 0.0, 0),
                cluster=seen.view,
            )  # fmt: skip
            app = f"{seen.cluster.namespace}/web"
            inventory = await source.inventory()
            assert app in {one.app for one in inventory}
            _, (batch,) = await observe(source)
            assert (batch.apps, batch.replicas, batch.rps) == ([app], [4], [None])
            await seen.cluster.api.request("DELETE", seen.cluster.path("web"))
            gone: list[AppDeclared] = []
            for _ in range(20):
                gone += (await observe(source))[0]
                if gone:
                    break
            assert [(one.app, one.removed) for one in gone] == [(app, True)]

    seen.run(play())


def test_many_pods_are_mirrored(seen: Seen) -> None:
    apps, namespace = max(1, _COUNT * 1550 // 10_000), seen.cluster.namespace

    async def fill() -> None:
        slots = asyncio.Semaphore(32)
        headers = {"Content-Type": "application/json"}

        async def post(path: str, body: dict[str, Any]) -> None:
            async with slots:
                api = seen.cluster.api
                found = await api.request("POST", path, None, encoded(body), headers)
                assert found.status == 201, found.message

        base = f"/apis/apps/v1/namespaces/{namespace}/deployments"
        manifests = [deployment(f"many-{n}", domain=namespace) for n in range(apps)]
        for one in manifests:
            one["metadata"]["namespace"] = namespace
        await asyncio.gather(*(post(base, one) for one in manifests))
        await asyncio.gather(
            *(
                post(f"/api/v1/namespaces/{namespace}/pods", _pod(f"many-{n % apps}", n))
                for n in range(_COUNT)
            )
        )

    began, cpu = time.monotonic(), time.process_time()
    seen.run(fill())
    filled = time.monotonic() - began
    assert within(120, lambda: seen.breathe() or _pods_seen(seen, apps) == _COUNT)
    followed, read = time.process_time() - cpu, seen.view.bytes_read
    fresh = Seen(seen.cluster, seen.cluster.lab.kubeconfig)
    fresh.view._usage = False
    began, cpu = time.monotonic(), time.process_time()
    fresh.run(fresh.view.start())
    listed, listed_cpu = time.monotonic() - began, time.process_time() - cpu
    cpu = time.process_time()
    assert _pods_seen(fresh, apps) == _COUNT
    tick_cpu = time.process_time() - cpu
    cpu, before = time.process_time(), fresh.view.bytes_read
    quiet = 60 if _COUNT > 1000 else 1
    fresh.run(asyncio.sleep(quiet))
    idle_cpu, idle = time.process_time() - cpu, fresh.view.bytes_read - before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    size = fresh.view.bytes_read / 1e6
    fresh.run(fresh.view.close())
    log.info(
        "%d Deployments, %d pods: created in %.0f s while followed (%.1f CPU s of this process,"
        " %.1f MB read); a new collector lists them in %.1f s (%.1f CPU s, %.1f MB), a tick costs"
        " %.2f CPU s, %d quiet seconds cost %.2f CPU s and %.3f MB; peak of the process %.0f MB",
        apps, _COUNT, filled, followed, read / 1e6, listed, listed_cpu, size, tick_cpu, quiet,
        idle_cpu,
        idle / 1e6, peak,
    )  # fmt: skip


def _pod(app: str, number: int) -> dict[str, Any]:
    owner = {
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{app}-7f9c", "uid": "u",
        "controller": True,
    }  # fmt: skip
    requests = {"cpu": "250m", "memory": "512Mi"}
    return {
        "metadata": {
            "name": f"{app}-7f9c-{number}",
            "labels": {"pod-template-hash": "7f9c"},
            "ownerReferences": [owner],
        },
        "spec": {
            "nodeName": "somewhere",
            "containers": [{"name": "app", "image": "app", "resources": {"requests": requests}}],
        },
    }


def _pods_seen(seen: Seen, apps: int) -> int:
    found = seen.run(seen.view.samples()).get("starting", {})
    names = {("", f"{seen.cluster.namespace}/many-{number}") for number in range(apps)}
    return round(sum(found[key] or 0.0 for key in names & found.keys()))
