"""A proxy between the actuator and its target, which answers late, wrongly or not at all."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Literal

import aiohttp
from aiohttp import web

Behaviour = Literal["pass", "slow", "conflict", "busy", "error", "ambiguous"]
"""slow: answers after the actuator's timeout. conflict: 409. busy: 429. error: 503. ambiguous: the
write is made and the answer is lost."""
BEHAVIOURS: Final[tuple[Behaviour, ...]] = ("slow", "conflict", "busy", "error", "ambiguous")
_STATUS: Final = {"conflict": 409, "busy": 429, "error": 503}
_SLOW_S: Final = 8.0
"""Longer than an actuator waits for an answer."""
_BROKEN_SHARE: Final = 3
"""Of this many requests one passes, so that a tick closes now and then."""


class FlakyTarget:
    """Forwards to `upstream` as `behaviour` says; both may be set while it runs."""

    def __init__(self) -> None:
        self.upstream = ""
        self.behaviour: Behaviour = "pass"
        self.port = 0
        self._requests = 0

    @property
    def url(self) -> str:
        """What the actuator is told to write to."""
        return f"http://127.0.0.1:{self.port}"

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Forward a request, or break it."""
        try:
            return await self._answer(request)
        except (aiohttp.ClientError, ConnectionError):
            # One of the two sides was killed or gave up.
            return web.Response(status=502)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        behaviour, self._requests = self.behaviour, self._requests + 1
        if behaviour == "pass" or self._requests % _BROKEN_SHARE == 0:
            return await self._forward(request)
        if behaviour in _STATUS:
            return web.Response(status=_STATUS[behaviour], text=behaviour)
        if behaviour == "slow":
            await asyncio.sleep(_SLOW_S)
            return await self._forward(request)
        await self._forward(request)
        # Ambiguous: the write is made, and the connection ends without an answer.
        if request.transport is not None:
            request.transport.close()
        return web.Response(status=500)

    async def _forward(self, request: web.Request) -> web.Response:
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


@contextmanager
def flaky_target() -> Iterator[FlakyTarget]:
    """A proxy on a free port of the loopback, in a thread of its own."""
    target, started = FlakyTarget(), threading.Event()
    loop = asyncio.new_event_loop()

    async def serve() -> web.AppRunner:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", target.answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        target.port = runner.addresses[0][1]
        return runner

    def work() -> None:
        asyncio.set_event_loop(loop)
        runner = loop.run_until_complete(serve())
        started.set()
        loop.run_forever()
        loop.run_until_complete(runner.cleanup())
        loop.close()

    thread = threading.Thread(target=work, name="flaky-target", daemon=True)
    thread.start()
    started.wait()
    try:
        yield target
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
