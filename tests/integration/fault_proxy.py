"""A proxy before a real API server that refuses writes, or loses their answers, by a script."""

import random
import ssl
from collections import Counter
from dataclasses import dataclass, field
from typing import Final, Literal

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer

from services._kit.kubernetes.credentials import Access
from services.devcluster.processes import HOST
from services.lab.controlplane import Lab

Fault = Literal["none", "conflict", "busy", "broken", "cut-before", "cut-after"]
STATUSES: Final[dict[Fault, int]] = {"conflict": 409, "busy": 429, "broken": 503}
FAULTS: Final[tuple[Fault, ...]] = ("none", "conflict", "busy", "broken", "cut-before", "cut-after")


@dataclass
class FaultProxy:
    """Every write suffers a random fault, or none; reads pass."""

    lab: Lab
    access: Access
    seed: int
    suffered: Counter[Fault] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._tls = ssl.create_default_context(cafile=str(self.lab.authority))
        self._session: aiohttp.ClientSession | None = None
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._pass_on)
        self._server = TestServer(app, host=HOST)

    async def start(self) -> str:
        """Its URL."""
        self._session = aiohttp.ClientSession()
        await self._server.start_server()
        return str(self._server.make_url("")).rstrip("/")

    async def close(self) -> None:
        """Stop."""
        await self._server.close()
        if self._session is not None:
            await self._session.close()

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        fault: Fault = self._random.choice(FAULTS) if request.method == "PATCH" else "none"
        self.suffered[fault] += 1
        if fault in STATUSES:
            headers = {"Retry-After": "1"} if fault == "busy" else {}
            body = {"kind": "Status", "message": f"injected {fault}"}
            return web.json_response(body, status=STATUSES[fault], headers=headers)
        if fault == "cut-before":
            return _cut(request)
        assert self._session is not None
        headers = {name: request.headers[name] for name in _FORWARDED if name in request.headers}
        headers["Authorization"] = f"Bearer {self.access.token.current()}"
        async with self._session.request(
            request.method,
            self.lab.server + request.path_qs,
            data=await request.read() or None,
            headers=headers,
            ssl=self._tls,
        ) as answer:
            body_bytes = await answer.read()
        if fault == "cut-after":
            return _cut(request)
        return web.Response(status=answer.status, body=body_bytes, content_type="application/json")


_FORWARDED: Final = ("Content-Type", "Audit-ID", "Accept")


def _cut(request: web.Request) -> web.Response:
    """End the connection without an answer."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()
