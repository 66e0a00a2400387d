"""An HTTP proxy on the loopback, in a thread of its own; subclasses change what passes."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import aiohttp
from aiohttp import web


class Proxy:
    """Forwards to `upstream`, which may be set while it runs."""

    def __init__(self) -> None:
        self.upstream = ""
        self.port = 0

    @property
    def url(self) -> str:
        """URL for its client."""
        return f"http://127.0.0.1:{self.port}"

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer a request, whatever becomes of the other side."""
        try:
            return await self.respond(request)
        except (aiohttp.ClientError, ConnectionError):
            # One of the two sides was killed or gave up.
            return web.Response(status=502)

    async def respond(self, request: web.Request) -> web.StreamResponse:
        """Forward a request; subclasses break it."""
        return await self.forward(request)

    async def forward(self, request: web.Request) -> web.Response:
        """The answer of the other side."""
        body = await request.read()
        async with (
            aiohttp.ClientSession() as session,
            session.request(request.method, self.upstream + request.path_qs, data=body) as response,
        ):
            return web.Response(
                status=response.status,
                body=await response.read(),
                content_type=response.content_type,
            )


P = TypeVar("P", bound=Proxy)


@contextmanager
def serving(proxy: P) -> Iterator[P]:
    """The proxy, on a free port of the loopback."""
    started, loop = threading.Event(), asyncio.new_event_loop()

    async def serve() -> web.AppRunner:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", proxy.answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        proxy.port = runner.addresses[0][1]
        return runner

    def work() -> None:
        asyncio.set_event_loop(loop)
        runner = loop.run_until_complete(serve())
        started.set()
        loop.run_forever()
        loop.run_until_complete(runner.cleanup())
        loop.close()

    thread = threading.Thread(target=work, name=type(proxy).__name__, daemon=True)
    thread.start()
    started.wait()
    try:
        yield proxy
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
