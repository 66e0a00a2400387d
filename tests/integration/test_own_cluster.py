"""An operator's own cluster file is enough to start every service but the simulated cluster."""

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from services.devcluster.connect import Running

SMALLEST = Path("infra/examples/cluster.yaml")
SERVICES = (
    "aggregator", "forecaster", "commander", "soldier", "actuator", "breaker", "collector",
)  # fmt: skip
TIMEOUT_S = 180.0
"""Kernels may have to be compiled first."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def started(
    service: str, bootstrap: str, port: int, log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    environment = {
        **os.environ,
        "HIRL_KAFKA_BOOTSTRAP": bootstrap,
        "HIRL_METRICS_PORT": str(port),
        f"HIRL_{service.upper()}_CLUSTER": str(SMALLEST),
    }
    if service == "collector":
        # No Prometheus listens there: the collector starts anyway and keeps retrying.
        environment |= {
            "HIRL_COLLECTOR_SOURCE": "prometheus",
            "HIRL_COLLECTOR_URL": f"http://127.0.0.1:{free_port()}",
        }
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", f"services.{service}"], env=environment, stderr=output
        )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)


def wait_until_ready(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline, answer = time.monotonic() + TIMEOUT_S, "no answer"
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2):
                return
        except urllib.error.HTTPError as error:
            answer = error.read().decode()
        except OSError as error:
            answer = str(error)
        time.sleep(0.5)
    pytest.fail(f"not ready after {TIMEOUT_S:.0f} s: {answer}\n{log.read_text()}")


def test_every_service_starts_with_the_smallest_cluster_file(
    kafka: Running, tmp_path: Path
) -> None:
    ports = {service: free_port() for service in SERVICES}
    with ExitStack() as stack:
        processes = {
            service: stack.enter_context(
                started(service, kafka.bootstrap, port, tmp_path / f"{service}.log")
            )
            for service, port in ports.items()
        }
        for service, process in processes.items():
            wait_until_ready(process, ports[service], tmp_path / f"{service}.log")
