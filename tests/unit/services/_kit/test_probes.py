"""Probes are answered, whatever else is connected."""

import gc
import socket
import threading
import urllib.error
import urllib.request
from contextlib import ExitStack, suppress

import pytest

from services._kit import probes
from services._kit.clock import ManualClock
from services._kit.errors import BadSettings
from services._kit.probes import serving
from services._kit.telemetry import Telemetry

IDLE = 300
"""Open connections without a request."""


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_probes_answer_over_http() -> None:
    clock = ManualClock()
    telemetry = Telemetry("soldier", clock)
    telemetry.holds.labels("breaker open").inc()
    with serving(telemetry, "127.0.0.1", 0) as port:
        assert get(port, "/healthz") == (200, "alive\n")
        assert get(port, "/readyz") == (503, "reference data is being read\n")
        status, text = get(port, "/metrics")
        assert get(port, "/other")[0] == 404
        clock.advance(61)
        assert get(port, "/healthz")[0] == 503
    assert status == 200
    assert 'hirl_holds_total{reason="breaker open"} 1.0' in text
    assert 'hirl_build_info{service="soldier"' in text


@pytest.mark.parametrize("port", [None, 99_999])
def test_an_unavailable_port_is_reported_in_one_line(port: int | None) -> None:
    telemetry = Telemetry("soldier", ManualClock())
    with (
        serving(telemetry, "127.0.0.1", 0) as taken,
        pytest.raises(BadSettings, match="HIRL_METRICS_PORT"),
        serving(telemetry, "127.0.0.1", port or taken),
    ):
        pass


def test_idle_connections_cost_no_threads_and_probes_are_answered_beside_them() -> None:
    telemetry = Telemetry("soldier", ManualClock())
    with serving(telemetry, "127.0.0.1", 0) as port, ExitStack() as opened:
        before = threading.active_count()
        for _ in range(IDLE):
            opened.enter_context(socket.create_connection(("127.0.0.1", port)))
        assert get(port, "/healthz") == (200, "alive\n")
        assert threading.active_count() == before


def test_a_connection_without_a_request_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "DEADLINE_S", 0.05)
    with (
        serving(Telemetry("soldier", ManualClock()), "127.0.0.1", 0) as port,
        socket.create_connection(("127.0.0.1", port), timeout=10) as idle,
    ):
        idle.sendall(b"GET /metrics")
        with suppress(ConnectionResetError):  # closed as well
            assert idle.recv(1) == b""


@pytest.mark.parametrize(
    ("request_head", "answer"),
    [
        (b"POST /metrics HTTP/1.1\r\n\r\n", b"HTTP/1.1 405"),
        (b"HEAD /healthz HTTP/1.1\r\n\r\n", b"HTTP/1.1 200"),
        (b"GET /healthz?now HTTP/1.1\r\n\r\n", b"HTTP/1.1 200"),
        (b"\xff\xfe\r\n\r\n", b"HTTP/1.1 405"),
        (b"x" * 100_000, b""),
    ],
)
def test_any_request_is_answered_or_its_connection_closed(
    request_head: bytes, answer: bytes
) -> None:
    with (
        serving(Telemetry("soldier", ManualClock()), "127.0.0.1", 0) as port,
        socket.create_connection(("127.0.0.1", port), timeout=10) as client,
    ):
        try:
            client.sendall(request_head)
            received = client.recv(12)
        except ConnectionError:
            received = b""
        assert received == answer
        assert get(port, "/healthz") == (200, "alive\n")


def test_connections_that_are_open_at_the_end_leave_no_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with ExitStack() as opened:
        with serving(Telemetry("soldier", ManualClock()), "127.0.0.1", 0) as port:
            idle = socket.create_connection(("127.0.0.1", port))
            opened.enter_context(idle)
            idle.sendall(b"GET /met")
            assert get(port, "/healthz") == (200, "alive\n")
        gc.collect()
    assert caplog.records == []
