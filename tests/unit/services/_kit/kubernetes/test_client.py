"""Lists are read page by page, calls keep to their budget, and answers sort by what to do next."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from services._kit.kubernetes.client import Answer, Calls, Denied, KubernetesApi, Unreachable
from services._kit.kubernetes.objects import Pod
from tests.kubernetes_helpers import api_of

Handle = Callable[[web.Request], Awaitable[web.Response]]


def ask(handle: Handle, question: Callable[[KubernetesApi], Awaitable[object]]) -> object:
    async def run() -> object:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", handle)
        async with TestServer(app) as server:
            api = api_of(str(server.make_url("")), "secret")
            try:
                return await question(api)
            finally:
                await api.close()

    return asyncio.run(run())


def test_a_list_is_read_page_by_page() -> None:
    seen: list[tuple[str, str]] = []

    async def handle(request: web.Request) -> web.Response:
        resume = request.query.get("continue", "")
        seen.append((request.headers["Authorization"], resume))
        number = int(resume or 0)
        meta = {"resourceVersion": "7", "continue": str(number + 1) if number < 2 else ""}
        items = [{"metadata": {"name": f"p{number}"}}]
        return web.json_response({"metadata": meta, "items": items})

    found = ask(handle, lambda api: api.list("/api/v1/pods", Pod))
    assert [one.metadata.name for one in found.items] == ["p0", "p1", "p2"]  # type: ignore[attr-defined]
    assert found.version == "7"  # type: ignore[attr-defined]
    assert seen == [("Bearer secret", resume) for resume in ("", "1", "2")]


@pytest.mark.parametrize("status", [401, 408, 410, 429, 500, 503])
def test_a_list_that_may_work_later_raises_unreachable(status: int) -> None:
    async def handle(_: web.Request) -> web.Response:
        return web.Response(status=status)

    with pytest.raises(Unreachable, match=str(status)):
        ask(handle, lambda api: api.list("/api/v1/pods", Pod))


def test_a_list_that_we_may_not_read_raises_denied_with_the_servers_words() -> None:
    async def handle(_: web.Request) -> web.Response:
        return web.json_response({"message": "pods is forbidden"}, status=403)

    with pytest.raises(Denied, match="403: pods is forbidden"):
        ask(handle, lambda api: api.list("/api/v1/pods", Pod))


@pytest.mark.parametrize("body", [b"", b"{", b'{"items": [{}]}', b"[" * 100_000])
def test_a_malformed_list_is_no_empty_list(body: bytes) -> None:
    async def handle(_: web.Request) -> web.Response:
        return web.Response(body=body)

    with pytest.raises(Unreachable):
        ask(handle, lambda api: api.list("/api/v1/pods", Pod))


def test_what_the_server_asks_for_is_bounded() -> None:
    async def handle(_: web.Request) -> web.Response:
        return web.Response(status=429, headers={"Retry-After": "86400"})

    found = ask(handle, lambda api: api.request("GET", "/x"))
    assert isinstance(found, Answer)
    assert found.retry_after_s == 30.0


def test_calls_beyond_a_burst_wait_for_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    async def run() -> None:
        calls = Calls(10.0)
        for _ in range(15):
            await calls.take()

    monkeypatch.setattr(asyncio, "sleep", sleep)
    asyncio.run(run())
    assert len(slept) == 5
    assert slept == sorted(slept)
    assert 0.0 < slept[0] <= 0.11
