"""Processes that outlive the command that started them: started, recognised, ended by pid.

Prometheus is started with it, too.
"""

import fcntl
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from services.devcluster.kafka.description import HOST

_children: Final[dict[int, "subprocess.Popen[bytes]"]] = {}
"""Those that this very process started: they must be waited for, or they stay as zombies."""
_POLL_S: Final = 0.05


def start(command: Sequence[str], log: Path) -> int:
    """Start in a session of its own, so that Ctrl-C here does not end it; returns the pid."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        child = subprocess.Popen(  # noqa: S603  (our own command line)
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    _children[child.pid] = child
    return child.pid


def is_running(pid: int | None, mark: str) -> bool:
    """Whether that pid still is the process we mean; numbers are used again after a while.

    `mark` is a word of its command line that no other process has: its configuration file.
    """
    if pid is None:
        return False
    child = _children.get(pid)
    if child is None:
        return mark in command_line(pid)
    # Our own child keeps its number until we ask, and its command line is empty at first.
    if child.poll() is None:
        return True
    del _children[pid]
    return False


def command_line(pid: int) -> str:
    """The words a process was started with; empty if there is no such process."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except (FileNotFoundError, ProcessLookupError):
        pass
    if Path("/proc/self").exists():
        return ""
    told = subprocess.run(  # noqa: S603  (systems without /proc)
        ["ps", "-ww", "-o", "command=", "-p", str(pid)],  # noqa: S607
        capture_output=True,
        text=True,
        check=False,
    )
    return told.stdout.strip()


def end_all(known: Sequence[tuple[int | None, str]], patience_s: float) -> None:
    """Ask them to end, all at once, wait, then insist. A pid that is somebody else's is left."""
    ours = [(pid, mark) for pid, mark in known if pid is not None and is_running(pid, mark)]
    for pid, _mark in ours:
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + patience_s
    for pid, mark in ours:
        if not _gone(pid, mark, deadline - time.monotonic()):
            kill(pid, mark)


def kill(pid: int | None, mark: str) -> None:
    """End it with no chance to tidy up, as a crash does."""
    if pid is None or not is_running(pid, mark):
        return
    os.kill(pid, signal.SIGKILL)
    _gone(pid, mark, patience_s=10.0)


def _gone(pid: int, mark: str, patience_s: float) -> bool:
    deadline = time.monotonic() + patience_s
    while is_running(pid, mark):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now; all are held until the last is known, so they differ."""
    sockets = [socket.create_server((HOST, 0)) for _ in range(count)]
    try:
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()


def is_free(port: int) -> bool:
    """Whether nobody listens on it."""
    try:
        socket.create_server((HOST, port)).close()
    except OSError:
        return False
    return True


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One process at a time works in that folder; the lock goes with the process that holds it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
