"""Plays the kubelets: pods on a node become ready after their start, and stop after their grace.

Everything else about pods is done by Kubernetes: who creates them, and where they are bound.
"""

import asyncio
import math
import random
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from models.sim.apps import Apps
from models.sim.config.physics import PodStart
from services._kit.clock import SystemClock
from services._kit.kubernetes.client import KubernetesApi, Unreachable, encoded
from services._kit.kubernetes.objects import Pod
from services._kit.kubernetes.watch import Mirror
from services.lab.world.manifests import NAMESPACE

_LOOK_S: Final = 0.2
_AT_ONCE: Final = 8
_STATUS: Final = {"Content-Type": "application/strategic-merge-patch+json"}
_PATH: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"


class PodSeen(NamedTuple):
    """What is needed of one pod."""

    name: str
    app: str
    node: str
    cpu: int
    memory: int
    is_ready: bool
    is_leaving: bool


def seen(pod: Pod) -> PodSeen:
    """Reduce a pod."""
    cpu, memory = pod.spec.size
    meta = pod.metadata
    return PodSeen(
        meta.name, meta.labels.get("app", ""), pod.spec.node_name, cpu, memory,
        pod.is_ready, bool(meta.deletion_timestamp),
    )  # fmt: skip


class Starts:
    """Seconds from bound to ready, drawn as the simulator draws them."""

    def __init__(self, apps: Apps, names: tuple[str, ...], physics: PodStart, seed: int) -> None:
        self._boot: dict[str, float] = dict(zip(names, apps.boot.tolist(), strict=True))
        self._image: dict[str, float] = dict(zip(names, apps.image_pull.tolist(), strict=True))
        self._physics = physics
        self._random = random.Random(seed)

    def draw(self, app: str) -> float:
        """Image, boot and warm-up, and the wait for the next readiness probe."""
        physics, draw = self._physics, self._random
        boot = (physics.boot_s + physics.warm_up_s) * self._boot[app]
        seconds = boot * math.exp(draw.gauss(0.0, physics.sigma))
        seconds += draw.random() * physics.readiness_period_s
        if draw.random() >= physics.image_cached_share:
            pull = physics.image_pull_s * self._image[app]
            seconds += pull * math.exp(draw.gauss(0.0, physics.sigma))
        return seconds


class Kubelets:
    """The kubelets of all nodes; `pods` is what the API server has."""

    def __init__(self, api: KubernetesApi, start_s: Callable[[str], float], grace_s: float) -> None:
        self._api, self._start_s, self._grace_s = api, start_s, grace_s
        self._mirror = Mirror[PodSeen](api, _PATH, Pod, seen, SystemClock())
        self._due: dict[tuple[str, bool], float] = {}
        """By uid and whether the pod is leaving: when its container has started, or stopped."""
        self._slots = asyncio.Semaphore(_AT_ONCE)

    @property
    def pods(self) -> list[PodSeen]:
        """Every pod that exists."""
        return list(self._mirror.objects.values())

    async def run(self) -> None:
        """Play until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._mirror.run())
            while True:
                await asyncio.sleep(_LOOK_S)
                await self._advance()

    async def _advance(self) -> None:
        now = asyncio.get_running_loop().time()
        due: dict[tuple[str, bool], float] = {}
        jobs = []
        for uid, pod in self._mirror.objects.items():
            if not pod.node or (pod.is_ready and not pod.is_leaving):
                continue
            key = (uid, pod.is_leaving)
            wait = self._grace_s if pod.is_leaving else self._start_s(pod.app)
            due[key] = self._due[key] if key in self._due else now + wait
            if due[key] <= now:
                jobs.append(self._stop(pod) if pod.is_leaving else self._make_ready(pod))
        self._due = due
        await asyncio.gather(*jobs)

    async def _make_ready(self, pod: PodSeen) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        conditions = [
            {"type": kind, "status": "True", "lastTransitionTime": now}
            for kind in ("Initialized", "ContainersReady", "Ready")
        ]
        status = {"phase": "Running", "startTime": now, "conditions": conditions}
        body = encoded({"status": status})
        await self._send("PATCH", f"{_PATH}/{pod.name}/status", body, _STATUS)

    async def _stop(self, pod: PodSeen) -> None:
        body = encoded({"gracePeriodSeconds": 0})
        await self._send(
            "DELETE", f"{_PATH}/{pod.name}", body, {"Content-Type": "application/json"}
        )

    async def _send(self, verb: str, path: str, body: bytes, headers: dict[str, Any]) -> None:
        async with self._slots:
            # Without an answer it is still due, and tried again.
            with suppress(Unreachable):
                await self._api.request(verb, path, None, body, headers)
