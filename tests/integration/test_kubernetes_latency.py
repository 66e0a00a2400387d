"""From a metric to a stored change on a real API server, and what that costs the API server: by our
collector, decisions and actuator, and by the HPA controller with an HPA per Deployment.

Each app's metrics rise at a moment of its own, and the audit log says when its `/scale` was
answered. Objects, metrics and moments are the same for both. `make lab-latency` plays it with 1,550
Deployments and logs the figures; here it only has to work.
"""

import asyncio
import logging
import os
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import aiohttp
import msgspec
import numpy as np
import psutil
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from msgspec.structs import replace

from models.cluster.description import load_cluster
from models.control.parameters import Parts
from models.control.tuned import tuned_parameters
from schemas.fields import Event
from services._kit.clock import SystemClock, rfc3339
from services._kit.handler import Service
from services._kit.kubernetes.adoption import MAX_REPLICAS, MIN_REPLICAS
from services._kit.kubernetes.client import KubernetesApi, encoded
from services._kit.kubernetes.credentials import access_of
from services._kit.memory import MemoryBus
from services.actuator.decide import ActuatorHandler
from services.actuator.kubernetes import STEPS, KubernetesTarget
from services.actuator.settings import Modes, Settings
from services.aggregator.decide import AggregatorHandler
from services.collector.batches import stamp_of
from services.collector.kubernetes import ClusterView
from services.collector.prometheus import PrometheusSource, Timing
from services.collector.prometheus_api import Prometheus
from services.collector.queries import Queries, Query
from services.devcluster import processes
from services.lab import build, controlplane
from services.lab.controlplane import CONTROLLERS, Lab, kubeconfig
from services.lab.world import manifests
from services.lab.world.kubelets import PodSeen
from services.lab.world.manifests import NAMESPACE
from services.lab.world.metrics import MetricsApi
from services.soldier.decide import SoldierHandler
from tests.integration.lab_helpers import AuditRecord, Cluster, Kubectl
from tests.kubernetes_helpers import deployment, running_loop
from tests.service_helpers import CLUSTER, granted, heartbeat, pools

log = logging.getLogger(__name__)

_APPS: Final = int(os.environ.get("HIRL_LAB_APPS", "10"))
_WHOLE: Final = _APPS >= 1000
_TICK_S: Final = 10 if _WHOLE else 2
_SPEED: Final = 1.0 if _WHOLE else 10.0
"""Of the HPA controller's periods; at 1 its defaults."""
_SPREAD_S: Final = float(os.environ.get("HIRL_LAB_SPREAD", "60" if _WHOLE else "4"))
"""Time in which the metrics of all apps rise, one after the other."""
_CALM_S: Final = 120 if _WHOLE else 6
_AFTER_S: Final = 180 if _WHOLE else 20
"""Time for the last changes."""
_PODS: Final = 2
_HPA_PERCENT: Final = 60
_CALM, _HOT = 0.35, 0.95
_CORES: Final = 0.25
_COLUMNS: Final[Mapping[str, Callable[[float], float]]] = {
    "rps": lambda use: 400 * use,
    "throughput": lambda use: 400 * use,
    "errors": lambda _: 0.0,
    "latency_p50_s": lambda _: 0.02,
    "latency_p99_s": lambda _: 0.05,
    "cpu_cores": lambda use: _PODS * _CORES * use,
    "memory_gib": lambda _: 0.2 * _PODS,
    "measured_pods": lambda _: float(_PODS),
}  # fmt: skip
_DEPLOYMENTS: Final = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
_PODS_PATH: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
_HPAS: Final = f"/apis/autoscaling/v2/namespaces/{NAMESPACE}/horizontalpodautoscalers"
_ACCOUNTS: Final = "/api/v1/namespaces/hirl/serviceaccounts"
_JSON: Final = {"Content-Type": "application/json"}


@dataclass
class Traffic:
    """What every app uses, at any time."""

    apps: tuple[str, ...]
    rises_at: dict[str, float] = field(default_factory=dict)
    """By app, in seconds since 1970."""

    def rise(self) -> None:
        """From now on, one app after the other."""
        draw, now = random.Random(1), time.time()
        self.rises_at = {app: now + draw.uniform(0.0, _SPREAD_S) for app in self.apps}

    def use(self, app: str, at: float) -> float:
        return _HOT if at >= self.rises_at.get(app, float("inf")) else _CALM

    async def answer(self, request: web.Request) -> web.Response:
        """As Prometheus does; the query is the name of a column."""
        form = await request.post()
        at, column = float(str(form["time"])), _COLUMNS[str(form["query"])]
        result = [
            {
                "metric": {"namespace": NAMESPACE, "app": app},
                "value": [at, str(column(self.use(app, at)))],
            }
            for app in self.apps
        ]
        data = {"resultType": "vector", "result": result}
        return web.json_response({"status": "success", "data": data})


@dataclass(frozen=True)
class Cost:
    """What a stretch of time cost."""

    seconds: float
    api_server: float
    """Cores; likewise of etcd and of this process."""
    etcd: float
    ours: float
    requests: Counter[str]
    """By verb."""

    def __str__(self) -> str:
        counts = self.requests.most_common()
        verbs = ", ".join(f"{count / self.seconds:.1f} {verb}" for verb, count in counts)
        return (
            f"{self.api_server:.3f} cores of the API server, {self.etcd:.3f} of etcd, "
            f"{self.ours:.3f} of this process; requests a second: {verbs or 'none'}"
        )


class Place:
    """Deployments with pods that are ready, and the traffic of each."""

    def __init__(self, lab: Lab, run: Callable[[Awaitable[Any]], Any], folder: Path) -> None:
        self.lab, self.run, self._folder = lab, run, folder
        self.cluster = Cluster(lab, run, NAMESPACE)
        self.traffic = Traffic(tuple(f"app-{number:05d}" for number in range(_APPS)))
        self._made, self._read, self._scales = 0, 0, list[tuple[str, float]]()
        self._accounts = {name: self._account(name) for name in ("actuator", "collector")}

    async def post_all(self, requests: list[tuple[str, str, Any]]) -> None:
        slots = asyncio.Semaphore(16)

        async def send(method: str, path: str, body: Any) -> None:
            kind = "application/strategic-merge-patch+json" if method == "PATCH" else _JSON
            headers = {"Content-Type": kind} if isinstance(kind, str) else kind
            async with slots:
                found = await self.cluster.api.request(method, path, None, encoded(body), headers)
                assert found.status in {200, 201}, found.message

        await asyncio.gather(*(send(*one) for one in requests))

    def build(self) -> None:
        names = CLUSTER.domain_names
        domains = {app: names[n % len(names)] for n, app in enumerate(self.traffic.apps)}
        pods = [_pod(app, number) for app in domains for number in range(_PODS)]
        made = [("POST", _DEPLOYMENTS, _workload(app, domain)) for app, domain in domains.items()]
        self.run(self.post_all(made))
        self.run(self.post_all([("POST", _PODS_PATH, pod) for pod in pods]))
        path, status = _PODS_PATH, _ready_since(time.time() - 3600)
        ready = [("PATCH", f"{path}/{pod['metadata']['name']}/status", status) for pod in pods]
        self.run(self.post_all(ready))

    def account(self, name: str, calls: float) -> KubernetesApi:
        """A client with the rights of a service of ours, and not exempt from fairness."""
        return KubernetesApi(access_of(str(self._accounts[name])), 5.0, calls)

    def _account(self, name: str) -> Path:
        token = self.cluster.post(f"{_ACCOUNTS}/{name}/token", {"spec": {}})["status"]["token"]
        return kubeconfig(self.lab, token, self._folder / name)

    def reset(self) -> None:
        """All apps as at the beginning, and calm."""
        self.traffic.rises_at = {}
        body = {"spec": {"replicas": _PODS}}
        self.run(self.post_all([("PATCH", f"{_DEPLOYMENTS}/{a}", body) for a in self.traffic.apps]))
        self._made = len(self._scaled())

    async def cost_of(self, work: Awaitable[Any]) -> Cost:
        """What it costs the servers while it is awaited."""
        servers = {part.name: psutil.Process(part.pid) for part in self.lab.parts}
        requests = await self._requests()
        began = time.monotonic()
        before = {name: _cpu(one) for name, one in servers.items()}
        own = time.process_time()
        await work
        seconds = time.monotonic() - began
        cores = {name: (_cpu(one) - before[name]) / seconds for name, one in servers.items()}
        ours = (time.process_time() - own) / seconds
        found = await self._requests() - requests
        return Cost(seconds, cores[controlplane.API_SERVER], cores[controlplane.ETCD], ours, found)

    async def _requests(self) -> Counter[str]:
        answer = await self.cluster.api.request("GET", "/metrics")
        found = Counter[str]()
        for line in answer.body.decode().splitlines():
            if line.startswith("apiserver_request_total{"):
                verb = line.partition('verb="')[2].partition('"')[0]
                found[verb] += round(float(line.rsplit(" ", 1)[1]))
        return found

    def delays(self) -> list[float]:
        """Seconds from each app's rise to the answer of its first `/scale`."""
        first: dict[str, float] = {}
        for app, at in self._scaled()[self._made :]:
            first.setdefault(app, at)
        rises = self.traffic.rises_at
        return sorted(at - rises[app] for app, at in first.items() if at >= rises[app])

    def _scaled(self) -> list[tuple[str, float]]:
        """Writes to `/scale` that were made: the app, and when they were answered."""
        with self.lab.audit_log.open("rb") as journal:
            journal.seek(self._read)
            for line in journal:
                if not line.endswith(b"\n"):
                    break
                self._read += len(line)
                if b'"subresource":"scale"' in line:
                    self._take(msgspec.json.decode(line, type=AuditRecord))
        return self._scales

    def _take(self, one: AuditRecord) -> None:
        is_answer = one.stage == "ResponseComplete" and one.response_status.get("code") == 200
        ours = one.object_ref.get("namespace") == NAMESPACE
        if is_answer and ours and "dryRun" not in one.request_uri:
            at = datetime.fromisoformat(one.stage_timestamp).timestamp()
            self._scales.append((one.object_ref["name"], at))

    async def until_all_changed(self) -> None:
        """Until every app was scaled, or there is no more time."""
        for _ in range(round(_SPREAD_S + _AFTER_S)):
            if len(self.delays()) == _APPS:
                return
            await asyncio.sleep(1.0)


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _workload(app: str, domain: str) -> dict[str, Any]:
    manifest = deployment(app, _PODS, domain=domain)
    manifest["metadata"]["namespace"] = NAMESPACE
    manifest["metadata"]["annotations"] |= {MIN_REPLICAS: str(_PODS), MAX_REPLICAS: "40"}
    return manifest


def _pod(app: str, number: int) -> dict[str, Any]:
    owner = {
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{app}-7f9c", "uid": "u",
        "controller": True,
    }  # fmt: skip
    requests = {"cpu": "250m", "memory": "512Mi"}
    return {
        "metadata": {
            "name": f"{app}-7f9c-{number}",
            "labels": {"app": app, "pod-template-hash": "7f9c"},
            "ownerReferences": [owner],
        },
        "spec": {
            "nodeName": "somewhere",
            "containers": [{"name": "app", "image": "app", "resources": {"requests": requests}}],
        },
    }


def _ready_since(began: float) -> dict[str, Any]:
    at = rfc3339(began)
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": at}]
    return {"status": {"phase": "Running", "startTime": at, "conditions": conditions}}


@pytest.fixture(scope="module")
def place(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    lab = controlplane.restart(Path(lab.home))
    Kubectl(lab.kubeconfig)("apply", "-k", "infra/k8s/overlays/kubernetes")
    with running_loop() as run:
        made = Place(lab, run, tmp_path_factory.mktemp("accounts"))
        made.build()
        yield made
        for path in (_HPAS, _DEPLOYMENTS, _PODS_PATH):
            run(made.cluster.api.request("DELETE", path))
        made.cluster.close()


# Ours.


@asynccontextmanager
async def services(place: Place) -> Any:
    """Collector, aggregator, Soldiers and actuator, in real time on a bus in memory."""
    cluster = replace(load_cluster(), tick_seconds=_TICK_S)
    clock, parameters, own = SystemClock(), tuned_parameters(), Settings()
    target = KubernetesTarget(
        place.account("actuator", own.calls_per_second),
        own.timeout_seconds, own.give_up_seconds, own.concurrency,
    )  # fmt: skip
    bus = MemoryBus(clock, keep=100)
    actuator = ActuatorHandler(cluster, Modes(), _TICK_S / 5, 60.0, limits=STEPS)
    for build_one in (
        lambda: Service(AggregatorHandler(cluster, parameters, _TICK_S / 5)),
        lambda: Service(
            SoldierHandler(cluster, parameters, _TICK_S / 5, parts=Parts(vertical=False))
        ),
        lambda: Service(actuator, target),
    ):
        bus.add(build_one)
    app = web.Application()
    app.router.add_post("/api/v1/query", place.traffic.answer)
    async with TestServer(app) as server, aiohttp.ClientSession() as session:
        view = ClusterView(
            place.account("collector", 50.0), clock, pytest.fail, "pool", {}, usage=False
        )
        source = PrometheusSource(
            Prometheus(session, str(server.make_url("")), 5.0),
            Queries(queries={name: Query(query=name) for name in _COLUMNS}),
            None, clock, pytest.fail, Timing(_TICK_S, 0.2 * _TICK_S, 1), cluster=view,
        )  # fmt: skip
        working = asyncio.create_task(_work(source, bus))
        try:
            yield working
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
            await source.close()
            await target.close()


async def _work(source: PrometheusSource, bus: MemoryBus) -> None:
    bus.publish(*await source.inventory())
    tick = -1
    while True:
        found = await source.observe(tick)
        if found is None:
            continue
        tick = found.tick
        bus.publish(*_surroundings(tick), *found.events)
        await bus.settle()


def _surroundings(tick: int) -> list[Event]:
    """Budgets, heartbeats and pools, which limit nothing here."""
    at = stamp_of(tick, _TICK_S, "test").time
    epoch = tick * _TICK_S // 60
    found: list[Any] = [*pools(tick)]
    for name in CLUSTER.domain_names:
        found += [
            granted(tick, cores=10_000.0, domain=name, epoch=epoch),
            heartbeat(tick, scope=name),
        ]
    return [replace(one, time=at) for one in found]


def test_every_rise_of_a_metric_becomes_a_stored_change(place: Place) -> None:
    async def play() -> tuple[Cost, Cost, Cost]:
        idle = await place.cost_of(asyncio.sleep(_CALM_S / 2))
        async with services(place) as working:
            # The first lists, and the kernels.
            await asyncio.sleep(3 * _TICK_S)
            calm = await place.cost_of(asyncio.sleep(_CALM_S))
            assert place.delays() == []
            place.traffic.rise()
            hot = await place.cost_of(place.until_all_changed())
            assert not working.done(), working.exception()
        return idle, calm, hot

    place.reset()
    costs = place.run(play())
    _report("our services", place, costs)
    assert len(place.delays()) == _APPS


# The HPA controller.


@asynccontextmanager
async def hpa_controller(place: Place) -> Any:
    """The real controller, without any other, with an HPA per Deployment."""
    metrics_port, port = processes.free_ports(2)
    metrics = MetricsApi(Path(place.lab.home) / "tls", metrics_port, 0.0, _SPEED)
    await metrics.start()
    seen = [
        PodSeen(f"{app}-7f9c-{number}", app, "somewhere", 250, 512, is_ready=True, is_leaving=False)
        for app in place.traffic.apps
        for number in range(_PODS)
    ]
    hpas = [
        ("POST", _HPAS, manifests.autoscaler(app, _PODS, 40, _HPA_PERCENT, _SPEED))
        for app in place.traffic.apps
    ]
    services_path = f"/api/v1/namespaces/{NAMESPACE}/services"
    apis = "/apis/apiregistration.k8s.io/v1/apiservices"
    await place.post_all(
        [
            ("POST", services_path, manifests.metrics_service(metrics_port)),
            ("POST", apis, manifests.metrics_api(metrics_port)),
            *hpas,
        ]
    )
    showing = asyncio.create_task(_show(metrics, seen, place.traffic))
    home = Path(place.lab.home)
    command = [
        str(build.folder_of([CONTROLLERS]) / CONTROLLERS),
        f"--kubeconfig={place.lab.kubeconfig}",
        f"--bind-address={processes.HOST}",
        f"--secure-port={port}",
        f"--cert-dir={home / 'tls' / 'hpa'}",
        "--leader-elect=false",
        "--use-service-account-credentials",
        f"--service-account-private-key-file={home / 'tls' / 'server.key'}",
        "--controllers=horizontal-pod-autoscaler-controller",
        f"--horizontal-pod-autoscaler-sync-period={15 / _SPEED}s",
    ]
    running = processes.spawn(command, home / "hpa-controller.log")
    try:
        yield
    finally:
        processes.end_all([processes.find(running.pid, str(home))], 10.0)
        showing.cancel()
        await asyncio.gather(showing, return_exceptions=True)
        await place.cluster.api.request("DELETE", f"{apis}/v1beta1.metrics.k8s.io")
        await place.cluster.api.request("DELETE", _HPAS)
        await metrics.close()


async def _show(metrics: MetricsApi, pods: list[PodSeen], traffic: Traffic) -> None:
    while True:
        now = datetime.now(UTC).timestamp()
        metrics.show(pods, {app: _CORES * traffic.use(app, now) for app in traffic.apps})
        await asyncio.sleep(0.5)


def test_the_hpa_controller_makes_the_same_changes(place: Place) -> None:
    if build.missing([CONTROLLERS]):
        pytest.skip("kube-controller-manager is not built: make lab-latency builds it")

    async def play() -> tuple[Cost, Cost, Cost]:
        idle = await place.cost_of(asyncio.sleep(_CALM_S / 2))
        async with hpa_controller(place):
            # Its first lists, and a first sync of every HPA.
            await asyncio.sleep(30 if _WHOLE else 8)
            calm = await place.cost_of(asyncio.sleep(_CALM_S))
            place.traffic.rise()
            hot = await place.cost_of(place.until_all_changed())
        return idle, calm, hot

    place.reset()
    costs = place.run(play())
    _report("the HPA controller", place, costs)
    assert len(place.delays()) == _APPS


def _report(who: str, place: Place, costs: tuple[Cost, Cost, Cost]) -> None:
    delays = place.delays()
    p50, p99 = np.quantile(delays, (0.5, 0.99)) if delays else (np.nan, np.nan)
    log.info(
        "%s: %d of %d Deployments scaled, from metric to answered /scale p50 %.1f s, p99 %.1f s; "
        "metrics rose within %.0f s, ticks of %d s, load average %.1f\n  idle: %s\n  calm: %s\n"
        "  rising (%.0f s): %s",
        who, len(delays), _APPS, p50, p99, _SPREAD_S, _TICK_S, os.getloadavg()[0],
        costs[0], costs[1], costs[2].seconds, costs[2],
    )  # fmt: skip
