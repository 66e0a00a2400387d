"""Processes, ports and locks on this machine.

A development cluster outlives the command that starts it, so later commands find its processes by
pid. Pids are reused: a process is recognised by its pid and start time (`Process`), or by its pid
and a word of its command line that no other process has (a `mark`, such as its configuration
file).
"""

import fcntl
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Literal

import msgspec
import psutil

HOST: Final = "127.0.0.1"
"""Everything in a development cluster listens on loopback only."""
_POLL_S: Final = 0.05
_KILL_S: Final = 10.0
"""SIGKILL can't be ignored, but a process may be busy in the kernel for a while."""
_SAME_START_S: Final = 2.0
"""The system derives start times from its clock, which can be adjusted between two readings."""

Notify = Callable[[str], None]
"""Receives a line of progress for the user."""

_children: Final[dict[int, "subprocess.Popen[bytes]"]] = {}
"""Processes started by this one. They must be polled, or they stay as zombies."""


def silent(_: str) -> None:
    """Drop progress lines."""


class Process(msgspec.Struct, frozen=True, kw_only=True):
    """A process that a later command can find again."""

    pid: int
    started: float
    """Wall time, seconds since 1970."""


def spawn(
    command: Sequence[str],
    log: Path,
    environment: Mapping[str, str] | None = None,
    mode: Literal["wb", "ab"] = "wb",
) -> "subprocess.Popen[bytes]":
    """Start a process in its own session, so that Ctrl-C here doesn't reach it."""
    log.parent.mkdir(parents=True, exist_ok=True)
    # The child has its own copy of the file, so this one can be closed at once.
    with log.open(mode) as output:
        child = subprocess.Popen(  # noqa: S603  (our own command line)
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    _children[child.pid] = child
    return child


def of_pid(pid: int) -> Process | None:
    """The process with that pid; None if there is none or it is a zombie."""
    found = _living(pid)
    return Process(pid=pid, started=found.create_time()) if found else None


def find(pid: int | None, mark: str) -> Process | None:
    """The process with that pid, if its command line contains `mark`."""
    if pid is None:
        return None
    # A new child's command line may still be empty. Its pid can't be reused before we poll it.
    if pid not in _children and mark not in command_line(pid):
        return None
    return of_pid(pid)


def is_running(process: Process | None) -> bool:
    """Whether the process still runs; another one with the same pid doesn't count."""
    return process is not None and _same(process) is not None


def command_line(pid: int) -> str:
    """The words a process was started with; empty if it doesn't run."""
    try:
        return " ".join(psutil.Process(pid).cmdline())
    except psutil.Error:
        return ""


def end_all(processes: Iterable[Process | None], timeout_s: float) -> int:
    """Terminate processes, kill those that remain after `timeout_s`; return how many there were.

    A process that merely has a recorded pid is left alone.
    """
    ours = [process for process in processes if process is not None and is_running(process)]
    # All signals first: several slow processes then share one timeout and end side by side.
    _signal(ours, psutil.Process.terminate)
    remaining = _wait_until_gone(ours, timeout_s)
    _signal(remaining, psutil.Process.kill)
    _wait_until_gone(remaining, _KILL_S)
    return len(ours)


def kill(process: Process | None) -> None:
    """End a process without a chance to clean up, as a crash does."""
    if process is not None:
        _signal([process], psutil.Process.kill)
        _wait_until_gone([process], _KILL_S)


def _signal(processes: Iterable[Process], send: Callable[[psutil.Process], None]) -> None:
    for process in processes:
        found = _same(process)
        if found is not None:
            # It may end just now.
            with suppress(psutil.NoSuchProcess):
                send(found)


def _wait_until_gone(processes: Sequence[Process], timeout_s: float) -> list[Process]:
    """Wait for all of them together; return those that still run after `timeout_s`."""
    # Not psutil.wait_procs: it would reap our children, and their Popen would lose the exit status.
    deadline = time.monotonic() + timeout_s
    while remaining := [process for process in processes if is_running(process)]:
        if time.monotonic() > deadline:
            break
        time.sleep(_POLL_S)
    return remaining


def _same(process: Process) -> psutil.Process | None:
    found = _living(process.pid)
    if found is None or abs(found.create_time() - process.started) > _SAME_START_S:
        return None
    return found


def _living(pid: int) -> psutil.Process | None:
    child = _children.get(pid)
    if child is not None and child.poll() is not None:
        del _children[pid]
        return None
    with suppress(psutil.NoSuchProcess):
        found = psutil.Process(pid)
        # A child that can't be reaped yet still runs: a JVM looks like a zombie while its threads
        # end.
        if child is not None or found.status() != psutil.STATUS_ZOMBIE:
            return found
    return None


def free_ports(count: int) -> list[int]:
    """Distinct ports that nothing listens on: all stay bound until the last one is chosen."""
    sockets = [socket.create_server((HOST, 0)) for _ in range(count)]
    try:
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()


def is_free(port: int) -> bool:
    """Whether nothing listens on the port."""
    try:
        socket.create_server((HOST, port)).close()
    except OSError:
        return False
    return True


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Let one process at a time work in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as file:
        # The kernel releases it when the process dies, so a crash leaves no stale lock.
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
