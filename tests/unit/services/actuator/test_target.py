"""What the simulated cluster has is read over HTTP, and a change is written against it."""

import asyncio
from collections.abc import Awaitable, Callable

from aiohttp import web
from aiohttp.test_utils import TestServer

from models.sim.config.physics import load_sim_cluster, with_apps
from models.sim.config.scenario import Scenario
from models.sim.world import World
from services.actuator.target import Change, Numbers, Read, Reading, SimulatedTarget, Write, Written
from services.simcluster.cluster import SimulatedCluster
from services.simcluster.http import Api
from services.simcluster.live import LiveCluster
from tests.service_helpers import DOMAIN

Handle = Callable[[web.Request], Awaitable[web.Response]]


def cluster() -> LiveCluster:
    calm = Scenario(name="calm", shows="Nothing.", start="Tue 10:00", length_minutes=1)
    return LiveCluster(SimulatedCluster(World(with_apps(load_sim_cluster(), 20), calm, [3])))


async def carried_out(
    server: web.Application, *effects: Read | Write, give_up_s: float = 5.0
) -> list[Reading | Written]:
    async with TestServer(server) as running:
        target = SimulatedTarget(str(running.make_url("")), 1.0, give_up_s)
        try:
            return [await target.carry_out(effect) for effect in effects]
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


def answering(status: int, times: int = 10**6) -> web.Application:
    """A server that fails some times, then says that it has no apps."""
    asked = []

    async def handle(_: web.Request) -> web.Response:
        asked.append(1)
        if len(asked) <= times:
            return web.Response(status=status)
        return web.json_response({"closed_tick": -1, "apps": {}})

    server = web.Application()
    server.router.add_route("*", "/{path:.*}", handle)
    return server


READ = Read(domain=DOMAIN, tick=0)


def test_a_read_gives_what_the_cluster_has() -> None:
    live = cluster()
    (found,) = asyncio.run(carried_out(Api(live, lambda: True).application(), READ))
    assert isinstance(found, Reading)
    assert found.apps is not None
    stored = live.cluster.read_back(DOMAIN)
    assert found.apps.keys() == stored.keys()
    for app, present in found.apps.items():
        assert present.replicas == stored[app].present.replicas
        assert present.ready == stored[app].present.ready


def test_a_change_against_other_numbers_is_a_conflict_and_changes_nothing() -> None:
    live = cluster()
    app = live.cluster.names[0]
    now = live.cluster.read_back(DOMAIN)[app].present
    stale = Numbers(now.replicas + 1, now.cpu_request, now.memory_request)
    server = Api(live, lambda: True).application()
    (written,) = asyncio.run(carried_out(server, write(app, 1, stale)))
    assert isinstance(written, Written)
    assert written.answers == {app: "conflict"}
    assert live.cluster.read_back(DOMAIN)[app].present == now


def test_a_change_against_what_was_read_is_applied() -> None:
    live = cluster()
    app = live.cluster.names[0]
    now = live.cluster.read_back(DOMAIN)[app].present
    before = Numbers(now.replicas, now.cpu_request, now.memory_request)
    server = Api(live, lambda: True).application()
    found = asyncio.run(carried_out(server, READ, write(app, now.replicas + 1, before)))
    assert isinstance(found[1], Written)
    assert found[1].answers == {app: "applied"}


def test_a_cluster_that_rejects_or_never_answers_is_unreadable() -> None:
    for status, give_up_s in ((404, 5.0), (503, 0.1)):
        (found,) = asyncio.run(carried_out(answering(status), READ, give_up_s=give_up_s))
        assert isinstance(found, Reading)
        assert found.apps is None


def test_a_read_that_fails_is_tried_again() -> None:
    (found,) = asyncio.run(carried_out(answering(503, times=2), READ))
    assert isinstance(found, Reading)
    assert found.apps == {}
