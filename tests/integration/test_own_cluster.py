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

import msgspec
import pytest

from models.cluster.description import load_cluster
from services.collector.domains import compose
from services.collector.profiles import ScalingDomain
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
    service: str, bootstrap: str, port: int, log: Path, **settings: str
) -> Iterator[subprocess.Popen[bytes]]:
    environment = {
        **os.environ,
        **settings,
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


def test_services_end_in_good_order_when_their_domains_change_and_start_with_the_new_ones(
    kafka: Running, tmp_path: Path
) -> None:
    file, services = tmp_path / "domains.yaml", ("commander", "breaker")
    cluster = load_cluster(SMALLEST)
    for names in (("checkout", "reports", "search"), ("search",)):
        # Not there before the first round: the cluster file counts.
        ports = {service: free_port() for service in services}
        with ExitStack() as stack:
            processes = {
                service: stack.enter_context(
                    started(
                        service, kafka.bootstrap, port, tmp_path / f"{service}.log",
                        HIRL_DOMAINS=str(file),
                    )
                )
                for service, port in ports.items()
            }  # fmt: skip
            for service, process in processes.items():
                wait_until_ready(process, ports[service], tmp_path / f"{service}.log")
            file.write_text(compose(cluster, map(resource, names)).text)
            for service, process in processes.items():
                assert process.wait(TIMEOUT_S) == 0
                assert "domains.yaml has changed" in (tmp_path / f"{service}.log").read_text()


def resource(name: str) -> ScalingDomain:
    spec = {"priority": "P1", "floorShare": 0.1, "pools": ["general"]}
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, ScalingDomain)
