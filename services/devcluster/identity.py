"""Processes recognised by number and start: numbers are used again after a while, both are not."""

import os
import signal
import subprocess
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

_POLL_S: Final = 0.05
_INSIST_S: Final = 5.0
_PROC: Final = Path("/proc")
_START_FIELD: Final = 19
"""Of /proc/PID/stat, counted after the name, which is in brackets and may contain anything."""


class Process(msgspec.Struct, frozen=True, kw_only=True):
    """One process of this machine that can be found again."""

    pid: int
    started: str
    """When, as the system tells it; only ever compared."""


def of_pid(pid: int) -> Process | None:
    """The process with that number now; None if there is none, or only its remains."""
    started = _started(pid)
    return Process(pid=pid, started=started) if started else None


def is_running(process: Process | None) -> bool:
    """Whether it is still the process that we mean."""
    return process is not None and _started(process.pid) == process.started


def end_all(processes: Iterable[Process | None], patience_s: float) -> int:
    """Ask them to end, all at once, wait, then insist; how many there were to end."""
    ours = [process for process in processes if process is not None and is_running(process)]
    for process in ours:
        _send(process, signal.SIGTERM)
    if not _gone(ours, patience_s):
        for process in ours:
            _send(process, signal.SIGKILL)
        _gone(ours, _INSIST_S)
    return len(ours)


def _send(process: Process, number: signal.Signals) -> None:
    """Never to a process that merely has the same number."""
    if is_running(process):
        try:
            os.kill(process.pid, number)
        except ProcessLookupError:  # it ended in this very moment
            return


def _gone(processes: Sequence[Process], patience_s: float) -> bool:
    deadline = time.monotonic() + patience_s
    while any(map(is_running, processes)):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


def _started(pid: int) -> str:
    """Empty where nothing with that number runs; a zombie has ended."""
    if not (_PROC / "self").exists():
        return _asked(pid)
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""
    fields = text.rpartition(")")[2].split()
    return "" if fields[0] == "Z" else fields[_START_FIELD]


def _asked(pid: int) -> str:
    """Where there is no /proc."""
    told = subprocess.run(  # noqa: S603  (our own command line)
        ["ps", "-o", "lstart=", "-p", str(pid)],  # noqa: S607
        capture_output=True,
        text=True,
        check=False,
    )
    return told.stdout.strip()
