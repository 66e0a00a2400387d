"""`hirl up` ends cleanly on request, and says so."""

import signal
from pathlib import Path

import pytest
from msgspec.structs import replace

from services.cli.main import run
from services.cli.system import status as status_command
from services.cli.system import up as up_command
from services.devcluster import kernels, launch
from services.devcluster.probe import Progress, ServiceMetrics
from services.devcluster.record import ServiceStatus
from services.devcluster.status import SystemStatus, status_of
from tests.unit.services.system_helpers import run_of, spec

Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    ("interrupt", "code"),
    [(KeyboardInterrupt(), 130), (KeyboardInterrupt(signal.SIGTERM), 143)],
)
def test_a_start_that_is_interrupted_says_that_nothing_is_left(
    interrupt: KeyboardInterrupt,
    code: int,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    def start(*_: object) -> None:
        raise interrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(launch, "start", start)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    assert run(["up", "--apps", "60", "--follow"]) == code
    assert capsys.readouterr().out == "stopped before it was up; nothing is left running\n"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--scenario", "cascad"], "did you mean cascade?"),
        (["--bus", "memory", "--detach"], "--detach"),
        (["--bus", "memory", "--brokers", "3"], "--brokers"),
    ],
)
def test_options_that_cannot_work_are_refused_before_kernels_are_compiled(
    options: list[str], problem: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("compiled first")

    monkeypatch.setattr(kernels, "are_compiled", lambda: False)
    monkeypatch.setattr(up_command, "compile_missing", never)
    assert run(["up", "--apps", "60", *options]) == 2
    assert problem in capsys.readouterr().err


def test_a_failure_from_which_a_service_has_recovered_is_marked_as_past() -> None:
    failure = "killed by SIGKILL at 2026-11-18T02:10:11Z after 161 s, see soldier.log"
    states = {"soldier": ServiceStatus(state="running", detail=failure, restarts=1)}
    assert status_command.failure_lines(_status(states)) == [f"soldier: recovered; {failure}"]
    states = {"soldier": ServiceStatus(state="resting", detail=failure)}
    assert status_command.failure_lines(_status(states)) == [f"soldier: {failure}"]


@pytest.mark.parametrize(("closed", "told"), [(94, False), (93, True)])
def test_a_cluster_that_is_ahead_of_its_services_is_told(closed: int, told: bool) -> None:
    found = _status({}, Progress(tick=100, closed=closed))
    line = status_command.progress_line(found)
    assert ("behind" in line) is told
    assert max(map(len, line.splitlines())) <= 80


@pytest.mark.parametrize(("tick", "told"), [(29, False), (30, True)])
def test_the_end_of_the_scenario_is_told_as_breakers_open_then(tick: int, told: bool) -> None:
    line = status_command.progress_line(_status({}, Progress(tick=tick, closed=tick)))
    assert ("has ended" in line) is told


def _status(statuses: dict[str, ServiceStatus], progress: Progress | None = None) -> SystemStatus:
    run_record = replace(run_of(spec("soldier")), statuses=statuses)
    metrics = {"soldier": ServiceMetrics(ready=True, lag=0, age_s=None)}
    return status_of(run_record, metrics, progress, supervised=True, broker_up=True)
