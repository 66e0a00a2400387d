"""A proxy between the actuator and its target, which answers late, wrongly or not at all."""

import asyncio
from typing import Final, Literal

from aiohttp import web

from services.measure.chaos.proxy import Proxy

Behaviour = Literal["pass", "slow", "conflict", "busy", "error", "ambiguous"]
"""slow: answers after the actuator's timeout. conflict: 409. busy: 429. error: 503. ambiguous: the
write is made and the answer is lost."""
BEHAVIOURS: Final[tuple[Behaviour, ...]] = ("slow", "conflict", "busy", "error", "ambiguous")
_STATUS: Final = {"conflict": 409, "busy": 429, "error": 503}
_SLOW_S: Final = 8.0
"""Delay of a slow answer, longer than the actuator's timeout."""
_BROKEN_SHARE: Final = 3
"""One of this many requests passes, so that a tick closes now and then."""


class FlakyTarget(Proxy):
    """Forwards as `behaviour` says, which may be set while it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.behaviour: Behaviour = "pass"
        self._requests = 0

    async def respond(self, request: web.Request) -> web.StreamResponse:
        """Forward a request, or break it."""
        behaviour, self._requests = self.behaviour, self._requests + 1
        if behaviour == "pass" or self._requests % _BROKEN_SHARE == 0:
            return await self.forward(request)
        if behaviour in _STATUS:
            return web.Response(status=_STATUS[behaviour], text=behaviour)
        if behaviour == "slow":
            await asyncio.sleep(_SLOW_S)
            return await self.forward(request)
        await self.forward(request)
        # Ambiguous: the write is made, and the connection ends without an answer.
        if request.transport is not None:
            request.transport.close()
        return web.Response(status=500)
