"""Faults of processes: killed, paused, joined by others, at a wrong time, of another release."""

import os
import resource
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from services.devcluster import processes
from services.devcluster.probe import is_ready
from services.devcluster.record import COLLECTOR
from services.devcluster.supervisor import start_service
from services.measure.chaos import releases
from services.measure.chaos.subject import NO_CLAIMS, SERVICES, Claims, Injection, Skipped, Subject

_PAUSE_S: Final = (10.0, 20.0)
"""Longer than a session timeout: the group moves on without the paused process."""
_HOUR_S: Final = 3600.0
_JUMP_S: Final = 6.0
_DISK_S: Final = 10.0
_VISITS: Final = 3
"""Times that another process joins a group and leaves it."""
_JOIN_S: Final = 45.0
_STAY_S: Final = 3.0
_END_S: Final = 15.0
_RELEASE_TICKS: Final = 12
"""How long a service runs the earlier release: two budgets."""
_COMPILE_S: Final = 300.0
"""The kernels of another release are compiled at its first start."""


def killing(name: str) -> Injection:
    """End a process without warning."""

    def inject(subject: Subject) -> Claims:
        os.kill(subject.pid(name), signal.SIGKILL)
        return NO_CLAIMS

    return inject


def pausing(name: str) -> Injection:
    """Stop a process for a while and let it continue."""

    def inject(subject: Subject) -> Claims:
        with paused(subject.pid(name)):
            time.sleep(subject.rng.uniform(*_PAUSE_S))
        return NO_CLAIMS

    return inject


@contextmanager
def paused(pid: int) -> Iterator[None]:
    """A process that stands still for the length of a block."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def visiting(name: str) -> Injection:
    """A second process of the service joins and leaves, again and again."""

    def inject(subject: Subject) -> Claims:
        for visit in range(_VISITS):
            # By turns one that is killed and holds its partitions until its session ends, and one
            # that leaves in good order.
            _visit(subject, name, killed=visit % 2 == 0)
        return NO_CLAIMS

    return inject


def _visit(subject: Subject, name: str, *, killed: bool) -> None:
    spec, port = subject.spec(name), processes.free_ports(1)[0]
    own = {"HIRL_INSTANCE": "2" if killed else "", "HIRL_METRICS_PORT": str(port)}
    visitor = replace(spec, environment=spec.environment | own, log=f"{spec.log}.visitor")
    child = start_service(visitor)
    try:
        deadline = time.monotonic() + _JOIN_S
        while not is_ready(f"http://{processes.HOST}:{port}"):
            if child.poll() is not None or time.monotonic() > deadline:
                raise Skipped(f"a second {name} did not become ready, see {visitor.log}")
            time.sleep(0.1)
        time.sleep(subject.rng.uniform(0.0, _STAY_S))
    finally:
        process = processes.of_pid(child.pid)
        if killed:
            processes.kill(process)
        processes.end_all([process], _END_S)
        child.wait()


def jumping(names: Sequence[str]) -> Injection:
    """Clocks that are an hour behind, then an hour ahead, then right."""

    def inject(subject: Subject) -> Claims:
        try:
            for seconds in (-_HOUR_S, _HOUR_S):
                for name in names:
                    subject.set_clock(name, seconds)
                time.sleep(_JUMP_S)
        finally:
            for name in names:
                subject.set_clock(name, 0.0)
        return NO_CLAIMS

    return inject


def filling_disk(subject: Subject) -> Claims:
    """No service can write to its disk: to its log, or to anything else."""
    pids = [subject.pid(name) for name in SERVICES]
    with disk_full(pids):
        time.sleep(_DISK_S)
    return NO_CLAIMS


@contextmanager
def disk_full(pids: Sequence[int]) -> Iterator[None]:
    """Processes that can write to no file: a quota of 0 bytes per file.

    A write then fails as on a full disk, with another number of the error.
    """
    limits: dict[int, tuple[int, int]] = {}
    try:
        for pid in pids:
            limits[pid] = limit = resource.prlimit(pid, resource.RLIMIT_FSIZE)
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, limit[1]))
        yield
    except PermissionError as error:
        raise Skipped(f"this machine does not let limits of processes be set: {error}") from None
    finally:
        for pid, limit in limits.items():
            # It may have died of it, or of something else.
            if processes.of_pid(pid) is not None:
                resource.prlimit(pid, resource.RLIMIT_FSIZE, limit)


def downgrading(name: str) -> Injection:
    """Run the earlier release of a service for a while, then the present one again.

    So each release starts with a state that the other one saved, and works with services of the
    other one.
    """

    def inject(subject: Subject) -> Claims:
        code = releases.checkout(subject.release)
        try:
            _restart(subject, [name], code)
            time.sleep(subject.seconds(_RELEASE_TICKS))
        finally:
            _restart(subject, [name], None)
        return NO_CLAIMS

    return inject


def upgrading(subject: Subject) -> Claims:
    """The earlier release of all services, replaced one after another by the present one."""
    code = releases.checkout(subject.release)
    left = list(SERVICES)
    try:
        _restart(subject, left, code)
        time.sleep(subject.seconds(_RELEASE_TICKS))
        while left:
            _restart(subject, left[:1], None)
            left.pop(0)
            time.sleep(subject.seconds(1))
    finally:
        if left:
            _restart(subject, left, None)
    return NO_CLAIMS


def _restart(subject: Subject, names: Sequence[str], code: Path | None) -> None:
    """Stop services in good order; the supervisor starts them again, with other code."""
    pids = {name: subject.pid(name) for name in names}
    for name, pid in pids.items():
        subject.set_code(name, code)
        # A collector that ends in good order says that its source has ended.
        os.kill(pid, signal.SIGKILL if name == COLLECTOR else signal.SIGTERM)
    for name, pid in pids.items():
        if not subject.wait_until_ready(name, other_than=pid, timeout_s=_COMPILE_S):
            what = "the present release" if code is None else f"the release in {code}"
            raise Skipped(f"{name} of {what} did not become ready, see {subject.spec(name).log}")
