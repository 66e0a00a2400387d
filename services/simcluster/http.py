"""The cluster's HTTP API. Bodies are JSON; errors are problem details (RFC 9457)."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final, TypeVar

import msgspec
from aiohttp import web

from schemas.capacity_requested import CapacityRequested
from services._kit.http import MALFORMED
from services.simcluster import exporter
from services.simcluster.cluster import RequestRefused, UnknownDomain
from services.simcluster.live import LiveCluster
from services.simcluster.target import Change, Entry, Numbers, Outcome, Present

log = logging.getLogger(__name__)

LONGEST_WAIT_S: Final = 60.0
DEFAULT_WAIT_S: Final = 30.0
_LARGEST_BODY: Final = 16 * 1024 * 1024
"""Bytes. aiohttp's default of 1 MiB would refuse a tick that changes several thousand apps."""
_JOURNAL_CHUNK: Final = 1_000
"""Entries that are encoded before other requests get a turn."""
_JSON: Final = "application/json"
_PROBLEM: Final = "application/problem+json"

T = TypeVar("T")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Changes(msgspec.Struct, frozen=True):
    """Changes of a domain's tick; an empty list closes it too."""

    changes: list[Change] = []


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """Result of the changes of a domain's tick."""

    domain: str
    tick: int
    cluster_tick: int
    """Tick of the step that carries them out."""
    answers: dict[str, Outcome]
    """By app."""
    detail: str = ""
    """Why changes were refused."""


class AppState(msgspec.Struct, frozen=True, kw_only=True):
    """Last decision about an app, and what it has."""

    decision_id: str
    """Empty before the first decision: then the numbers are the present ones."""
    asked: Numbers
    present: Present


class DomainState(msgspec.Struct, frozen=True, kw_only=True):
    """What a controller needs to decide, and after a restart."""

    domain: str
    cluster_tick: int
    closed_tick: int
    """-1 before the first."""
    apps: dict[str, AppState]


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """An error (RFC 9457)."""

    status: int
    title: str
    detail: str
    type: str = "about:blank"


class Api:
    """The routes. `ready` returns whether node requests would arrive."""

    def __init__(self, live: LiveCluster, ready: Callable[[], bool]) -> None:
        self._live, self._cluster, self._ready = live, live.cluster, ready
        self._making_history = asyncio.Lock()

    def application(self) -> web.Application:
        """The aiohttp application, for the server and for tests."""
        app = web.Application(middlewares=[problems], client_max_size=_LARGEST_BODY)
        app.add_routes(
            [
                web.get("/v1/inventory", self._inventory),
                web.get("/v1/calendar", self._calendar),
                web.get("/v1/history", self._history),
                web.get("/v1/observation", self._observation),
                web.get("/v1/domains/{domain}", self._read_back),
                web.put("/v1/domains/{domain}/ticks/{tick}", self._write),
                web.put("/v1/pools/{pool}/request", self._request_capacity),
                web.get("/v1/journal", self._journal),
                web.get("/v1/results", self._results),
                web.get("/metrics", self._metrics),
                web.get("/healthz", self._healthz),
                web.get("/readyz", self._readyz),
            ]
        )
        return app

    async def _inventory(self, _: web.Request) -> web.Response:
        return _json(self._cluster.inventory())

    async def _calendar(self, _: web.Request) -> web.Response:
        return _json(self._cluster.calendar())

    async def _history(self, _: web.Request) -> web.Response:
        # Takes seconds in a large cluster; it reads constant data, so a thread is safe. One at a
        # time: a client that gave up asks again while the first one is still being made.
        async with self._making_history:
            return _json(await asyncio.to_thread(self._cluster.history))

    async def _observation(self, request: web.Request) -> web.Response:
        """Long-poll for a tick after `after`; 204 if there is none in time."""
        after = _integer(request.query.get("after", "-1"), "after")
        wait_s = min(_seconds(request.query.get("wait", str(DEFAULT_WAIT_S))), LONGEST_WAIT_S)
        if after > self._cluster.tick:
            raise RequestRefused(
                f"tick {after} is in the future: the cluster is at tick {self._cluster.tick}, "
                "so it was restarted"
            )
        try:
            async with asyncio.timeout(wait_s):
                return _json(await self._live.newer_than(after))
        except TimeoutError:
            return web.Response(status=204)

    async def _write(self, request: web.Request) -> web.Response:
        domain, tick = request.match_info["domain"], _integer(request.match_info["tick"], "tick")
        body = _decoded(await request.read(), Changes)
        entries = self._live.apply(domain, tick, body.changes)
        return _json(
            Written(
                domain=domain,
                tick=tick,
                cluster_tick=self._cluster.tick,
                answers={entry.app: entry.outcome for entry in entries},
                detail=_why_refused(domain, entries),
            )
        )

    async def _read_back(self, request: web.Request) -> web.Response:
        domain = request.match_info["domain"]
        stored = self._cluster.read_back(domain)
        return _json(
            DomainState(
                domain=domain,
                cluster_tick=self._cluster.tick,
                closed_tick=self._cluster.closed_tick(domain),
                apps={
                    app: AppState(
                        decision_id=last.decision_id, asked=last.numbers, present=last.present
                    )
                    for app, last in stored.items()
                },
            )
        )

    async def _request_capacity(self, request: web.Request) -> web.Response:
        wanted = _decoded(await request.read(), CapacityRequested)
        if wanted.pool != request.match_info["pool"]:
            raise web.HTTPBadRequest(
                text=f"pool: expected {request.match_info['pool']}, got {wanted.pool}"
            )
        return _json({"pool": wanted.pool, "answer": self._live.request_capacity(wanted)})

    async def _journal(self, request: web.Request) -> web.StreamResponse:
        """Every write as a line of JSON; `after` is the last sequence number to skip."""
        # Below -1 a slice would count from the end.
        first = max(0, _integer(request.query.get("after", "-1"), "after") + 1)
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        await response.prepare(request)
        # The slice is a snapshot: writes that arrive meanwhile are left to the next request.
        async for chunk in _in_chunks(self._cluster.journal[first:]):
            await response.write(chunk)
        await response.write_eof()
        return response

    async def _results(self, _: web.Request) -> web.Response:
        return _json(self._cluster.results())

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(
            body=self._live.exporter.text().encode(),
            headers={"Content-Type": exporter.CONTENT_TYPE},
        )

    async def _healthz(self, _: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _readyz(self, _: web.Request) -> web.Response:
        if self._ready():
            return web.Response(text="ready\n")
        raise web.HTTPServiceUnavailable(text="the provisioner does not receive node requests yet")


@web.middleware
async def problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn every error into a problem response."""
    try:
        return await handler(request)
    # The subclass first: it has another status.
    except UnknownDomain as error:
        return _problem(404, str(error))
    except RequestRefused as error:
        return _problem(409, str(error))
    except web.HTTPException as error:
        return _problem(error.status, error.text or error.reason)
    except Exception:
        log.exception("%s %s failed", request.method, request.path)
        return _problem(500, "internal error, see the log of the simulated cluster")


def _why_refused(domain: str, entries: list[Entry]) -> str:
    refused = [entry.app for entry in entries if entry.outcome == "refused"]
    return f"unknown apps in {domain}: {', '.join(refused)}" if refused else ""


def _problem(status: int, detail: str) -> web.Response:
    title = web.Response(status=status).reason
    body = Problem(status=status, title=title, detail=detail)
    return web.Response(body=msgspec.json.encode(body), status=status, content_type=_PROBLEM)


def _json(value: Any) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type=_JSON)


def _decoded(body: bytes, kind: type[T]) -> T:
    try:
        # An empty body is a write, too: it closes the tick without changes.
        return msgspec.json.decode(body or b"{}", type=kind)
    except MALFORMED as error:
        raise web.HTTPBadRequest(text=f"body: {error}") from None


def _integer(text: str, name: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise web.HTTPBadRequest(text=f"{name}: expected a whole number, got {text!r}") from None


def _seconds(text: str) -> float:
    try:
        return max(0.0, float(text))
    except ValueError:
        raise web.HTTPBadRequest(text=f"wait: expected seconds, got {text!r}") from None


async def _in_chunks(entries: Any) -> AsyncIterator[bytes]:
    """Chunks, yielding to other requests in between."""
    # A long run has a journal of many MB: encoded at once, it would block all other requests.
    encoder = msgspec.json.Encoder()
    for start in range(0, len(entries), _JOURNAL_CHUNK):
        piece: list[Entry] = entries[start : start + _JOURNAL_CHUNK]
        yield encoder.encode_lines(piece)
        await asyncio.sleep(0)
