"""Watching a system until its scenario ends: over Kafka, or in this process without a broker."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event as Signal
from threading import Thread
from typing import Final

from msgspec.structs import replace

from models.inputs.errors import InputError
from schemas.fields import Event
from schemas.topics import topic_of
from services._kit.clock import Clock
from services._kit.handler import Handler, Service, Step
from services.admin.reader import Onlooker
from services.cli.system.picture import SEEN, Domain, Picture
from services.cli.system.view import Health, View
from services.devcluster import record
from services.devcluster.connect import options_for_home
from services.devcluster.memory import MemorySystem
from services.devcluster.probe import results_of, vitals_of
from services.devcluster.record import Run, Scene
from services.devcluster.session import has_ended
from services.simcluster.score import Results

_VITALS_EVERY_S: Final = 2.0


def new_picture(scene: Scene) -> Picture:
    """Nothing seen yet; domains in the order of the cluster file."""
    return Picture({name: Domain() for name in scene.domains})


def follow(root: Path, run: Run, view: View) -> Results:
    """Show a system until its scenario has ended; its figures."""
    picture, health = new_picture(run.scene), Health(run)
    with Onlooker(options_for_home(Path(run.kafka_home))) as onlooker:
        onlooker.watch([topic_of(kind).name for kind in SEEN], from_beginning=True)
        with view, _asking(root, health):
            while not has_ended(health.run):
                for found in onlooker.next():
                    if found.event is not None:
                        picture.take(found.event)
                view.show(picture, health)
    results = results_of(run)
    if results is None:
        raise InputError(f"the simulated cluster does not answer, see {run.folder}/logs")
    check_decided(picture)
    return _with_overruns(results, picture)


def check_decided(picture: Picture) -> None:
    """Figures of a cluster that nobody controlled would be taken for ours."""
    if picture.closed < 0:
        raise InputError(
            "the scenario was over before a tick was decided: "
            "take a lower --speed, or --lock-step, which waits"
        )


@contextmanager
def _asking(root: Path, health: Health) -> Iterator[None]:
    """Ask the services how they are while inside; in a thread, as one may be slow to answer."""
    stop = Signal()

    def ask() -> None:
        while not stop.wait(_VITALS_EVERY_S):
            run = health.run = record.read(root)
            for spec in run.specs if run else ():
                if stop.is_set():
                    return
                health.vitals[spec.name] = vitals_of(spec, health.vitals.get(spec.name))

    thread = Thread(target=ask, name="vitals", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def follow_memory(system: MemorySystem, scene: Scene, view: View, tick_s: float) -> Results:
    """Let a system in this process run to its end, a tick in so many seconds at least."""
    picture, health = new_picture(scene), Health()
    system.bus.add(lambda: Service(Watcher(picture)))
    with view:
        due = time.monotonic()
        for _ in system.ticks():
            view.show(picture, health)
            # A machine that cannot keep up runs late and never hurries afterwards.
            due = max(due + tick_s, time.monotonic())
            time.sleep(max(0.0, due - time.monotonic()))
    return _with_overruns(system.cluster.results(), picture)


def _with_overruns(results: Results, picture: Picture) -> Results:
    """Budgets are known to the controllers alone, so the cluster could not count these."""
    rows = [replace(row, budget_overruns=picture.overruns) for row in results.rows]
    return replace(results, rows=rows)


class Watcher(Handler[None]):
    """An onlooker on the memory bus: it reads everything that a picture is made of."""

    name = "watcher"
    reference = SEEN

    def __init__(self, picture: Picture) -> None:
        self._picture = picture

    def learn(self, event: Event, clock: Clock) -> None:  # noqa: ARG002
        """Take it into the picture."""
        self._picture.take(event)

    def start(self, key: str) -> None:
        """It has no state."""

    def handle(self, event: Event, state: None, clock: Clock) -> Step[None]:  # noqa: ARG002
        """Nothing is consumed."""
        return Step(state)
