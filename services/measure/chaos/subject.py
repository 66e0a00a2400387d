"""The system that faults are injected into, and what a fault is."""

import os
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from schemas.breaker_changed import BreakerChanged
from schemas.domain_observed import DomainObserved
from schemas.scale_planned import ScalePlanned
from services.admin.decisions import Decisions, Key
from services.admin.reader import TopicReader
from services.devcluster import record
from services.devcluster.connect import options_for_home
from services.devcluster.probe import is_ready, read_progress
from services.devcluster.record import COLLECTOR, ServiceSpec
from services.devcluster.specs import DECIDING
from services.measure.chaos.flaky_source import FlakySource
from services.measure.chaos.flaky_target import FlakyTarget
from services.measure.chaos.inside.sitecustomize import FOLDER

SERVICES: Final = (COLLECTOR, *DECIDING)
_INSIDE: Final = Path(__file__).parent / "inside"
_HEARTBEATS: Final = 60
"""Newest breaker events to read; each breaker has one among them."""
_READY_S: Final = 60.0
_POLL_S: Final = 0.1


class Skipped(Exception):  # noqa: N818  nothing is wrong
    """A fault cannot be injected here; the message says why."""


class Claims(NamedTuple):
    """What a fault falsely reports or hides; a decrease because of it counts as wrong."""

    idle_apps: frozenset[str] = frozenset()
    """Busy apps that forged data called idle: no load of theirs lets them scale in."""
    epochs: frozenset[int] = frozenset()
    """Epochs of forged budgets."""
    blind: frozenset[Key] = frozenset()
    """Ticks and domains without any true measurement."""
    deleted: frozenset[Key] = frozenset()
    """Plans, by tick and domain, that were deleted before the actuator could read them."""


NO_CLAIMS: Final = Claims()


@dataclass
class Subject:
    """The system that faults are injected into."""

    root: Path
    target: FlakyTarget
    source: FlakySource
    rng: random.Random
    hostile_records: int
    """Number of records in a flood."""
    release: str
    """Git revision of the earlier release; empty: the last one of the changelog."""
    sent: int = 0
    """Hostile records that a broker accepted."""
    kept: list[Decisions] = field(default_factory=list)
    """Decisions that were read before a fault deleted their records."""

    @property
    def run(self) -> record.Run:
        """The system as its supervisor records it now."""
        return record.running(self.root)

    @property
    def home(self) -> Path:
        """Folder of its Kafka."""
        return Path(self.run.kafka_home)

    @property
    def options(self) -> dict[str, Any]:
        """Arguments for a client of its Kafka, as administrator."""
        return options_for_home(self.home)

    @property
    def domains(self) -> tuple[str, ...]:
        """Names of all domains."""
        return self.run.simulation.domains

    def spec(self, name: str) -> ServiceSpec:
        """How a service is started."""
        return next(spec for spec in self.run.specs if spec.name == name)

    def tick(self) -> int:
        """The present tick; 0 before the cluster answers."""
        progress = read_progress(self.run)
        return 0 if progress is None else progress.tick

    def pid(self, name: str) -> int:
        """Process id of a service; raises Skipped if it is not running."""
        process = self.run.status(name).process
        if process is None:
            raise Skipped(f"{name} was not running")
        return process.pid

    def wait_until_ready(self, name: str, other_than: int, timeout_s: float = _READY_S) -> bool:
        """Wait until a process of a service with another pid is ready."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            process = self.run.status(name).process
            changed = process is not None and process.pid != other_than
            if changed and is_ready(self.spec(name).url):
                return True
            time.sleep(_POLL_S)
        return False

    def seconds(self, ticks: float) -> float:
        """Wall time of this many ticks."""
        speed = float(self.spec(COLLECTOR).environment["HIRL_SPEED"])
        return ticks * self.run.simulation.tick_seconds / speed

    # What runs inside of the services.

    def set_clock(self, name: str, seconds: float) -> None:
        """Shift a service's wall clock by some seconds."""
        (inside_folder(self.root) / f"clock-{name}").write_text(str(seconds))

    def set_code(self, name: str, folder: Path | None) -> None:
        """The code that a service runs from its next start on; None: the present one."""
        file = inside_folder(self.root) / f"code-{name}"
        if folder is None:
            file.unlink(missing_ok=True)
        else:
            file.write_text(str(folder.resolve()))

    # What the topics say.

    def busy_apps(self, domains: Sequence[str]) -> frozenset[str]:
        """Apps that need all their replicas: only false data could lead to a decrease now."""
        found: set[str] = set()
        with TopicReader(self.options) as reader:
            for domain in domains:
                plan = reader.find_newest(ScalePlanned, domain, lambda _: True)
                if plan is not None:
                    apps = zip(plan.apps, plan.need, plan.replicas, strict=True)
                    found.update(app for app, need, replicas in apps if need >= replicas)
        return frozenset(found)

    def is_calm(self) -> bool:
        """Whether every breaker is closed."""
        with TopicReader(self.options) as reader:
            found = reader.newest_records(BreakerChanged, _HEARTBEATS)
        newest = [one.event for one in found]
        states = {one.scope: one.state for one in newest if isinstance(one, BreakerChanged)}
        return bool(states) and all(state == "closed" for state in states.values())

    def newest_frame(self, domain: str) -> DomainObserved:
        """The newest frame of a domain."""
        with TopicReader(self.options) as reader:
            frame = reader.find_newest(DomainObserved, domain, lambda _: True)
        if frame is None:
            raise Skipped(f"{domain} has no frame yet")
        return frame


Injection = Callable[[Subject], Claims]
"""Injects a fault, which is over when it returns."""


class Fault(NamedTuple):
    """One kind of fault."""

    name: str
    inject: Injection
    clean_topics: bool = False
    """Whether it needs a system without hostile records: an earlier release may die of them."""


def inside_folder(root: Path) -> Path:
    """The folder in which services find their faults (`inside/sitecustomize.py`)."""
    return root.resolve() / "inside"


def environment_for(root: Path) -> dict[str, str]:
    """Environment variables that load the fault code into every service."""
    inside_folder(root).mkdir(parents=True, exist_ok=True)
    paths = [str(_INSIDE), *filter(None, [os.environ.get("PYTHONPATH")])]
    # Safe: without the working directory, whose code would come before that of another release.
    return {
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONSAFEPATH": "1",
        FOLDER: str(inside_folder(root)),
    }
