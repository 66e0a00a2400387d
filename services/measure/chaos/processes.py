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
from services.measure.chaos.place import NO_CLAIMS, VICTIMS, Claims, Injection, Place, Skipped

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
"""That a service of the earlier release works for: two budgets."""
_COMPILE_S: Final = 300.0
"""The kernels of another release are compiled at its first start."""


def killing(name: str) -> Injection:
    """End a process without warning."""

    def inject(place: Place) -> Claims:
        os.kill(place.pid(name), signal.SIGKILL)
        return NO_CLAIMS

    return inject


def pausing(name: str) -> Injection:
    """Stop a process and let it go on, unaware of what happened meanwhile."""

    def inject(place: Place) -> Claims:
        with paused(place.pid(name)):
            time.sleep(place.rng.uniform(*_PAUSE_S))
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

    def inject(place: Place) -> Claims:
        for visit in range(_VISITS):
            # By turns one that is killed and holds its partitions until its session ends, and one
            # that leaves in good order.
            _visit(place, name, killed=visit % 2 == 0)
        return NO_CLAIMS

    return inject


def _visit(place: Place, name: str, *, killed: bool) -> None:
    spec, port = place.spec(name), processes.free_ports(1)[0]
    own = {"HIRL_INSTANCE": "2" if killed else "", "HIRL_METRICS_PORT": str(port)}
    visitor = replace(spec, environment=spec.environment | own, log=f"{spec.log}.visitor")
    child = start_service(visitor)
    try:
        deadline = time.monotonic() + _JOIN_S
        while not is_ready(f"http://{processes.HOST}:{port}"):
            if child.poll() is not None or time.monotonic() > deadline:
                raise Skipped(f"a second {name} did not become ready, see {visitor.log}")
            time.sleep(0.1)
        time.sleep(place.rng.uniform(0.0, _STAY_S))
    finally:
        process = processes.of_pid(child.pid)
        if killed:
            processes.kill(process)
        processes.end_all([process], _END_S)
        child.wait()


def jumping(names: Sequence[str]) -> Injection:
    """Clocks that are an hour behind, then an hour ahead, then right."""

    def inject(place: Place) -> Claims:
        try:
            for seconds in (-_HOUR_S, _HOUR_S):
                for name in names:
                    place.set_clock(name, seconds)
                time.sleep(_JUMP_S)
        finally:
            for name in names:
                place.set_clock(name, 0.0)
        return NO_CLAIMS

    return inject


def filling_disk(place: Place) -> Claims:
    """No service can write to its disk: to its log, or to anything else."""
    pids = [place.pid(name) for name in VICTIMS]
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

    def inject(place: Place) -> Claims:
        code = releases.checkout(place.release)
        try:
            _restart(place, [name], code)
            time.sleep(place.seconds(_RELEASE_TICKS))
        finally:
            _restart(place, [name], None)
        return NO_CLAIMS

    return inject


def upgrading(place: Place) -> Claims:
    """The earlier release of all services, replaced one after another by the present one."""
    code = releases.checkout(place.release)
    left = list(VICTIMS)
    try:
        _restart(place, left, code)
        time.sleep(place.seconds(_RELEASE_TICKS))
        while left:
            _restart(place, left[:1], None)
            left.pop(0)
            time.sleep(place.seconds(1))
    finally:
        if left:
            _restart(place, left, None)
    return NO_CLAIMS


def _restart(place: Place, names: Sequence[str], code: Path | None) -> None:
    """Stop services in good order; the supervisor starts them again, with other code."""
    pids = {name: place.pid(name) for name in names}
    for name, pid in pids.items():
        place.set_code(name, code)
        # A collector that ends in good order says that its source has ended.
        os.kill(pid, signal.SIGKILL if name == COLLECTOR else signal.SIGTERM)
    for name, pid in pids.items():
        if not place.wait_until_ready(name, other_than=pid, timeout_s=_COMPILE_S):
            what = "the present release" if code is None else f"the release in {code}"
            raise Skipped(f"{name} of {what} did not become ready, see {place.spec(name).log}")
