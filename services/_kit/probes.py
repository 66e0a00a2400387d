"""The HTTP server for Prometheus and probes: /metrics, /healthz, /readyz.

It runs in a thread with an event loop of its own, so that probes notice a stuck service. A client
that reaches the port cannot exhaust the process: connections are few, each has a deadline,
and of too many the oldest that has not sent a request yet is closed.
"""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from threading import Thread
from typing import Final, NamedTuple

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from services._kit.errors import BadSettings
from services._kit.telemetry import STUCK, Telemetry

MOST_CONNECTIONS: Final = 64
DEADLINE_S: Final = 5.0
"""Timeout of a connection: for its request to arrive and its answer to be read."""
_LARGEST_REQUEST: Final = 8 * 1024
_LARGEST_PORT: Final = 65_535
_BACKLOG: Final = 128
_TEXT: Final = "text/plain; charset=utf-8"


class _Page(NamedTuple):
    status: HTTPStatus
    kind: str
    body: bytes


@contextmanager
def serving(telemetry: Telemetry, host: str, port: int) -> Iterator[int]:
    """Serve until the block ends; yields the port, which the system chooses for 0."""
    listener = _listening(host, port)
    loop = asyncio.new_event_loop()
    server = _Server(telemetry)
    task = loop.create_task(server.serve(listener))

    def run() -> None:
        with suppress(asyncio.CancelledError):
            loop.run_until_complete(task)
        loop.close()

    thread = Thread(target=run, name="probes", daemon=True)
    thread.start()
    try:
        yield int(listener.getsockname()[1])
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join()
        # The server closes it, unless the block ended before it began.
        listener.close()


def _listening(host: str, port: int) -> socket.socket:
    # Checked here: for such a port `create_server` fails without closing its socket.
    if port > _LARGEST_PORT:
        raise _unavailable(host, port, f"the largest port is {_LARGEST_PORT}")
    try:
        return socket.create_server((host, port), backlog=_BACKLOG)
    except OSError as error:
        raise _unavailable(host, port, str(error)) from error


def _unavailable(host: str, port: int, why: str) -> BadSettings:
    return BadSettings(
        f"metrics_port (HIRL_METRICS_PORT): cannot listen at {host}:{port}, {why}; "
        "choose another, 0 for any"
    )


class _Server:
    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        self._open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        """Connections, oldest first."""

    async def serve(self, listener: socket.socket) -> None:
        """Serve until cancelled."""
        server = await asyncio.start_server(self._connected, sock=listener, limit=_LARGEST_REQUEST)
        try:
            await server.serve_forever()
        finally:
            server.close()
            for task in list(self._open):
                task.cancel()
            await asyncio.gather(*self._open, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  asyncio runs this in a task
        if len(self._open) >= MOST_CONNECTIONS:
            # A probe is answered within milliseconds, so the oldest one is idle.
            self._open.pop(next(iter(self._open))).transport.abort()
        self._open[task] = writer
        try:
            async with asyncio.timeout(DEADLINE_S):
                await self._answer(reader, writer)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            writer.transport.abort()
        except asyncio.CancelledError:
            # The server ends. asyncio would log a traceback for each connection.
            writer.transport.abort()
        finally:
            self._open.pop(task, None)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        method, _, rest = request.partition(b" ")
        page = _page(self._telemetry, rest.partition(b" ")[0].decode(errors="replace"))
        if method not in (b"GET", b"HEAD"):
            page = _Page(HTTPStatus.METHOD_NOT_ALLOWED, _TEXT, b"GET or HEAD\n")
        head = (
            f"HTTP/1.1 {page.status.value} {page.status.phrase}\r\n"
            f"Content-Type: {page.kind}\r\nContent-Length: {len(page.body)}\r\n"
            "Connection: close\r\n\r\n"
        )
        writer.write(head.encode() + (b"" if method == b"HEAD" else page.body))
        await writer.drain()


def _page(telemetry: Telemetry, target: str) -> _Page:
    health = telemetry.health
    match target.partition("?")[0]:
        case "/metrics":
            return _Page(HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest(telemetry.registry))
        case "/healthz":
            return _report("alive", "" if health.alive() else STUCK)
        case "/readyz":
            return _report("ready", health.missing())
        case _:
            return _Page(HTTPStatus.NOT_FOUND, _TEXT, b"/metrics /healthz /readyz\n")


def _report(good: str, missing: str) -> _Page:
    status = HTTPStatus.SERVICE_UNAVAILABLE if missing else HTTPStatus.OK
    return _Page(status, _TEXT, f"{missing or good}\n".encode())
