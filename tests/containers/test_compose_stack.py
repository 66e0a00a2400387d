"""The Compose file, unchanged, on a real Docker engine: from a build without cache to the end.

`make test-containers` runs it: it needs root, Debian's docker.io, iptables, debootstrap and Go, and
takes about half an hour.
"""

import json
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import psutil
import pytest

from tests.containers import image_helpers
from tests.containers.engine_helpers import Engine

log = logging.getLogger(__name__)

_IMAGE: Final = "hirl-scale:0.1.0"
_CLUSTER: Final = "http://127.0.0.1:8700"
_SERVICES: Final = ("aggregator", "forecaster", "commander", "soldier", "actuator", "breaker")
_UP_S: Final = 900.0
_END_S: Final = 3600.0
_PAUSE_S: Final = 1.0


class Stack:
    """The project of the Compose file."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def container(self, service: str) -> str:
        return f"hirl-scale-{service}-1"

    def tick(self) -> int:
        """The cluster's tick; -1 while it does not answer."""
        answer = self.engine.get(f"{_CLUSTER}/v1/domains/payments")
        return int(json.loads(answer)["cluster_tick"]) if answer else -1

    def finished(self) -> bool:
        answer = self.engine.get(f"{_CLUSTER}/v1/observation?after=-1&wait=0")
        return bool(answer) and bool(json.loads(answer)["finished"])

    def started_at(self, service: str) -> float:
        state = self.engine.inspect(self.container(service))["State"]
        # Nanoseconds, which Python does not read.
        return datetime.fromisoformat(f"{state['StartedAt'][:26]}+00:00").timestamp()

    def seconds_to_a_decision(self, service: str) -> float:
        """From the start of its container to the next tick, which closes only if it decides."""
        started, tick = self.started_at(service), self.tick()
        until(lambda: self.tick() > tick, _UP_S)
        return time.time() - started

    def kill(self, service: str) -> None:
        """As a crash: for the engine, `docker kill` is a stop by hand."""
        before = self.engine.inspect(self.container(service))
        for child in psutil.Process(before["State"]["Pid"]).children(recursive=True):
            child.kill()
        until(lambda: self.started_at(service) > _stamp(before), 60)

    def lines(self, service: str) -> list[dict[str, Any]]:
        """What it logged; a line that is no JSON fails."""
        text = self.engine.compose("logs", "--no-log-prefix", "--no-color", service)
        return [json.loads(line) for line in text.splitlines()]


def _stamp(inspected: dict[str, Any]) -> float:
    started = inspected["State"]["StartedAt"][:26]
    return datetime.fromisoformat(f"{started}+00:00").timestamp()


def until(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(_PAUSE_S)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    if os.geteuid() or not shutil.which("dockerd"):
        pytest.skip("needs root and Debian's docker.io, iptables and debootstrap")
    made = Engine(Path(".hirl/containers"), image_helpers.compose())
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="module")
def built(engine: Engine) -> Engine:
    """The image is built without a cache; from here on there is no network."""
    engine.build_with_network()
    image_helpers.stand_in(engine)
    began = time.monotonic()
    file = "infra/docker/Dockerfile"
    engine.docker("build", "--no-cache", "--network=host", "-f", file, "-t", _IMAGE, ".")
    seconds = time.monotonic() - began
    images = (_IMAGE, "python:3.11-slim")
    sizes = [int(engine.docker("inspect", "-f", "{{.Size}}", one)) / 1e6 for one in images]
    log.info("built in %.0f s, %.0f MB, of which %.0f MB are its base", seconds, *sizes)
    engine.stop()
    engine.run_without_network()
    return engine


@pytest.fixture(scope="module")
def stack(built: Engine) -> Iterator[Stack]:
    began = time.monotonic()
    try:
        built.compose("up", "--detach")
        log.info("up after %.0f s", time.monotonic() - began)
        yield Stack(built)
    finally:
        built.compose("down", "--volumes", "--timeout", "20")


def test_the_image_runs_without_rights_and_has_no_compiler(built: Engine) -> None:
    run = ("run", "--rm", "--read-only", "--network=none", _IMAGE)
    assert built.docker(*run, "id", "-u").strip() == "10001"
    for tool in ("gcc", "cc", "ld", "make", "pip", "uv"):
        assert not built.docker(*run, "sh", "-c", f"command -v {tool} || true").strip(), tool


def test_kernels_of_the_image_are_loaded_where_nothing_can_be_written(built: Engine) -> None:
    code = (
        "import models.jit as jit, services.devcluster.kernels as k; "
        "k._prepare_services(); "
        "print(sum(sum(f.stats.cache_misses.values()) for f in jit._kernels))"
    )
    run = ("run", "--rm", "--read-only", "--network=none", _IMAGE, "python", "-c", code)
    assert built.docker(*run).strip() == "0"


def test_a_one_off_command_is_not_called_unhealthy(built: Engine) -> None:
    name = "one-off"
    built.docker("run", "--detach", "--network=none", "--name", name, _IMAGE, "sleep", "60")
    assert "Health" not in built.inspect(name)["State"]
    built.docker("rm", "--force", name)


def test_the_stack_reaches_the_end_of_its_scenario_through_a_kill_and_a_restart(
    stack: Stack,
) -> None:
    until(lambda: stack.tick() > 0, _UP_S)
    for name, after in (("soldier", 60), ("aggregator", 120)):
        until(lambda after=after: stack.tick() > after, _END_S)  # type: ignore[misc]
        stack.kill(name)
        log.info("%s decides %.1f s after its start", name, stack.seconds_to_a_decision(name))
    until(lambda: stack.tick() > 180, _END_S)
    stack.engine.compose("restart", "commander")
    log.info("commander decides %.1f s after its start", stack.seconds_to_a_decision("commander"))
    began = time.monotonic()
    until(stack.finished, _END_S)
    log.info("tick %d, the last, %.0f s later", stack.tick(), time.monotonic() - began)


def test_every_change_was_made_once(stack: Stack) -> None:
    lines = stack.engine.get(f"{_CLUSTER}/v1/journal").splitlines()
    made = [one for one in map(json.loads, lines) if one["outcome"] == "applied"]
    assert len({(one["app"], one["decision_id"]) for one in made}) == len(made) > 1000


def test_afterwards_every_service_is_healthy_and_none_is_restarted_for_ever(stack: Stack) -> None:
    time.sleep(30)
    for name in (*_SERVICES, "collector", "simcluster", "kafka", "prometheus"):
        found = stack.engine.inspect(stack.container(name))
        assert found["State"]["Health"]["Status"] == "healthy", name
        assert found["RestartCount"] == (name in {"soldier", "aggregator"}), name
        assert not found["State"]["OOMKilled"], name


def test_nothing_became_a_dead_letter(stack: Stack) -> None:
    query = "http://127.0.0.1:9090/api/v1/query?query=sum(hirl_dead_letters_total)%20or%20vector(0)"
    (found,) = json.loads(stack.engine.get(query))["data"]["result"]
    assert float(found["value"][1]) == 0


@pytest.mark.parametrize("service", [*_SERVICES, "collector", "simcluster"])
def test_logs_say_who_wrote_them_and_libraries_are_quiet(stack: Stack, service: str) -> None:
    lines = stack.lines(service)
    names = {line["instance"] for line in lines}
    assert names == {stack.engine.inspect(stack.container(service))["Id"][:12]}
    ours = ("services", "models", "schemas")
    foreign = [line for line in lines if not line["logger"].startswith(ours)]
    assert [line for line in foreign if line["logger"].startswith("faust")] == []
    log.info("%s: %d lines, %d of libraries", service, len(lines), len(foreign))


def test_probes_cost_little(stack: Stack) -> None:
    usage = "import resource; print(sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]))"
    code = f"import subprocess; [subprocess.run(['probe', '/readyz']) for _ in range(10)]; {usage}"
    spent = float(stack.engine.docker("exec", stack.container("soldier"), "python", "-c", code))
    log.info("a probe costs %.3f s of CPU", spent / 10)
