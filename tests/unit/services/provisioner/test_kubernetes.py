"""Holding room on an API server that is played in memory."""

import asyncio
import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from services._kit.clock import SystemClock
from services._kit.kubernetes.client import KubernetesApi
from services.provisioner.capacity import Hold, PoolWanted
from services.provisioner.kubernetes import KubernetesCapacity
from services.provisioner.settings import Settings
from tests.kubernetes_helpers import api_of, running_loop
from tests.room_suite import Held, RoomSuite, Run

WANTED = PoolWanted(nodes=3, node_cpu=8000, node_memory=32000)


class PlayedRooms:
    """Objects in memory by path, with lists, watches and server-side apply."""

    namespace = "hirl"

    def __init__(self, run: Run) -> None:
        self.run = run
        self.objects: dict[str, dict[str, Any]] = {}
        self.refuse = 0
        """Status of every write; 0: as usual."""
        self.patched: list[dict[str, str]] = []
        self._version = 0
        self._news: dict[str, list[dict[str, Any]]] = {}
        app = web.Application()
        app.router.add_get("/{path:.*}", self._get)
        app.router.add_patch("/{path:.*}", self._patch)
        self._server = TestServer(app)
        run(self._server.start_server())

    def api(self) -> KubernetesApi:
        return api_of(str(self._server.make_url("")), "secret")

    def create(self, path: str, body: dict[str, Any]) -> None:
        made = self._put(f"{path}/{body['metadata']['name']}", body)
        listed = "/api/v1/pods" if path.endswith("/pods") else path
        self._news.setdefault(listed, []).append(made)

    def stored(self, path: str) -> dict[str, Any] | None:
        return self.objects.get(path)

    def replace_replicas(self, path: str, replicas: int) -> None:
        body = deepcopy(self.objects[path])
        body["spec"]["replicas"] = replicas
        self._put(path, body)

    def close(self) -> None:
        self.run(self._server.close())

    def _put(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self._version += 1
        made = deepcopy(body)
        made.setdefault("metadata", {})
        made["metadata"] |= {"uid": path, "resourceVersion": str(self._version)}
        self.objects[path] = made
        return made

    async def _get(self, request: web.Request) -> web.StreamResponse:
        news = self._news.setdefault(request.path, [])
        if "watch" not in request.query:
            meta = {"resourceVersion": str(self._version)}
            return web.json_response({"metadata": meta, "items": news})
        response = web.StreamResponse()
        await response.prepare(request)
        seen = int(request.query["resourceVersion"])
        for _ in range(10):
            for one in news:
                if int(one["metadata"]["resourceVersion"]) > seen:
                    seen = int(one["metadata"]["resourceVersion"])
                    event = {"type": "ADDED", "object": one}
                    await response.write(json.dumps(event).encode() + b"\n")
            await asyncio.sleep(0.02)
        return response

    async def _patch(self, request: web.Request) -> web.Response:
        self.patched.append(dict(request.query))
        if self.refuse:
            return web.json_response({"message": "no"}, status=self.refuse)
        body = json.loads(await request.read())
        found = self.objects.get(request.path)
        same = found is not None and {**found, "metadata": 0} == {**body, "metadata": 0}
        if "dryRun" not in request.query and not same:
            found = self._put(request.path, body)
        return web.json_response(found or body)


@pytest.fixture
def place() -> Iterator[PlayedRooms]:
    with running_loop() as run:
        made = PlayedRooms(run)
        yield made
        made.close()


class TestPlayed(RoomSuite):
    @pytest.fixture
    def held(self, place: PlayedRooms) -> Iterator[Callable[..., Held]]:
        made: list[Held] = []

        def make(**settings: Any) -> Held:
            made.append(Held(place, "shared", **settings))
            return made[-1]

        yield make
        for one in made:
            one.close()


def test_a_write_that_is_refused_is_reported_and_other_pools_go_on(place: PlayedRooms) -> None:
    pool = Held(place, "a")
    place.refuse = 403
    both = Hold(pools={"a": WANTED, "b": WANTED})
    found = place.run(pool.capacity.carry_out(both)).pools
    assert {one.problem for one in found.values()} == {"the API server answers 403: no"}
    assert len(place.patched) == 2
    place.refuse = 0
    assert pool.hold(3).chunks == 3
    pool.close()


def test_room_of_a_tainted_pool_tolerates_the_taints_that_are_named(place: PlayedRooms) -> None:
    pool = Held(place, "a", tolerate="team, dedicated")
    pool.hold(1)
    made = pool.stored()
    assert made is not None
    assert made["spec"]["template"]["spec"]["tolerations"] == [
        {"key": "team", "operator": "Exists"},
        {"key": "dedicated", "operator": "Exists"},
    ]
    pool.close()


def test_a_static_pool_gets_the_nodes_and_keeps_them_when_nothing_is_requested(
    place: PlayedRooms,
) -> None:
    pool = Held(place, "a", room="static")
    pool.hold(3)
    path = "/apis/karpenter.sh/v1/nodepools/a/scale"
    place_of = place.stored(path)
    assert place_of is not None
    assert place_of["spec"] == {"replicas": 3}
    pool.hold(0)
    assert len(place.patched) == 1
    pool.close()


def test_a_static_pool_loses_no_node_with_pods_that_is_not_ready_or_cordoned(
    place: PlayedRooms,
) -> None:
    pool = Held(place, "a", room="static")
    pool.add_node("1")
    pool.add_node("2", ready=False)
    pool.add_node("3", cordoned=True)
    pool.add_node("4", ready=False)
    for number in "123":
        pool.add_pod(f"web-{number}", number)
    pool.hold(2)
    scaled = place.stored("/apis/karpenter.sh/v1/nodepools/a/scale")
    assert scaled is not None
    assert scaled["spec"] == {"replicas": 3}
    pool.close()


def test_without_an_api_server_nothing_is_known_and_nothing_fails(
    place: PlayedRooms, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.provisioner.kubernetes._START_S", 0.3)
    capacity = KubernetesCapacity(api_of("http://127.0.0.1:1", "x"), Settings(), SystemClock())
    found = place.run(capacity.carry_out(Hold(pools={"a": WANTED}))).pools["a"]
    assert found.problem == "the API server did not answer the first lists"
    place.run(capacity.close())
