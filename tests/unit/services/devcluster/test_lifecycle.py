"""One system runs at a time, and stopping ends only its own processes."""

import os
from pathlib import Path

import pytest
from msgspec.structs import replace
from prometheus_client import generate_latest

from models.inputs.errors import InputError
from schemas.breaker_changed import BreakerChanged
from services._kit.clock import ManualClock
from services._kit.telemetry import Telemetry
from services.breaker.metrics import Metrics
from services.cli import main
from services.devcluster import launch, lifecycle, processes, record
from services.devcluster.lifecycle import wait
from services.devcluster.probe import Progress, ServiceMetrics, parse_metrics
from services.devcluster.record import ServiceStatus
from services.devcluster.request import Request
from services.devcluster.status import status_of
from tests.unit.services.system_helpers import example, run_of, spec


def test_a_second_system_is_refused_while_one_runs(tmp_path: Path) -> None:
    me = processes.of_pid(os.getpid())
    record.write(tmp_path, replace(run_of(spec("soldier")), supervisor=me))
    with pytest.raises(InputError, match=r"already running.*hirl down"):
        launch.start(Request(apps=60), tmp_path)


def test_a_start_is_refused_until_a_killed_system_is_cleaned_up(tmp_path: Path) -> None:
    record.write(tmp_path, run_of(spec("soldier")))
    with pytest.raises(InputError, match="hirl down"):
        launch.start(Request(apps=60), tmp_path)


def test_stopping_nothing_ends_nothing(tmp_path: Path) -> None:
    assert lifecycle.stop(tmp_path) is None


def test_down_without_a_system_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main.run(["down"]) == 0
    assert capsys.readouterr().out == "no system runs here, so nothing was stopped\n"


def test_stopping_does_not_end_another_process_with_a_recorded_pid(tmp_path: Path) -> None:
    me = processes.of_pid(os.getpid())
    assert me is not None
    # Another start time: the pid was reused.
    other = ServiceStatus(state="running", process=replace(me, started=0.0))
    run = replace(run_of(spec("soldier")), kafka_home=str(tmp_path / "kafka"))
    record.write(tmp_path, replace(run, statuses={"soldier": other}))
    assert lifecycle.stop(tmp_path) == 0
    assert record.read(tmp_path) is None


def test_an_unreadable_run_file_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(InputError, match="remove it if nothing"):
        record.read(tmp_path)


def test_waiting_ends_when_a_service_has_failed(tmp_path: Path) -> None:
    failed = ServiceStatus(state="failed", detail="died quickly 5 times, see soldier.log")
    run = replace(run_of(spec("soldier")), supervisor=processes.of_pid(os.getpid()))
    record.write(tmp_path, replace(run, statuses={"soldier": failed}))
    with pytest.raises(InputError, match=r"soldier\.log"):
        wait(tmp_path, ticks=1)


def test_waiting_without_a_system_says_how_to_start_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="hirl up"):
        wait(tmp_path)


@pytest.mark.parametrize(("ready", "supervised"), [(True, True), (False, True), (True, False)])
def test_a_system_is_healthy_when_it_is_ready_and_supervised(ready: bool, supervised: bool) -> None:
    run = replace(run_of(spec("soldier")), statuses={"soldier": ServiceStatus(state="running")})
    found = status_of(
        run,
        {"soldier": ServiceMetrics(ready)},
        Progress(3, 2),
        supervised=supervised,
        broker_up=True,
    )
    assert found.healthy == (ready and supervised)
    assert (found.tick, found.closed_tick) == (3, 2)


def test_open_breakers_and_fallbacks_are_listed_and_do_not_make_a_system_unhealthy() -> None:
    telemetry = Telemetry("breaker", ManualClock())
    metrics = Metrics(telemetry)
    changed = example(BreakerChanged)
    for scope, state, level in (
        ("fraud", "closed", "policy"),
        ("merchant", "closed", "heuristic"),
        ("payments", "open", "hold"),
    ):
        metrics(replace(changed, scope=scope, state=state, level=level))
    text = generate_latest(telemetry.registry).decode()
    run = replace(run_of(spec("breaker")), statuses={"breaker": ServiceStatus(state="running")})
    read = {"breaker": parse_metrics(text, None)._replace(ready=True)}
    found = status_of(run, read, Progress(3, 2), supervised=True, broker_up=True)
    assert found.breakers == {"merchant": "heuristic", "payments": "open, hold"}
    assert found.healthy
