"""Plays a scenario on a real control plane, under the real HPA controller or under our services."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

import msgspec
import numpy as np

from models.baselines.hpa.simulated import Parameters
from models.cluster import rows
from models.cluster.observation import Pipeline
from models.control.parameters import Parts
from models.inputs.errors import InputError
from models.sim.config.scenario import load_scenario
from schemas.capacity_requested import CapacityRequested
from services._kit.clock import ManualClock
from services._kit.kubernetes.client import KubernetesApi
from services._kit.kubernetes.credentials import access_of
from services._kit.memory import MemoryBus
from services.actuator.kubernetes import STEPS, KubernetesTarget
from services.actuator.settings import Modes
from services.devcluster import processes
from services.devcluster.memory import service_builders
from services.devcluster.processes import Notify
from services.lab.controlplane import Lab
from services.lab.world.cluster import RealCluster
from services.lab.world.kubelets import Kubelets, PodSeen, Starts
from services.lab.world.load import Load, Pods, lab_cluster
from services.lab.world.manifests import NAMESPACE
from services.lab.world.metrics import MetricsApi
from services.simcluster import events

Controller = Literal["hpa", "hirl"]

_CALLS_PER_SECOND: Final = 2000.0
_TIMEOUT_S: Final = 10.0
_SETTLE_S: Final = 300.0
"""Time for all first pods to become ready."""
_SOURCE: Final = "lab"


@dataclass(frozen=True)
class Play:
    """What is played."""

    scenario: str
    seed: int
    controller: Controller
    apps: int = 40
    pods: int = 500
    speed: float = 1.0


class Tally(msgspec.Struct, kw_only=True):
    """Figures of a run, warm-up excluded."""

    ticks: int = 0
    node_hours: float = 0.0
    pending_pod_minutes: float = 0.0
    most_pending: int = 0
    late_ticks: int = 0
    """Ticks that took longer than their time."""
    violation_minutes: dict[str, float] = {}
    began_at: float = 0.0
    """Wall time at the end of the warm-up."""


async def play(lab: Lab, wanted: Play, notify: Notify) -> Tally:
    """Play to the end of the scenario."""
    api = KubernetesApi(access_of(str(lab.kubeconfig)), _TIMEOUT_S, _CALLS_PER_SECOND)
    stage = _Stage(lab, api, wanted)
    try:
        return await stage.run(notify)
    finally:
        await stage.close()


class _Stage:
    """Everything of one run."""

    def __init__(self, lab: Lab, api: KubernetesApi, wanted: Play) -> None:
        cluster = lab_cluster(wanted.apps, wanted.pods)
        self._wanted, self._api = wanted, api
        self.load = Load(cluster, load_scenario(wanted.scenario, cluster), wanted.seed)
        world = self.load.world
        self._names = events.app_names(world)
        self._cluster = RealCluster(api, world, self._names)
        starts = Starts(world.population.apps, self._names, cluster.physics.pod_start, wanted.seed)
        self._playing = False
        self._kubelets = Kubelets(
            api,
            # The pods of the beginning run already.
            lambda app: starts.draw(app) / wanted.speed if self._playing else 0.0,
            cluster.physics.pod_stop.grace_s / wanted.speed,
        )
        (port,) = processes.free_ports(1)
        self._port = port
        lag_s = cluster.physics.metrics.hpa_lag_s
        self._metrics = MetricsApi(Path(lab.home) / "tls", port, lag_s, wanted.speed)
        self._services = (
            _Services(self.load, api, self._names) if wanted.controller == "hirl" else None
        )

    async def run(self, notify: Notify) -> Tally:
        """Build, play, count."""
        await self._metrics.start()
        notify(f"creating {len(self._names)} Deployments")
        await self._cluster.build()
        following = [
            asyncio.create_task(self._kubelets.run()),
            asyncio.create_task(self._cluster.watch()),
        ]
        try:
            await self._until_ready(following)
            self._playing = True
            if self._wanted.controller == "hpa":
                await self._cluster.add_metrics_api(self._port)
                await self._cluster.add_autoscalers(self._percents(), self._wanted.speed)
            return await self._play(following, notify)
        finally:
            for task in following:
                task.cancel()
            await asyncio.gather(*following, return_exceptions=True)

    async def close(self) -> None:
        """Disconnect."""
        await self._metrics.close()
        if self._services is not None:
            await self._services.close()
        await self._api.close()

    def _percents(self) -> list[int]:
        """Targets of the HPAs: as the simulated ones, a share of the use at which apps saturate."""
        saturation = self.load.world.inventory.saturation[0]
        return [int(x) for x in np.maximum(1, np.round(100 * Parameters().target * saturation))]

    async def _until_ready(self, following: Sequence["asyncio.Task[None]"]) -> None:
        wanted = int(self.load.world.state.status[0, rows.REPLICAS].sum())
        async with asyncio.timeout(_SETTLE_S):
            while int(self._cluster.count(self._kubelets.pods).ready.sum()) < wanted:
                _check(following)
                await asyncio.sleep(0.5)

    async def _play(self, following: Sequence["asyncio.Task[None]"], notify: Notify) -> Tally:
        load, tally = self.load, Tally()
        tick_s = load.world.cluster.tick_seconds
        loop = asyncio.get_running_loop()
        due = loop.time()
        while not load.finished:
            _check(following)
            tick, pods = load.world.tick, self._kubelets.pods
            counted = self._cluster.count(pods)
            await self._cluster.roll_out(load.deploys(), str(tick))
            load.step(counted, self._cluster.pools(pods, tick))
            self._count(tally, counted)
            self._show_metrics(pods)
            if self._services is not None:
                await self._services.decide()
            await self._move_nodes(load.world.tick, pods)
            if tick % (600 // tick_s) == 0:
                notify(self._line(tick, counted))
            due += tick_s / self._wanted.speed
            late = loop.time() - due
            tally.late_ticks += late > 0
            await asyncio.sleep(max(0.0, -late))
        tally.violation_minutes = load.violation_minutes()
        return tally

    def _count(self, tally: Tally, counted: Pods) -> None:
        load = self.load
        warmup = load.world.timeline.warmup_ticks
        if load.world.tick <= warmup:
            tally.began_at = datetime.now(UTC).timestamp()
            return
        tick_s = load.world.cluster.tick_seconds
        pending = int(counted.pending.sum())
        tally.ticks += 1
        tally.node_hours += len(self._cluster.nodes.nodes) * tick_s / 3600
        tally.pending_pod_minutes += pending * tick_s / 60
        tally.most_pending = max(tally.most_pending, pending)

    def _show_metrics(self, pods: list[PodSeen]) -> None:
        seen = self.load.observe(Pipeline.HPA)
        cpu, measured = seen.measured[0, rows.CPU], seen.measured[0, rows.PODS]
        cores = {
            name: float(cpu[index]) / max(1.0, float(measured[index]))
            for index, name in enumerate(self._names)
            if not seen.missing[0, index]
        }
        self._metrics.show(pods, cores)

    async def _move_nodes(self, tick: int, pods: list[PodSeen]) -> None:
        placed: dict[str, list[tuple[int, int]]] = {}
        for pod in pods:
            if pod.node:
                placed.setdefault(pod.node, []).append((pod.cpu, pod.memory))
        requests = {} if self._services is None else self._services.requests
        steps = self._cluster.nodes.step(tick, self._cluster.waiting(pods), requests, placed)
        for node in steps.ready:
            await self._cluster.create_node(node)
        for node in steps.removed:
            await self._cluster.drain(node, pods)

    def _line(self, tick: int, counted: Pods) -> str:
        minute = tick * self.load.world.cluster.tick_seconds // 60
        return (
            f"minute {minute}: {counted.ready.sum()} pods ready, {counted.pending.sum()} pending, "
            f"{len(self._cluster.nodes.nodes)} nodes"
        )


class _Services:
    """Our services on a bus in memory; only the actuator's target is Kubernetes."""

    def __init__(self, load: Load, api: KubernetesApi, names: tuple[str, ...]) -> None:
        self._load = load
        world = load.world
        self._names = tuple(f"{NAMESPACE}/{name}" for name in names)
        self._axis, self._clock = events.axis_of_world(world), ManualClock()
        self._target = KubernetesTarget(api, _TIMEOUT_S, _TIMEOUT_S, 8)
        self._bus = MemoryBus(self._clock)
        parts = Parts(vertical=False)
        for build in service_builders(world, self._target, "calendar", Modes(), STEPS, parts):
            self._bus.add(build)
        history = events.backfill(world, world.state.status.copy(), self._axis)
        apps = range(len(names))
        declared = events.declarations(world, world.inventory, self._names, apps)
        self._bus.publish(*declared, *events.calendar_events(world, self._axis), *history)

    @property
    def requests(self) -> dict[str, CapacityRequested]:
        """The newest node request by pool."""
        return self._bus.newest(CapacityRequested)

    async def decide(self) -> None:
        """Publish what is observed now, and let the services act on it."""
        world = self._load.world
        seen, stamp = self._load.observe(Pipeline.OURS), events.stamp_of(world, self._axis)
        spent = np.zeros(world.layout.pools)
        self._bus.publish(
            *events.samples(world, seen, self._names, stamp, _SOURCE),
            *events.pools(world, world.inventory, seen, spent, stamp),
        )
        await self._bus.settle()
        self._clock.advance(world.cluster.tick_seconds)

    async def close(self) -> None:
        """Disconnect the target."""
        with suppress(RuntimeError):
            await self._target.close()


def _check(following: Sequence["asyncio.Task[None]"]) -> None:
    """Fail with a player that failed: without it nothing would move any more."""
    for task in following:
        if task.done():
            raise InputError("a player of the second world ended") from task.exception()
