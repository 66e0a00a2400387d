"""Keep the services of a run alive; run as `python -m services.devcluster.supervisor ROOT`.

The supervisor starts services in stages. It restarts a service that ends, after a pause that grows
with quick deaths up to a ceiling: it never gives up on what an operator would restart. It kills a
service that fails its liveness probe after its start, as Kubernetes does. SIGTERM stops all
services, then the supervisor.
"""

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import msgspec

from services._kit import logs
from services._kit.clock import Clock, SystemClock, rfc3339
from services.admin.credentials import read_credentials
from services.devcluster import processes, record
from services.devcluster.probe import is_alive, is_ready
from services.devcluster.record import Run, ServiceSpec, ServiceStatus

log = logging.getLogger(__name__)

QUICK_S: Final = 30.0
"""A process that lived for less did no useful work."""
FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 10.0
_MOST_DOUBLINGS: Final = 10
"""More would only make the number larger: the ceiling is reached long before."""
BAD_SETTINGS: Final = 2
"""Exit status of a service whose settings are invalid: a restart doesn't help."""
STOP_S: Final = 15.0
"""Services get ten seconds to finish their work when asked to stop."""
LAST_STOP_S: Final = 3.0
"""A service that stops last has no work left to finish."""
_CHECK_S: Final = 0.2
# Period and failures of the liveness probe of infra/k8s/chart.
PROBE_S: Final = 10.0
MOST_FAILURES: Final = 6
"""Failed probes in a row after which a service is stuck."""
_PREFIX: Final = "HIRL_"
_NO_BYTECODE: Final = "PYTHONDONTWRITEBYTECODE"


class Child(Protocol):
    """A started process; subprocess.Popen is one."""

    pid: int

    def poll(self) -> int | None:
        """Its exit status; None while it runs."""

    def kill(self) -> None:
        """Send SIGKILL."""


class SupervisedService:
    """One service with its process, status and restart schedule."""

    def __init__(self, spec: ServiceSpec) -> None:
        self.spec = spec
        self.status = ServiceStatus()
        self.child: Child | None = None
        self.quick_deaths = 0
        self.start_at = 0.0
        """Earliest next start, by `Clock.now`."""
        self._started_at = 0.0
        """Last start, by the same clock."""
        self._probed_at = 0.0
        """Last liveness probe or start, by the same clock."""
        self._answered = False
        """Whether the process answered a liveness probe since its start."""
        self._failures = 0
        """Liveness probes that failed in a row since then."""

    @property
    def is_over(self) -> bool:
        """Whether it never starts again."""
        return self.status.state in ("done", "failed")

    def started(self, child: Child, clock: Clock) -> None:
        """Record that `child` runs now."""
        is_restart = self.status.state == "resting"
        self.child, self._started_at = child, clock.now()
        self._probed_at, self._answered, self._failures = self._started_at, False, 0
        self.status = msgspec.structs.replace(
            self.status,
            state="running",
            process=processes.of_pid(child.pid),
            since=clock.date(),
            restarts=self.status.restarts + is_restart,
        )

    def ended(self, exit_status: int, clock: Clock) -> None:
        """Record that the process ended, and decide whether to restart it."""
        now = clock.now()
        lived = now - self._started_at
        # A long life breaks the series, so that a service which dies once a day restarts at once.
        self.quick_deaths = self.quick_deaths + 1 if lived < QUICK_S else 1
        when = f"at {rfc3339(clock.date())[:19]}Z after {lived:.0f} s"
        detail = f"{ending_of(exit_status)} {when}, see {self.spec.log}"
        if exit_status == 0 and self.spec.ends_by_itself:
            self._set("done", "")
        elif exit_status == BAD_SETTINGS:
            self._set("failed", f"invalid settings; {detail}")
        elif not self.spec.restartable:
            self._set("failed", detail)
        else:
            # Status 0 too: another process sent SIGTERM. `stop` ends services without this method.
            doublings = min(self.quick_deaths - 1, _MOST_DOUBLINGS)
            self.start_at = now + min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**doublings)
            self._set("resting", detail)
        log.log(
            logging.ERROR if self.status.state == "failed" else logging.WARNING,
            "%s %s: %s", self.spec.name, self.status.state, detail,
        )  # fmt: skip

    def probe(self, is_alive: Callable[[str], bool], now: float) -> None:
        """Kill a process that is stuck; the next check finds that it ended."""
        if self.child is None or now - self._probed_at < PROBE_S:
            return
        self._probed_at = now
        alive = is_alive(self.spec.url)
        self._answered |= alive
        # Before its first answer it starts, for however long: the simulated cluster compiles its
        # kernels before it listens.
        self._failures = 0 if alive or not self._answered else self._failures + 1
        if self._failures >= MOST_FAILURES:
            log.error("%s is stuck: %d failed probes in a row", self.spec.name, self._failures)
            self.child.kill()

    def _set(self, state: record.State, detail: str) -> None:
        self.child = None
        self.status = msgspec.structs.replace(self.status, state=state, process=None, detail=detail)


class Probes(NamedTuple):
    """Questions to the service at a URL."""

    is_ready: Callable[[str], bool]
    is_alive: Callable[[str], bool]


PROBES: Final = Probes(is_ready, is_alive)
"""Over HTTP."""


class Supervisor:
    """Checks all services each time `check` is called."""

    def __init__(
        self,
        run: Run,
        start: Callable[[ServiceSpec], Child],
        probes: Probes,
        clock: Clock,
        publish: Callable[[Run], None],
    ) -> None:
        self._run, self._start, self._probes, self._clock = run, start, probes, clock
        self._publish = publish
        self.services = [SupervisedService(spec) for spec in run.specs]
        self._stage = 0
        self._last_stage = max(spec.stage for spec in run.specs)

    def check(self) -> None:
        """Record ended processes, start services that are due, and publish changes."""
        before = [service.status for service in self.services]
        for service in self.services:
            self._check_service(service)
        # After the services: those of a new stage start with the next check.
        if self._stage < self._last_stage and self._stage_is_ready():
            self._stage += 1
        if [service.status for service in self.services] != before:
            self.publish()

    def publish(self) -> None:
        """Publish the status of all services."""
        statuses = {service.spec.name: service.status for service in self.services}
        self._publish(msgspec.structs.replace(self._run, statuses=statuses))

    def stop(self) -> None:
        """Stop all services, those that the others need last."""
        # The simulated cluster goes last: the actuator finishes its writes to it.
        for last, timeout_s in ((False, STOP_S), (True, LAST_STOP_S)):
            services = [service for service in self.services if service.spec.stops_last == last]
            processes.end_all([service.status.process for service in services], timeout_s)
        # Polled once more, or ended children stay as zombies of a process that lives on.
        for service in self.services:
            if service.child is not None:
                service.child.poll()

    def _check_service(self, service: SupervisedService) -> None:
        if service.child is not None:
            exit_status = service.child.poll()
            if exit_status is None:
                service.probe(self._probes.is_alive, self._clock.now())
                return
            service.ended(exit_status, self._clock)
        due = service.spec.stage <= self._stage and self._clock.now() >= service.start_at
        if due and not service.is_over:
            service.started(self._start(service.spec), self._clock)
            log.info("started %s", service.spec.name)

    def _stage_is_ready(self) -> bool:
        """Don't wait for a service that was given up: the others can run without it."""
        expected = [
            service
            for service in self.services
            if service.spec.stage <= self._stage and not service.is_over
        ]
        return all(
            service.child is not None and self._probes.is_ready(service.spec.url)
            for service in expected
        )


def ending_of(exit_status: int) -> str:
    """How a process ended, in words; a negative status is the signal that killed it."""
    if exit_status >= 0:
        return f"ended with status {exit_status}"
    try:
        return f"killed by {signal.Signals(-exit_status).name}"
    # Real-time signals have no name.
    except ValueError:
        return f"killed by signal {-exit_status}"


def start_service(spec: ServiceSpec) -> "subprocess.Popen[bytes]":
    """Start a service's process; it appends to the log of the previous one."""
    # Settings of the shell that ran `hirl up` must not reach the services.
    inherited = {name: text for name, text in os.environ.items() if not name.startswith(_PREFIX)}
    secrets = read_credentials(Path(spec.credentials)) if spec.credentials else {}
    environment = _with_bytecode(inherited) | spec.environment | secrets
    return processes.spawn(spec.command, Path(spec.log), environment, mode="ab")


def _with_bytecode(environment: dict[str, str]) -> dict[str, str]:
    """Keep bytecode in the cache where the shell forbids it beside the sources.

    Many containers do. Each restart would then compile every library: two thirds of its CPU time.
    """
    if not environment.get(_NO_BYTECODE):
        return environment
    cache = environment.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return {"PYTHONPYCACHEPREFIX": f"{cache}/hirl/bytecode"} | environment | {_NO_BYTECODE: ""}


def main() -> int:
    """Supervise the run of a root folder until SIGTERM."""
    root = Path(sys.argv[1])
    logs.set_up("supervisor", "", "info")
    run = record.read(root)
    if run is None:
        log.error("%s has no run", root)
        return 1
    stopping: list[int] = []
    # The handler only notes the signal: it may run in the middle of a check.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: stopping.append(number))
    run = msgspec.structs.replace(run, supervisor=processes.of_pid(os.getpid()))
    supervisor = Supervisor(
        run, start_service, PROBES, SystemClock(), lambda now: record.write(root, now)
    )
    supervisor.publish()
    # Services must not outlive their supervisor, even if it fails: they would not be restarted.
    try:
        while not stopping:
            supervisor.check()
            time.sleep(_CHECK_S)
    finally:
        supervisor.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
