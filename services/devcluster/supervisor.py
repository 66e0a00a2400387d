"""The process that keeps the services of a run alive: `python -m ...supervisor ROOT`.

It starts them in stages, starts again what dies, after a pause that grows, and gives up what dies
at once again and again. SIGTERM ends all of them, then itself.
"""

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol
from urllib.error import URLError
from urllib.request import urlopen

import msgspec

from services._kit import logs
from services._kit.clock import Clock, SystemClock
from services.admin.credentials import read_credentials
from services.devcluster import identity as processes
from services.devcluster import record
from services.devcluster.record import Run, Spec, Standing

log = logging.getLogger(__name__)

QUICK_S: Final = 30.0
"""A process that lived for less never did its work."""
MOST_QUICK_DEATHS: Final = 5
FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 10.0
BAD_SETTINGS: Final = 2
"""Exit status that says: not by a restart."""
STOP_S: Final = 15.0
"""Services finish what is under way when asked to stop, for ten seconds at most."""
LAST_STOP_S: Final = 3.0
"""Whoever outlives the others has nothing left to finish."""
_LOOK_S: Final = 0.2
_PREFIX: Final = "HIRL_"


class Child(Protocol):
    """A process that was started."""

    pid: int

    def poll(self) -> int | None:
        """Its exit status; None while it runs."""


class Ward:
    """One service under supervision."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.standing = Standing()
        self.child: Child | None = None
        self.quick_deaths = 0
        self.start_at = 0.0
        """Not before, by `Clock.now`."""
        self._began = 0.0
        """When it was started last, by the same."""

    @property
    def over(self) -> bool:
        """Whether there is nothing left to do for it."""
        return self.standing.state in ("done", "failed")

    def started(self, child: Child, clock: Clock) -> None:
        """It runs."""
        again = self.standing.state == "resting"
        self.child, self._began = child, clock.now()
        self.standing = msgspec.structs.replace(
            self.standing,
            state="running",
            process=processes.of_pid(child.pid),
            since=clock.date(),
            restarts=self.standing.restarts + again,
        )

    def ended(self, status: int, now: float) -> None:
        """It is gone: for good, or until it is started again."""
        lived = now - self._began
        self.quick_deaths = self.quick_deaths + 1 if lived < QUICK_S else 1
        detail = f"ended with status {status} after {lived:.0f} s, see {self.spec.log}"
        if status == 0:
            self._settle("done", "")
        elif self._hopeless(status):
            self._settle("failed", f"{self._why(status)}{detail}")
        else:
            pause = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** (self.quick_deaths - 1))
            self.start_at = now + pause
            self._settle("resting", detail)
        log.log(
            logging.ERROR if self.standing.state == "failed" else logging.WARNING,
            "%s %s: %s", self.spec.name, self.standing.state, detail,
        )  # fmt: skip

    def _hopeless(self, status: int) -> bool:
        return (
            status == BAD_SETTINGS
            or not self.spec.restarts
            or self.quick_deaths >= MOST_QUICK_DEATHS
        )

    def _why(self, status: int) -> str:
        if status == BAD_SETTINGS:
            return "its settings are refused; "
        return f"died {self.quick_deaths} times at once; " if self.spec.restarts else ""

    def _settle(self, state: record.State, detail: str) -> None:
        self.child = None
        self.standing = msgspec.structs.replace(
            self.standing, state=state, process=None, detail=detail
        )


class Supervisor:
    """Looks at all services, again and again."""

    def __init__(
        self,
        run: Run,
        start: Callable[[Spec], Child],
        ready: Callable[[str], bool],
        clock: Clock,
        tell: Callable[[Run], None],
    ) -> None:
        self._run, self._start, self._ready, self._clock = run, start, ready, clock
        self._tell = tell
        self.wards = [Ward(spec) for spec in run.specs]
        self._stage = 0
        self._last = max(spec.stage for spec in run.specs)

    def look(self) -> None:
        """Note who has ended, start who is due, and say what has changed."""
        before = [ward.standing for ward in self.wards]
        for ward in self.wards:
            self._attend(ward)
        if self._stage < self._last and self._stage_is_ready():
            self._stage += 1
        if [ward.standing for ward in self.wards] != before:
            self.tell()

    def tell(self) -> None:
        """Write down how everybody fares."""
        standings = {ward.spec.name: ward.standing for ward in self.wards}
        self._tell(msgspec.structs.replace(self._run, standings=standings))

    def stop(self) -> None:
        """End all of them, those that the others need last."""
        for last, patience_s in ((False, STOP_S), (True, LAST_STOP_S)):
            wards = [ward for ward in self.wards if ward.spec.outlives == last]
            processes.end_all([ward.standing.process for ward in wards], patience_s)
        for ward in self.wards:
            if ward.child is not None:
                ward.child.poll()

    def _attend(self, ward: Ward) -> None:
        if ward.child is not None:
            status = ward.child.poll()
            if status is None:
                return
            ward.ended(status, self._clock.now())
        due = ward.spec.stage <= self._stage and self._clock.now() >= ward.start_at
        if due and not ward.over:
            ward.started(self._start(ward.spec), self._clock)
            log.info("started %s", ward.spec.name)

    def _stage_is_ready(self) -> bool:
        """A service that was given up is not waited for: the others can do without it."""
        wards = [ward for ward in self.wards if ward.spec.stage <= self._stage and not ward.over]
        return all(ward.child is not None and self._ready(ward.spec.url) for ward in wards)


def start_service(spec: Spec) -> "subprocess.Popen[bytes]":
    """Start it in a session of its own; its log goes on where the last process ended."""
    inherited = {name: text for name, text in os.environ.items() if not name.startswith(_PREFIX)}
    secrets = read_credentials(Path(spec.credentials)) if spec.credentials else {}
    path = Path(spec.log)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as output:
        return subprocess.Popen(  # noqa: S603  (our own command line)
            spec.command,
            env=inherited | spec.environment | secrets,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def is_ready(url: str) -> bool:
    """Whether a service says that it takes work."""
    try:
        with urlopen(f"{url}/readyz", timeout=1) as answer:  # noqa: S310  (a URL of our own)
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False


def main() -> int:
    """Supervise the run of a root until SIGTERM."""
    root = Path(sys.argv[1])
    logs.set_up("supervisor", "", "info")
    run = record.read(root)
    if run is None:
        log.error("%s has no run", root)
        return 1
    stopping: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: stopping.append(number))
    run = msgspec.structs.replace(run, supervisor=processes.of_pid(os.getpid()))
    supervisor = Supervisor(
        run, start_service, is_ready, SystemClock(), lambda now: record.write(root, now)
    )
    supervisor.tell()
    try:
        while not stopping:
            supervisor.look()
            time.sleep(_LOOK_S)
    finally:
        supervisor.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
