"""Services that are measured: on a Kafka of their own, looked after by this very process."""

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from models.inputs.errors import InputError
from services._kit.clock import SystemClock
from services.devcluster import lifecycle as launch
from services.devcluster.connect import options_for_home
from services.devcluster.kafka import cluster as kafka_cluster
from services.devcluster.kafka.description import Description
from services.devcluster.record import Run, Spec
from services.devcluster.request import Request
from services.devcluster.specs import SERVICES
from services.devcluster.supervisor import Supervisor, is_ready, start_service

BROKER: Final = "kafka"
_LOOK_S: Final = 0.2
_LETTERS: Final = 200


class Stage:
    """A run, and the thread that starts again what dies."""

    def __init__(self, run: Run, kafka: Description) -> None:
        self.run, self._kafka = run, kafka
        self._supervisor = Supervisor(run, start_service, is_ready, SystemClock(), self._told)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="supervisor", daemon=True)

    @property
    def options(self) -> dict[str, Any]:
        """For a client of its Kafka."""
        return options_for_home(Path(self.run.kafka_home))

    @property
    def pids(self) -> dict[str, int]:
        """Of every service that runs, and of the broker."""
        found = {
            name: one.process.pid
            for name, one in self.run.standings.items()
            if one.process is not None
        }
        return found | {BROKER: self._kafka.nodes[0].pid or 0}

    def spec(self, name: str) -> Spec:
        """How a service was started."""
        return next(spec for spec in self.run.specs if spec.name == name)

    def check(self) -> None:
        """Raise when somebody was given up or had to be started again: figures would be wrong."""
        for name, one in self.run.standings.items():
            if one.state in ("failed", "resting") or one.restarts:
                told = f"{one.detail}; {_last_words(self.spec(name))}"
                raise InputError(f"{name} was started again: {told}")

    def start(self) -> None:
        """Begin to start services."""
        self._thread.start()

    def stop(self) -> None:
        """End all services, if they run; Kafka stays, so that topics can be read in peace."""
        self._over.set()
        self._thread.join()
        self._supervisor.stop()

    def _look(self) -> None:
        while not self._over.wait(_LOOK_S):
            self._supervisor.look()

    def _told(self, run: Run) -> None:
        self.run = run


@contextmanager
def staged(
    request: Request,
    folder: Path,
    services: Sequence[str] = SERVICES,
    environment: dict[str, str] | None = None,
) -> Iterator[Stage]:
    """A Kafka with all topics and some services; gone afterwards, but for the logs."""
    try:
        run, kafka = launch.prepare(request, folder, environment=environment or {})
        run = replace(run, specs=tuple(spec for spec in run.specs if spec.name in services))
        stage = Stage(run, kafka)
        stage.start()
        try:
            yield stage
        finally:
            stage.stop()
    finally:
        kafka_cluster.stop(folder.resolve() / BROKER, wipe=True, patience_s=0)


def _last_words(spec: Spec) -> str:
    """What a service wrote last before it ended: the line of an error names the reason last."""
    lines = Path(spec.log).read_text(errors="replace").splitlines()
    errors = [line for line in lines if '"level": "error"' in line or "Error" in line]
    return errors[-1][-_LETTERS:] if errors else ""


def load() -> float:
    """Of this machine over the last minute: who else was at work while something was measured."""
    return os.getloadavg()[0]
