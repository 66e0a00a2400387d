"""A small HTTP server: /metrics for Prometheus, /healthz and /readyz for whoever probes.

It runs in a thread of its own, so that a stuck event loop is seen as one.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from services._kit.settings import BadSettings
from services._kit.telemetry import Telemetry

_TEXT = "text/plain; charset=utf-8"


@contextmanager
def serving(telemetry: Telemetry, host: str, port: int) -> Iterator[int]:
    """Serve while inside; gives the port, which 0 leaves to the system."""
    server = _listening(telemetry, host, port)
    thread = Thread(target=server.serve_forever, name="probes", daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _listening(telemetry: Telemetry, host: str, port: int) -> ThreadingHTTPServer:
    try:
        return ThreadingHTTPServer((host, port), _pages(telemetry))
    except (OSError, OverflowError) as error:
        raise BadSettings(
            f"metrics_port (HIRL_METRICS_PORT): cannot listen at {host}:{port}, {error}; "
            "choose another, 0 for any"
        ) from error


def _pages(telemetry: Telemetry) -> type[BaseHTTPRequestHandler]:
    class Pages(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            health = telemetry.health
            match self.path:
                case "/metrics":
                    self._answer(200, CONTENT_TYPE_LATEST, generate_latest(telemetry.registry))
                case "/healthz":
                    self._say(health.alive(), "alive", "nothing was polled for too long")
                case "/readyz":
                    self._say(health.ready(), "ready", health.missing())
                case _:
                    self._answer(404, _TEXT, b"/metrics /healthz /readyz\n")

        def _say(self, good: bool, yes: str, no: str) -> None:
            self._answer(200 if good else 503, _TEXT, f"{yes if good else no}\n".encode())

        def _answer(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Probes come every few seconds: not worth a line."""

    return Pages
