"""Whatever a server answers, it leads the client nowhere else and does not fill its memory."""

import asyncio
import gzip
from collections.abc import Awaitable, Callable

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from services._kit import http

LIMIT = 10_000
Handle = Callable[[web.Request], Awaitable[web.StreamResponse]]


@pytest.fixture(autouse=True)
def _small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "LARGEST_ANSWER", LIMIT)


def asked(handle: Handle, method: str = "GET", timeout_s: float = 10.0) -> tuple[int, bytes, int]:
    """Status, body, and the cookies that are kept."""

    async def run() -> tuple[int, bytes, int]:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", handle)
        async with TestServer(app) as server, http.client_session() as session:
            url = str(server.make_url("/here"))
            limit = aiohttp.ClientTimeout(total=timeout_s)
            status, body = await http.request(session, method, url, timeout=limit, data=b"secret")
            return status, body, len(session.cookie_jar)

    return asyncio.run(run())


def test_an_answer_up_to_the_limit_is_read() -> None:
    async def handle(_: web.Request) -> web.Response:
        return web.Response(status=404, body=b"x" * LIMIT)

    assert asked(handle) == (404, b"x" * LIMIT, 0)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("method", ["GET", "POST", "PUT"])
def test_no_redirect_is_followed(status: int, method: str) -> None:
    paths = []

    async def handle(request: web.Request) -> web.Response:
        paths.append(request.path)
        return web.Response(status=status, headers={"Location": "/elsewhere"})

    assert asked(handle, method)[0] == status
    assert paths == ["/here"]


@pytest.mark.parametrize("body", [b"x" * (LIMIT + 1), gzip.compress(b"x" * 100 * LIMIT)])
def test_an_answer_beyond_the_limit_is_refused(body: bytes) -> None:
    async def handle(_: web.Request) -> web.Response:
        coding = {"Content-Encoding": "gzip"} if body.startswith(b"\x1f\x8b") else {}
        return web.Response(body=body, headers=coding)

    with pytest.raises(aiohttp.ClientPayloadError, match="10,000 bytes"):
        asked(handle)


def test_an_endless_answer_is_refused() -> None:
    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"x" * 1000)

    with pytest.raises(aiohttp.ClientPayloadError):
        asked(handle)


def test_an_answer_that_drips_ends_with_the_timeout() -> None:
    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"x")
            await asyncio.sleep(0.01)

    with pytest.raises(TimeoutError):
        asked(handle, timeout_s=0.2)


def test_no_cookie_is_kept() -> None:
    async def handle(_: web.Request) -> web.Response:
        response = web.Response()
        for number in range(50):
            response.set_cookie(f"name{number}", "value")
        return response

    assert asked(handle) == (200, b"", 0)
