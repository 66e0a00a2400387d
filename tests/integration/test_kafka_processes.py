"""Only what we started is ended."""

import subprocess
import sys
from pathlib import Path

from services.devcluster import processes

SLEEPS = [sys.executable, "-c", "import time; time.sleep(60)", "our-mark"]


def test_a_pid_that_belongs_to_somebody_else_by_now_is_left_alone() -> None:
    stranger = subprocess.Popen(SLEEPS)
    try:
        processes.end_all([(stranger.pid, "another-mark")], patience_s=1)
        processes.kill(stranger.pid, "another-mark")
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_process_is_asked_first_and_is_gone_afterwards(tmp_path: Path) -> None:
    pid = processes.start(SLEEPS, tmp_path / "log")
    assert processes.is_running(pid, "our-mark")
    processes.end_all([(pid, "our-mark")], patience_s=10)
    assert not processes.is_running(pid, "our-mark")


def test_a_process_that_does_not_listen_is_killed(tmp_path: Path) -> None:
    deaf = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True)"
    )
    log = tmp_path / "log"
    pid = processes.start([sys.executable, "-c", f"{deaf}; time.sleep(60)", "our-mark"], log)
    while not log.read_text():
        pass
    processes.end_all([(pid, "our-mark")], patience_s=0.2)
    assert not processes.is_running(pid, "our-mark")


def test_free_ports_differ_and_are_free() -> None:
    ports = processes.free_ports(20)
    assert len(set(ports)) == 20
    assert all(map(processes.is_free, ports))
