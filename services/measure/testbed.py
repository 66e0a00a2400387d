"""Services under measurement: on their own Kafka, supervised by this process."""

import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import psutil
from msgspec.structs import replace

from models.inputs.errors import InputError
from services._kit.clock import SystemClock
from services.devcluster import launch
from services.devcluster.connect import options_for_home
from services.devcluster.kafka import cluster as kafka_cluster
from services.devcluster.kafka.description import Description
from services.devcluster.record import Run, ServiceSpec
from services.devcluster.request import Request
from services.devcluster.specs import SERVICES
from services.devcluster.supervisor import PROBES, Supervisor, start_service

BROKER: Final = "kafka"
_CHECK_S: Final = 0.2
_MOST_CHARACTERS: Final = 200
"""Length to which an error message cuts a log line."""
_MIB: Final = 1 << 20


class MeasuredSystem:
    """A run, and the thread that supervises its services."""

    def __init__(self, run: Run, kafka: Description) -> None:
        self.run, self._kafka = run, kafka
        self._supervisor = Supervisor(run, start_service, PROBES, SystemClock(), self._update)
        self._killed: set[str] = set()
        self._over = threading.Event()
        # A daemon, so that an error in the measurement can end the process.
        self._thread = threading.Thread(target=self._supervise, name="supervisor", daemon=True)

    @property
    def options(self) -> dict[str, Any]:
        """Arguments for a client of its Kafka."""
        return options_for_home(Path(self.run.kafka_home))

    @property
    def pids(self) -> dict[str, int]:
        """Pids of all running services and of the broker, by name."""
        services = {
            name: status.process.pid
            for name, status in self.run.statuses.items()
            if status.process is not None
        }
        return services | {BROKER: self._kafka.nodes[0].pid or 0}

    def spec(self, name: str) -> ServiceSpec:
        """How a service is started."""
        return next(spec for spec in self.run.specs if spec.name == name)

    def check(self) -> None:
        """Raise InputError if a service died: a restart would falsify the figures."""
        for name, status in self.run.statuses.items():
            if name in self._killed:
                continue
            if status.state in ("failed", "resting") or status.restarts:
                error = _last_error(self.spec(name))
                raise InputError(f"{name} died during the measurement: {status.detail}; {error}")

    def kill(self, name: str) -> None:
        """End a service as a crash does; the supervisor starts it again."""
        self._killed.add(name)
        os.kill(self.pids[name], signal.SIGKILL)

    def start(self) -> None:
        """Start supervising in a thread, which starts the services."""
        self._thread.start()

    def stop(self) -> None:
        """Stop all services; Kafka stays, so that its topics can be read at rest."""
        # The thread first, or it would restart the services that are stopped next.
        self._over.set()
        self._thread.join()
        self._supervisor.stop()

    def _supervise(self) -> None:
        while not self._over.wait(_CHECK_S):
            self._supervisor.check()

    def _update(self, run: Run) -> None:
        self.run = run


@contextmanager
def measured_system(
    request: Request,
    folder: Path,
    services: Sequence[str] = SERVICES,
    environment: dict[str, str] | None = None,
) -> Iterator[MeasuredSystem]:
    """A Kafka with all topics and some services for a block; only the logs remain."""
    # The outer block also stops a Kafka whose start has failed half-way.
    try:
        run, kafka = launch.prepare(request, folder, environment=environment or {})
        run = replace(run, specs=tuple(spec for spec in run.specs if spec.name in services))
        system = MeasuredSystem(run, kafka)
        system.start()
        try:
            yield system
        finally:
            system.stop()
    finally:
        kafka_cluster.stop(folder.resolve() / BROKER, wipe=True, timeout_s=0)


def _last_error(spec: ServiceSpec) -> str:
    """The end of the last error in a service's log, which names the cause."""
    lines = Path(spec.log).read_text(errors="replace").splitlines()
    errors = [line for line in lines if '"level": "error"' in line or "Error" in line]
    return errors[-1][-_MOST_CHARACTERS:] if errors else ""


class Usage(msgspec.Struct, frozen=True):
    """Resources that one process used over a period."""

    cores: float
    """CPU seconds per second."""
    rss_mb: float
    """Resident memory at the end, MiB."""


class CpuReading(NamedTuple):
    """CPU seconds of processes since their start, by name."""

    at: float
    """Monotonic seconds."""
    cpu_s: dict[str, float]


def read_cpu(pids: Mapping[str, int]) -> CpuReading:
    """CPU time of the processes now."""
    return CpuReading(time.monotonic(), {name: _cpu_seconds(pid) for name, pid in pids.items()})


def usage_since(before: CpuReading, pids: Mapping[str, int]) -> dict[str, Usage]:
    """What each process used since a reading."""
    now = read_cpu(pids)
    seconds = now.at - before.at
    return {
        name: Usage((now.cpu_s[name] - before.cpu_s[name]) / seconds, _resident_mb(pid))
        for name, pid in pids.items()
    }


def available_mb() -> float:
    """Memory that new processes can get, MiB."""
    return float(psutil.virtual_memory().available) / _MIB


def load_average() -> float:
    """Load of this machine over the last minute: shows whether other work disturbed a figure."""
    return os.getloadavg()[0]


def _cpu_seconds(pid: int) -> float:
    times = _process(pid).cpu_times()
    return float(times.user + times.system)


def _resident_mb(pid: int) -> float:
    return float(_process(pid).memory_info().rss) / _MIB


def _process(pid: int) -> psutil.Process:
    try:
        return psutil.Process(pid)
    except psutil.NoSuchProcess:
        raise InputError(f"process {pid} ended during the measurement") from None
