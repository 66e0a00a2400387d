"""The real control plane as the second world sees it: what it is asked for, and what it has."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Mapping
from typing import Any, Final

import numpy as np

from models.cluster import rows
from models.inputs.errors import InputError
from models.sim.world import World
from services._kit.clock import SystemClock
from services._kit.kubernetes.client import Answer, KubernetesApi, encoded
from services._kit.kubernetes.objects import WorkloadObject
from services._kit.kubernetes.watch import Mirror
from services.lab.world import manifests
from services.lab.world.kubelets import PodSeen
from services.lab.world.load import Pods, PoolNodes
from services.lab.world.manifests import NAMESPACE
from services.lab.world.nodes import Node, NodePools, Pool, Waiting

_DEPLOYMENTS: Final = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
_HPAS: Final = f"/apis/autoscaling/v2/namespaces/{NAMESPACE}/horizontalpodautoscalers"
_JSON: Final = {"Content-Type": "application/json"}
_MERGE: Final = {"Content-Type": "application/merge-patch+json"}
_AT_ONCE: Final = 8


class RealCluster:
    """One namespace of Deployments on nodes that `nodes` has started."""

    def __init__(self, api: KubernetesApi, world: World, names: tuple[str, ...]) -> None:
        self._api, self._world, self.names = api, world, names
        self._index = {name: index for index, name in enumerate(names)}
        cluster = world.cluster
        machines = {pool.name: cluster.machine_of(pool) for pool in cluster.pools}
        self._machines = machines
        self._pool_index = {name: index for index, name in enumerate(cluster.pool_names)}
        self._choices = tuple(domain.pools for domain in cluster.domains)
        rules = world.given.rules.pools
        self.nodes = NodePools(
            tuple(
                Pool(name, int(row["cpu"]), int(row["memory"]), int(row["end"] - row["first"]))
                for name, row in zip(cluster.pool_names, rules, strict=True)
            ),
            cluster.physics.provisioner,
            cluster.tick_seconds,
        )
        self._start_nodes = [int(row["start_nodes"]) for row in rules]
        self._replicas = Mirror[tuple[str, int]](
            api, _DEPLOYMENTS, WorkloadObject, _replicas_of, SystemClock()
        )

    async def build(self) -> None:
        """Create the namespace, the first nodes and every Deployment."""
        await self.post("/api/v1/namespaces", manifests.namespace())
        for pool, count in zip(self.nodes.pools, self._start_nodes, strict=True):
            self.nodes.launch(pool, count, 0, at_once=True)
        await self._all(self.create_node(node) for node in self.nodes.nodes.values())
        status = self._world.state.status[0]
        grace = round(self._world.cluster.physics.pod_stop.grace_s)
        await self._all(
            self.post(
                _DEPLOYMENTS,
                manifests.deployment(
                    name,
                    self._world.cluster.domain_names[domain],
                    self._choices[domain],
                    replicas,
                    (cpu, memory),
                    grace,
                ),
            )
            for name, domain, replicas, cpu, memory in zip(
                self.names,
                *(
                    status[row].tolist()
                    for row in (rows.DOMAIN, rows.REPLICAS, rows.CPU_REQUEST, rows.MEMORY_REQUEST)
                ),
                strict=True,
            )
        )

    async def add_autoscalers(self, percents: list[int], speed: float) -> None:
        """One HPA per app."""
        apps = self._world.population.apps
        await self._all(
            self.post(_HPAS, manifests.autoscaler(name, least, most, percent, speed))
            for name, least, most, percent in zip(
                self.names,
                apps.min_replicas.tolist(),
                apps.max_replicas.tolist(),
                percents,
                strict=True,
            )
        )

    async def add_metrics_api(self, port: int) -> None:
        """Register metrics.k8s.io at a port."""
        services = f"/api/v1/namespaces/{NAMESPACE}/services"
        await self.post(services, manifests.metrics_service(port))
        apis = "/apis/apiregistration.k8s.io/v1/apiservices"
        await self.post(apis, manifests.metrics_api(port))

    async def roll_out(self, apps: list[int], release: str) -> None:
        """Begin rollouts: every pod is replaced, as the Deployment controller does it."""
        annotations = {"annotations": {"lab/release": release}}
        body = encoded({"spec": {"template": {"metadata": annotations}}})
        await self._all(
            self._api.request("PATCH", f"{_DEPLOYMENTS}/{self.names[app]}", None, body, _MERGE)
            for app in apps
        )

    async def watch(self) -> None:
        """Follow the Deployments until cancelled."""
        await self._replicas.run()

    def count(self, pods: list[PodSeen]) -> Pods:
        """Pods by app and state."""
        apps = len(self.names)
        ready, pending, replicas = (np.zeros(apps, np.int32) for _ in range(3))
        placed = np.zeros((len(self._pool_index), apps), np.int32)
        for pod in pods:
            node = self.nodes.nodes.get(pod.node)
            # One that leaves serves no more, as in the simulator.
            if pod.is_leaving:
                continue
            index = self._index[pod.app]
            if node is None:
                pending[index] += 1
            else:
                placed[self._pool_index[node.pool], index] += 1
                ready[index] += pod.is_ready
        for name, wanted in self._replicas.objects.values():
            replicas[self._index[name]] = wanted
        return Pods(replicas, ready, pending, placed)

    def pools(self, pods: list[PodSeen], tick: int) -> dict[str, PoolNodes]:
        """Nodes and free room by pool."""
        used = Counter[str]()
        memory = Counter[str]()
        for pod in pods:
            if pod.node in self.nodes.nodes:
                used[self.nodes.nodes[pod.node].pool] += pod.cpu
                memory[self.nodes.nodes[pod.node].pool] += pod.memory
        found = {}
        for pool in self.nodes.pools:
            mine = [node for node in self.nodes.nodes.values() if node.pool == pool.name]
            ready = sum(node.ready_tick <= tick for node in mine)
            found[pool.name] = PoolNodes(
                ready,
                len(mine) - ready,
                max(0, ready * pool.cpu - used[pool.name]),
                max(0, ready * pool.memory - memory[pool.name]),
            )
        return found

    def waiting(self, pods: list[PodSeen]) -> list[Waiting]:
        """Pods that have no node."""
        domain = self._world.state.status[0, rows.DOMAIN]
        return [
            Waiting(self._choices[domain[self._index[pod.app]]], pod.cpu, pod.memory)
            for pod in pods
            if not pod.node and not pod.is_leaving
        ]

    async def create_node(self, node: Node) -> None:
        """A booted node joins."""
        await self.post(
            "/api/v1/nodes", manifests.node(node.name, node.pool, self._machines[node.pool])
        )

    async def drain(self, node: Node, pods: list[PodSeen]) -> None:
        """A node leaves, with its pods."""
        path = f"/api/v1/namespaces/{NAMESPACE}/pods"
        here = [pod.name for pod in pods if pod.node == node.name]
        await self._api.request("DELETE", f"/api/v1/nodes/{node.name}")
        await self._all(self._delete(f"{path}/{name}") for name in here)

    async def post(self, path: str, body: Mapping[str, Any]) -> None:
        """Create one object."""
        answer = await self._api.request("POST", path, None, encoded(body), _JSON)
        if answer.status not in {200, 201}:
            raise InputError(f"{path}: the API server answers {answer.status}: {answer.message}")

    async def _delete(self, path: str) -> Answer:
        return await self._api.request("DELETE", path)

    async def _all(self, jobs: Any) -> None:
        slots = asyncio.Semaphore(_AT_ONCE)

        async def one(job: Awaitable[Any]) -> None:
            async with slots:
                await job

        await asyncio.gather(*(one(job) for job in jobs))


def _replicas_of(found: WorkloadObject) -> tuple[str, int]:
    return found.metadata.name, found.spec.replicas
