"""Only our own processes are ended, even when pids are reused."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from msgspec.structs import replace

from services.devcluster import processes

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)", "our-mark"]
IGNORES_SIGTERM = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); "
    "time.sleep(60)"
)


@pytest.fixture
def sleeper() -> Iterator["subprocess.Popen[bytes]"]:
    child = subprocess.Popen(SLEEP)
    yield child
    child.kill()
    child.wait()


def wait_for_command_line(pid: int) -> None:
    """A new process's command line is empty for a moment."""
    while "our-mark" not in processes.command_line(pid):
        time.sleep(0.01)


def test_a_process_is_found_again(sleeper: "subprocess.Popen[bytes]") -> None:
    assert processes.is_running(processes.of_pid(sleeper.pid))


def test_another_process_with_the_same_pid_is_left_alone(
    sleeper: "subprocess.Popen[bytes]",
) -> None:
    ours = processes.of_pid(sleeper.pid)
    assert ours is not None
    other = replace(ours, started=0.0)
    assert processes.end_all([other, None], 1.0) == 0
    processes.kill(other)
    assert sleeper.poll() is None


def test_a_process_without_our_mark_is_not_found(sleeper: "subprocess.Popen[bytes]") -> None:
    wait_for_command_line(sleeper.pid)
    assert processes.find(sleeper.pid, "our-mark") is not None
    assert processes.find(sleeper.pid, "another-mark") is None
    assert processes.find(None, "our-mark") is None


def test_an_ended_process_is_not_found(sleeper: "subprocess.Popen[bytes]") -> None:
    process = processes.of_pid(sleeper.pid)
    assert processes.end_all([process], 10.0) == 1
    assert not processes.is_running(process)
    assert processes.of_pid(sleeper.pid) is None


def test_a_spawned_process_is_terminated(tmp_path: Path) -> None:
    child = processes.spawn(SLEEP, tmp_path / "log")
    process = processes.find(child.pid, "our-mark")
    assert processes.is_running(process)
    assert processes.end_all([process], 10.0) == 1
    assert not processes.is_running(process)
    assert child.returncode is not None


def test_a_process_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    child = processes.spawn([sys.executable, "-c", IGNORES_SIGTERM], log)
    # It prints when its handler is set; a signal before that would end it.
    while not log.read_text():
        time.sleep(0.01)
    process = processes.of_pid(child.pid)
    processes.end_all([process], 0.2)
    assert not processes.is_running(process)


def test_stubborn_processes_share_one_timeout_and_are_killed_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, timeout_s = 0.0, 1.0
    signals: list[tuple[str, float]] = []
    kill = psutil.Process.kill

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds
        time.sleep(0.01)

    def recorded_kill(process: psutil.Process) -> None:
        signals.append(("kill", now))
        kill(process)

    # Simulated time, and a SIGTERM without effect.
    monkeypatch.setattr(processes, "time", SimpleNamespace(monotonic=lambda: now, sleep=sleep))
    monkeypatch.setattr(psutil.Process, "terminate", lambda _: signals.append(("terminate", now)))
    monkeypatch.setattr(psutil.Process, "kill", recorded_kill)
    children = [processes.spawn(SLEEP, tmp_path / f"log-{number}") for number in range(2)]
    found = [processes.of_pid(child.pid) for child in children]

    assert processes.end_all(found, timeout_s) == 2
    assert not any(map(processes.is_running, found))
    terminated, killed = signals[:2], signals[2:]
    assert terminated == [("terminate", 0.0)] * 2
    killed_at = killed[0][1]
    assert killed == [("kill", killed_at)] * 2
    assert timeout_s <= killed_at < 1.2 * timeout_s


def test_a_child_that_others_wait_for_keeps_its_exit_status(tmp_path: Path) -> None:
    child = processes.spawn([sys.executable, "-c", "raise SystemExit(3)"], tmp_path / "log")
    while processes.of_pid(child.pid) is not None:
        time.sleep(0.01)
    assert child.poll() == 3


def test_a_log_can_be_appended_to(tmp_path: Path) -> None:
    log = tmp_path / "log"
    for word in ("first", "second"):
        child = processes.spawn([sys.executable, "-c", f"print('{word}')"], log, mode="ab")
        child.wait(10)
    assert log.read_text().split() == ["first", "second"]


def test_free_ports_differ_and_are_free() -> None:
    ports = processes.free_ports(20)
    assert len(set(ports)) == 20
    assert all(map(processes.is_free, ports))
