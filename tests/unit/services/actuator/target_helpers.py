"""A target over HTTP: the simulated cluster's API, behind something that breaks its answers."""

import asyncio
from collections.abc import Awaitable, Callable

from aiohttp import web
from aiohttp.test_utils import TestServer

from models.sim.config.physics import load_sim_cluster, with_apps
from models.sim.config.scenario import Scenario
from models.sim.world import World
from services.actuator.simulated import SimulatedTarget
from services.actuator.target import (
    Change,
    Numbers,
    Reading,
    TargetRequest,
    Write,
    Written,
)
from services.simcluster.cluster import SimulatedCluster
from services.simcluster.http import Api
from services.simcluster.live import LiveCluster
from tests.service_helpers import DOMAIN

Handle = Callable[[web.Request], Awaitable[web.StreamResponse]]


def cluster() -> LiveCluster:
    calm = Scenario(name="calm", shows="Nothing.", start="Tue 10:00", length_minutes=1)
    return LiveCluster(SimulatedCluster(World(with_apps(load_sim_cluster(), 20), calm, [3])))


async def carried_out(
    server: web.Application, *requests: TargetRequest, give_up_s: float = 5.0
) -> list[Reading | Written]:
    async with TestServer(server) as running:
        target = SimulatedTarget(str(running.make_url("")), 1.0, give_up_s)
        try:
            return [await target.carry_out(request) for request in requests]
        finally:
            await target.close()


def write(app: str, replicas: int, before: Numbers) -> Write:
    change = Change(
        app=app,
        replicas=replicas,
        cpu_request=before.cpu_request,
        memory_request=before.memory_request,
        before=before,
        decision_id="d",
    )
    return Write(domain=DOMAIN, tick=0, changes=[change])


class Flaky:
    """The cluster, and what breaks in front of it."""

    def __init__(self) -> None:
        self.live = cluster()
        self.app = self.live.cluster.names[0]
        self.statuses: list[int | None] = []
        """Of the next answers to writes; None passes the cluster's own."""
        self.makes = True
        """Whether a write whose answer is broken is made."""
        self.rejected_reads = 0
        """Reads that are rejected before the first one passes."""
        self.requests: list[str] = []

    def application(self) -> web.Application:
        @web.middleware
        async def broken(request: web.Request, handler: Handle) -> web.StreamResponse:
            self.requests.append(request.method)
            if request.method == "GET" and self.rejected_reads:
                self.rejected_reads -= 1
                return web.Response(status=404)
            status = self.statuses.pop(0) if request.method == "PUT" and self.statuses else None
            if status is None or self.makes:
                response = await handler(request)
            return response if status is None else web.Response(status=status)

        server = Api(self.live, lambda: True).application()
        server.middlewares.append(broken)
        return server

    def change(self) -> Write:
        now = self.live.cluster.read_back(DOMAIN)[self.app].present
        before = Numbers(now.replicas, now.cpu_request, now.memory_request)
        return write(self.app, now.replicas + 1, before)

    def carry_out(self, *requests: TargetRequest, give_up_s: float = 5.0) -> list[Written]:
        found = asyncio.run(carried_out(self.application(), *requests, give_up_s=give_up_s))
        assert all(isinstance(one, Written) for one in found)
        return [one for one in found if isinstance(one, Written)]

    @property
    def outcomes(self) -> list[str]:
        return [entry.outcome for entry in self.live.cluster.journal]
