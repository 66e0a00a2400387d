"""What runs, and the file that tells others: `.hirl/run/run.json`."""

from pathlib import Path
from typing import Final, Literal

import msgspec

from models.inputs.errors import InputError
from services.devcluster.identity import Process, is_running

ROOT: Final = Path(".hirl/run")
"""Where the system of `hirl up` lives when nothing else is said."""
_FILE_NAME: Final = "run.json"
SIMCLUSTER: Final = "simcluster"
"""The service that is the world."""

State = Literal["waiting", "running", "resting", "done", "failed"]
"""waiting: its turn has not come. resting: it died and is started again soon. done: it ended by
itself, as it should. failed: given up."""


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """A service as it is started: what a container would be told."""

    name: str
    command: tuple[str, ...]
    environment: dict[str, str]
    """HIRL_* variables; none of them is a secret."""
    credentials: str = ""
    """File with further variables, which is private; empty where Kafka has no security."""
    url: str
    """Of /readyz and /metrics."""
    log: str
    stage: int = 0
    """Services of a stage are started when all of the stages before are ready."""
    restarts: bool = True
    """Whether a death can be mended by a new start."""
    outlives: bool = False
    """Others need it to finish what they have begun: it is stopped after them."""


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """How a service fares."""

    state: State = "waiting"
    process: Process | None = None
    since: float = 0.0
    """Wall time of its last start."""
    restarts: int = 0
    detail: str = ""
    """What went wrong last."""


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """What is simulated, and how fast."""

    scenario: str
    seed: int
    apps: int
    domains: tuple[str, ...]
    tick_seconds: int
    total_ticks: int
    pace: str
    """In words."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One system: everything that `status`, `down` and the live view have to know."""

    name: str
    folder: str
    scene: Scene
    bootstrap: str
    kafka_home: str
    cluster_url: str
    """Of the simulated cluster."""
    began: float
    """Wall time."""
    specs: tuple[Spec, ...]
    supervisor: Process | None = None
    standings: dict[str, Standing] = {}
    """By service; the supervisor alone writes them."""

    def standing(self, name: str) -> Standing:
        """How a service fares."""
        return self.standings.get(name, Standing())

    @property
    def failed(self) -> list[str]:
        """A line for each service that was given up."""
        found = ((name, standing) for name, standing in self.standings.items())
        return [f"{name}: {one.detail}" for name, one in found if one.state == "failed"]

    @property
    def processes(self) -> list[Process]:
        """Of all services that were started and not seen to end."""
        return [one.process for one in self.standings.values() if one.process is not None]


def read(root: Path = ROOT) -> Run | None:
    """The system of that root; None if there is none."""
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
    """The system of that root, which has to be there."""
    run = read(root)
    if run is None or not is_running(run.supervisor):
        raise InputError("no system runs here: hirl up starts one")
    return run


def write(root: Path, run: Run) -> None:
    """Tell others; in one move, because they may be reading."""
    root.mkdir(parents=True, exist_ok=True)
    draft = root / f"{_FILE_NAME}.new"
    draft.write_bytes(msgspec.json.format(msgspec.json.encode(run), indent=2) + b"\n")
    draft.replace(root / _FILE_NAME)


def forget(root: Path) -> None:
    """There is no system any more."""
    (root / _FILE_NAME).unlink(missing_ok=True)
