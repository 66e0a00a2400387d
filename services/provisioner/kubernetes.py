"""Holds room on Kubernetes, with placeholder pods, CapacityBuffers or static NodePools.

Nodes and pods are watched and counted here: the conditions of a buffer say that nodes were asked
for, not that they are there. Objects are applied as a whole, so a write that is repeated, or that
replaces what somebody changed, needs no read before it.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from services._kit.clock import Clock
from services._kit.kubernetes.adoption import PLACEHOLDER
from services._kit.kubernetes.client import Denied, KubernetesApi, Unreachable, encoded
from services._kit.kubernetes.objects import Node, Pod
from services._kit.kubernetes.watch import Mirror
from services.provisioner.capacity import Held, Hold, PoolHeld, PoolWanted, chunks_for
from services.provisioner.settings import Settings

log = logging.getLogger(__name__)

PRIORITY_CLASS: Final = "hirl-placeholder"
_MANAGER: Final = "hirl-provisioner"
_APPLY: Final = "application/apply-patch+yaml"
_MERGE: Final = "application/merge-patch+json"
_STRATEGY: Final = "buffer.x-k8s.io/active-capacity"
_FIXED: Final = frozenset({"DaemonSet", "Node"})
"""Owners of pods that come with a node. A node owns its static pods, such as kube-proxy."""
_START_S: Final = 20.0
_TTL_S: Final = 30.0


class _NodeSeen(NamedTuple):
    name: str
    pool: str
    takes_pods: bool


class _PodSeen(NamedTuple):
    node: str
    is_free: bool
    """A placeholder, or one that its node has anyway: neither makes a node occupied."""


class Object(NamedTuple):
    """One object to apply."""

    path: str
    body: Mapping[str, Any]


class KubernetesCapacity:
    """Room in the pools of one cluster."""

    def __init__(
        self,
        api: KubernetesApi,
        settings: Settings,
        clock: Clock,
        on_held: Callable[[Held], None] = lambda _: None,
    ) -> None:
        self._api, self._settings, self._on_held = api, settings, on_held
        label = settings.pool_label
        self._nodes = Mirror[_NodeSeen](
            api, "/api/v1/nodes", Node, lambda node: _node_of(node, label), clock
        )
        self._pods = Mirror[_PodSeen](api, "/api/v1/pods", Pod, _pod_of, clock)
        self._watching: list[asyncio.Task[None]] = []

    async def carry_out(self, request: Hold) -> Held:
        """Hold the room; a pool whose room cannot be changed keeps what it has."""
        problem = await self._watch()
        # Once for all pools: there are far more pods than nodes.
        busy = {one.node for one in self._pods.objects.values() if not one.is_free}
        pools = {}
        for name, wanted in request.pools.items():
            # Without a count of nodes nothing is known of what is missing.
            pools[name] = (
                PoolHeld(problem=problem) if problem else await self._hold(name, wanted, busy)
            )
            if pools[name].problem:
                log.warning("pool %s: %s", name, pools[name].problem)
        held = Held(pools=pools)
        self._on_held(held)
        return held

    async def close(self) -> None:
        """Stop watching, and disconnect. The room stays as it is."""
        for task in self._watching:
            task.cancel()
        await asyncio.gather(*self._watching, return_exceptions=True)
        await self._api.close()

    async def _watch(self) -> str:
        """Why nodes and pods are not known; empty if they are."""
        mirrors: tuple[Mirror[Any], ...] = (self._nodes, self._pods)
        if not self._watching:
            self._watching = [asyncio.create_task(one.run()) for one in mirrors]
        for task in self._watching:
            if task.done():
                raise RuntimeError("a watch of the API server ended") from task.exception()
        try:
            async with asyncio.timeout(_START_S):
                for one in mirrors:
                    await one.listed.wait()
        except TimeoutError:
            return "the API server did not answer the first lists"
        current = all(one.is_current(_TTL_S) for one in mirrors)
        return "" if current else "nodes and pods are not current"

    async def _hold(self, pool: str, wanted: PoolWanted, busy: set[str]) -> PoolHeld:
        nodes = [one for one in self._nodes.objects.values() if one.pool == pool]
        ready = {one.name for one in nodes if one.takes_pods}
        occupied = len(ready & busy)
        chunks = chunks_for(wanted.nodes, occupied)
        problem = ""
        try:
            if self._settings.room == "static":
                # Of nodes that are not ready, or cordoned, too: they are part of its number.
                in_use = sum(one.name in busy for one in nodes)
                problem = await self._scale(pool, max(wanted.nodes, in_use) if wanted.nodes else 0)
            else:
                for one in objects_of(self._settings, pool, wanted, chunks):
                    problem = problem or await self._send(one.path, _APPLY, one.body, force="true")
        except (Unreachable, Denied) as error:
            problem = str(error)
        return PoolHeld(ready=len(ready), occupied=occupied, chunks=chunks, problem=problem)

    async def _scale(self, pool: str, nodes: int) -> str:
        # Nothing is requested any more: a static pool keeps its nodes, for nobody else makes any.
        if nodes == 0:
            return ""
        path = f"/apis/karpenter.sh/v1/nodepools/{pool}/scale"
        return await self._send(path, _MERGE, {"spec": {"replicas": nodes}})

    async def _send(self, path: str, kind: str, body: Mapping[str, Any], **query: str) -> str:
        """Why the server did not take a write; empty if it did."""
        query["fieldManager"] = _MANAGER
        if self._settings.mode == "preview":
            query["dryRun"] = "All"
        answer = await self._api.request(
            "PATCH", path, query, encoded(body), {"Content-Type": kind}
        )
        if answer.status in {200, 201}:
            return ""
        return f"the API server answers {answer.status}: {answer.message}"


def objects_of(settings: Settings, pool: str, wanted: PoolWanted, chunks: int) -> Iterator[Object]:
    """What holds so many chunks in a pool."""
    name, namespace = f"room-{pool}", settings.namespace
    template = _template(settings, pool, wanted)
    labels = {PLACEHOLDER: pool}
    if settings.room == "buffers":
        yield Object(
            f"/api/v1/namespaces/{namespace}/podtemplates/{name}",
            {
                "apiVersion": "v1",
                "kind": "PodTemplate",
                "metadata": {"name": name},
                "template": template,
            },
        )
        yield Object(
            f"/apis/autoscaling.x-k8s.io/v1beta1/namespaces/{namespace}/capacitybuffers/{name}",
            {
                "apiVersion": "autoscaling.x-k8s.io/v1beta1",
                "kind": "CapacityBuffer",
                "metadata": {"name": name},
                "spec": {
                    "provisioningStrategy": _STRATEGY,
                    "podTemplateRef": {"name": name},
                    "replicas": chunks,
                },
            },
        )
        return
    yield Object(
        f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}",
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "labels": labels},
            "spec": {
                "replicas": chunks,
                "selector": {"matchLabels": labels},
                # A new size replaces all at once: old and new chunks together would need twice the
                # nodes.
                "strategy": {"type": "Recreate"},
                "template": template,
            },
        },
    )


def _template(settings: Settings, pool: str, wanted: PoolWanted) -> dict[str, Any]:
    """One chunk: a pod of nearly a node of the pool, that goes when anything needs its room."""
    share = settings.chunk_share
    size = {
        "cpu": f"{int(wanted.node_cpu * share)}m",
        "memory": f"{int(wanted.node_memory * share)}Mi",
    }
    tolerated = [{"key": key, "operator": "Exists"} for key in settings.taints]
    restricted = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    return {
        "metadata": {"labels": {PLACEHOLDER: pool}},
        "spec": {
            "priorityClassName": PRIORITY_CLASS,
            "nodeSelector": {settings.pool_label: pool},
            **({"tolerations": tolerated} if tolerated else {}),
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65535,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "room",
                    "image": settings.image,
                    "resources": {"requests": size},
                    "securityContext": restricted,
                }
            ],
        },
    }


def _node_of(node: Node, label: str) -> _NodeSeen | None:
    pool = node.metadata.labels.get(label)
    if pool is None:
        return None
    ready = any(c.type == "Ready" and c.status == "True" for c in node.status.conditions)
    return _NodeSeen(node.metadata.name, pool, ready and not node.spec.unschedulable)


def _pod_of(pod: Pod) -> _PodSeen | None:
    if not pod.spec.node_name or pod.is_ended:
        return None
    fixed = any(owner.kind in _FIXED for owner in pod.metadata.owner_references)
    return _PodSeen(pod.spec.node_name, fixed or PLACEHOLDER in pod.metadata.labels)
