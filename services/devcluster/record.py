"""The running system, and `.hirl/run/run.json`, the file through which other commands find it."""

from pathlib import Path
from typing import Final, Literal

import msgspec

from models.inputs.errors import InputError
from services.devcluster.processes import Process, is_running

ROOT: Final = Path(".hirl/run")
"""Default folder of the system that `hirl up` starts."""
_FILE_NAME: Final = "run.json"
SIMCLUSTER: Final = "simcluster"
"""The service that runs the simulated cluster."""
COLLECTOR: Final = "collector"
"""The only service that ends by itself: when its source has ended."""

State = Literal["waiting", "running", "resting", "done", "failed"]
"""waiting: not started yet. resting: it ended and will be restarted. done: it ended by itself, with
all of its work done. failed: its settings are invalid, or it cannot be restarted."""


class ServiceSpec(msgspec.Struct, frozen=True, kw_only=True):
    """How to start a service; a container gets the same command and environment."""

    name: str
    command: tuple[str, ...]
    environment: dict[str, str]
    """HIRL_* variables, none of them secret."""
    credentials: str = ""
    """Private file with further variables; empty where Kafka has no security."""
    url: str
    """Base URL of /readyz and /metrics."""
    log: str
    stage: int = 0
    """A stage starts when all services of the stages before it are ready."""
    restartable: bool = True
    """Whether the supervisor restarts it when it ends."""
    ends_by_itself: bool = False
    """Whether status 0 means that it has done all of its work, such as a scenario."""
    stops_last: bool = False
    """Whether the other services need it to finish their work."""


class ServiceStatus(msgspec.Struct, frozen=True, kw_only=True):
    """State of a service, as its supervisor sees it."""

    state: State = "waiting"
    process: Process | None = None
    since: float = 0.0
    """Wall time of its last start."""
    restarts: int = 0
    detail: str = ""
    """The last error."""


class Simulation(msgspec.Struct, frozen=True, kw_only=True):
    """What is simulated, and how fast."""

    scenario: str
    seed: int
    apps: int
    domains: tuple[str, ...]
    tick_seconds: int
    total_ticks: int
    pace: str
    """For people, such as "lock-step" or "30 times real time"."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One system: all that `status`, `down` and the live view need."""

    name: str
    folder: str
    simulation: Simulation
    bootstrap: str
    kafka_home: str
    cluster_url: str
    """URL of the simulated cluster."""
    started: float
    """Wall time."""
    specs: tuple[ServiceSpec, ...]
    supervisor: Process | None = None
    statuses: dict[str, ServiceStatus] = {}
    """By service; only the supervisor writes them."""

    def status(self, name: str) -> ServiceStatus:
        """State of a service; "waiting" where none is recorded."""
        return self.statuses.get(name, ServiceStatus())

    @property
    def failed(self) -> list[str]:
        """A line for each service that won't be restarted."""
        return [
            f"{name}: {one.detail}" for name, one in self.statuses.items() if one.state == "failed"
        ]

    @property
    def resting(self) -> list[str]:
        """A line for each service that ended and is about to be restarted."""
        return [
            f"{name}: {one.detail}" for name, one in self.statuses.items() if one.state == "resting"
        ]

    @property
    def processes(self) -> list[Process]:
        """Processes of all services that are recorded as running."""
        return [one.process for one in self.statuses.values() if one.process is not None]


def read(root: Path = ROOT) -> Run | None:
    """The system in the folder `root`; None if there is none."""
    path = root / _FILE_NAME
    try:
        return msgspec.json.decode(path.read_bytes(), type=Run)
    except FileNotFoundError:
        return None
    except (msgspec.DecodeError, OSError) as error:
        raise InputError(
            f"{path}: cannot be read ({error}); remove it if nothing of the system runs any more"
        ) from None


def running(root: Path = ROOT) -> Run:
    """The system in the folder `root`; raises InputError if it doesn't run."""
    run = read(root)
    if run is None or not is_running(run.supervisor):
        raise InputError("no system runs here: hirl up starts one")
    return run


def write(root: Path, run: Run) -> None:
    """Replace the file atomically, because other commands may be reading it."""
    root.mkdir(parents=True, exist_ok=True)
    # In the same folder: a rename is atomic only within a file system.
    draft = root / f"{_FILE_NAME}.new"
    draft.write_bytes(msgspec.json.format(msgspec.json.encode(run), indent=2) + b"\n")
    draft.replace(root / _FILE_NAME)


def remove(root: Path) -> None:
    """Delete the file after the system has stopped."""
    (root / _FILE_NAME).unlink(missing_ok=True)
