"""A mirror follows the events of a watch, and says when it is no longer current."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

from services._kit.clock import ManualClock
from services._kit.kubernetes.objects import Pod
from services._kit.kubernetes.watch import Mirror
from tests.kubernetes_helpers import api_of

Check = Callable[[Mirror[str], ManualClock], Awaitable[None]]


def pod(name: str, version: int) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}}


def event(kind: str, name: str, version: int) -> bytes:
    return json.dumps({"type": kind, "object": pod(name, version)}).encode() + b"\n"


class Played:
    """A server whose watches answer with scripted bytes; after the script they stay silent."""

    def __init__(self, *watches: list[bytes] | int) -> None:
        self.watches = list(watches)
        self.asked: list[str] = []
        """Versions from which watches began; `list` for a list."""
        self.done = asyncio.Event()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            self.asked.append("list")
            return web.json_response(
                {"metadata": {"resourceVersion": "10"}, "items": [pod("a", 5), pod("b", 6)]}
            )
        self.asked.append(request.query["resourceVersion"])
        if not self.watches:
            self.done.set()
            await asyncio.sleep(60)
        watch = self.watches.pop(0)
        if isinstance(watch, int):
            return web.Response(status=watch)
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in watch:
            await response.write(chunk)
        return response


def name_of(found: Pod) -> str | None:
    """None for what is left out."""
    return None if found.metadata.labels.get("odd") else found.metadata.name


def follow(played: Played, check: Check) -> None:
    async def run() -> None:
        app = web.Application()
        app.router.add_get("/api/v1/pods", played.handle)
        async with TestServer(app) as server:
            api, clock = api_of(str(server.make_url("")), "secret"), ManualClock(100.0)
            mirror = Mirror[str](api, "/api/v1/pods", Pod, name_of, clock)
            task = asyncio.create_task(mirror.run())
            try:
                await asyncio.wait_for(played.done.wait(), 5)
                await check(mirror, clock)
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                await api.close()

    asyncio.run(run())


def names(mirror: Mirror[str]) -> set[str]:
    return set(mirror.objects.values())


def test_events_add_change_and_remove_objects_and_move_the_version() -> None:
    async def check(mirror: Mirror[str], _: ManualClock) -> None:
        assert names(mirror) == {"b", "c"}

    played = Played([event("ADDED", "c", 11), event("DELETED", "a", 12)])
    follow(played, check)
    assert played.asked == ["list", "10", "12"]


def test_an_object_that_is_reduced_to_nothing_is_left_out_and_the_watch_goes_on() -> None:
    async def check(mirror: Mirror[str], _: ManualClock) -> None:
        assert names(mirror) == {"b", "c"}

    odd = pod("a", 11)
    odd["metadata"]["labels"] = {"odd": "yes"}
    changed = json.dumps({"type": "MODIFIED", "object": odd}).encode() + b"\n"
    played = Played([changed, event("ADDED", "c", 12)])
    follow(played, check)
    assert played.asked == ["list", "10", "12"]


def test_an_event_may_arrive_in_pieces() -> None:
    async def check(mirror: Mirror[str], _: ManualClock) -> None:
        assert names(mirror) == {"a", "b", "c"}

    whole = event("ADDED", "c", 11)
    follow(Played([whole[:20], whole[20:40], whole[40:]]), check)


def test_a_bookmark_moves_the_version_and_changes_nothing() -> None:
    async def check(mirror: Mirror[str], _: ManualClock) -> None:
        assert names(mirror) == {"a", "b"}

    bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "40"}}}
    played = Played([json.dumps(bookmark).encode() + b"\n"])
    follow(played, check)
    assert played.asked == ["list", "10", "40"]


def test_an_expired_version_is_listed_again() -> None:
    async def check(mirror: Mirror[str], _: ManualClock) -> None:
        assert names(mirror) == {"a", "b"}

    error = {"type": "ERROR", "object": {"code": 410}}
    for watch in (410, [json.dumps(error).encode() + b"\n"]):
        played = Played(watch)
        follow(played, check)
        assert played.asked == ["list", "10", "list", "10"]


def test_a_broken_or_malformed_watch_goes_on_where_it_was() -> None:
    async def check(mirror: Mirror[str], _: ManualClock) -> None:
        assert names(mirror) == {"a", "b", "c"}

    played = Played([event("ADDED", "c", 11), b"{\n"], 503)
    follow(played, check)
    assert played.asked == ["list", "10", "11", "11"]


def test_what_was_not_confirmed_for_longer_than_asked_is_not_current() -> None:
    async def check(mirror: Mirror[str], clock: ManualClock) -> None:
        assert mirror.is_current(30.0)
        clock.advance(30.5)
        assert not mirror.is_current(30.0)

    follow(Played(), check)


class Slow:
    """A server that answers the second list only when its third watch has begun."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.lists, self.watches = 0, 0
        self.listing, self.released, self.done = (asyncio.Event() for _ in range(3))
        self.current: list[bool] = []
        self.mirror: Mirror[str] | None = None

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            self.lists += 1
            if self.lists > 1:
                self.listing.set()
                await self.released.wait()
            items = [pod("a", 5), pod("b", 6)]
            return web.json_response({"metadata": {"resourceVersion": "10"}, "items": items})
        response = web.StreamResponse()
        await response.prepare(request)
        self.watches += 1
        match self.watches:
            case 1:
                await response.write(event("ADDED", "c", 11))
                self._clock.advance(3601.0)
            case 2:
                await self.listing.wait()
                await response.write(event("DELETED", "a", 12) + event("ADDED", "d", 13))
            case 3:
                assert self.mirror is not None
                self.current.append(self.mirror.is_current(30.0))
                assert names(self.mirror) == {"b", "c", "d"}
                self.released.set()
                await asyncio.sleep(0.2)
            case _:
                self.done.set()
                await asyncio.sleep(60)
        return response


def test_everything_is_listed_again_while_the_watch_goes_on() -> None:
    """And what neither list nor watch has, such as an object whose end was lost, goes."""

    async def run() -> None:
        clock = ManualClock(100.0)
        played, app = Slow(clock), web.Application()
        app.router.add_get("/api/v1/pods", played.handle)
        async with TestServer(app) as server:
            api = api_of(str(server.make_url("")), "secret")
            played.mirror = mirror = Mirror[str](api, "/api/v1/pods", Pod, name_of, clock)
            task = asyncio.create_task(mirror.run())
            try:
                await asyncio.wait_for(played.done.wait(), 5)
                assert (played.lists, played.current) == (2, [True])
                assert names(mirror) == {"b", "d"}
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                await api.close()

    asyncio.run(run())
