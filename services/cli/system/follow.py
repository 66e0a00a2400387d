"""Follow a system until its scenario ends: over Kafka, or in this process without a broker."""

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
from services.admin.reader import TopicReader
from services.cli.system.state import EVENTS, DomainState, SystemState
from services.cli.system.view import Health, View
from services.devcluster import record
from services.devcluster.connect import options_for_home
from services.devcluster.lifecycle import has_ended
from services.devcluster.memory import MemorySystem
from services.devcluster.probe import read_metrics, read_results
from services.devcluster.record import Run, Simulation
from services.simcluster.score import Results

_METRICS_EVERY_S: Final = 2.0


def new_state(simulation: Simulation) -> SystemState:
    """A state before the first event; domains are in the order of the cluster file."""
    return SystemState({name: DomainState() for name in simulation.domains})


def follow(root: Path, run: Run, view: View) -> Results:
    """Show a system until its scenario has ended; return its figures."""
    state, health = new_state(run.simulation), Health(run)
    with TopicReader(options_for_home(Path(run.kafka_home))) as reader:
        # From the beginning: the first ticks may be decided before this reader is connected.
        reader.seek([topic_of(kind).name for kind in EVENTS], from_beginning=True)
        with view, _reading_metrics(root, health):
            # `health.run` is refreshed by the thread that reads metrics.
            while not has_ended(health.run):
                for found in reader.poll():
                    if found.event is not None:
                        state.update(found.event)
                view.show(state, health)
    results = read_results(run)
    if results is None:
        raise InputError(f"the simulated cluster does not answer, see {run.folder}/logs")
    check_decided(state)
    return _with_overruns(results, state)


def check_decided(state: SystemState) -> None:
    """Refuse figures of a cluster that was never controlled: they would pass for ours."""
    if state.closed < 0:
        raise InputError(
            "the scenario ended before a tick was decided: "
            "use a lower --speed, or --lock-step, which waits"
        )


@contextmanager
def _reading_metrics(root: Path, health: Health) -> Iterator[None]:
    """Read the services' metrics in a thread during a block: a service may answer slowly."""
    stop = Signal()

    def read() -> None:
        while not stop.wait(_METRICS_EVERY_S):
            run = health.run = record.read(root)
            # There is no record any more after `hirl down` in another terminal.
            for spec in run.specs if run else ():
                if stop.is_set():
                    return
                health.metrics[spec.name] = read_metrics(spec, health.metrics.get(spec.name))

    thread = Thread(target=read, name="metrics", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def follow_memory(
    system: MemorySystem, simulation: Simulation, view: View, tick_s: float
) -> Results:
    """Run a system in this process to its end; a tick takes at least `tick_s` seconds."""
    state, health = new_state(simulation), Health()
    system.bus.add(lambda: Service(Watcher(state)))
    with view:
        due = time.monotonic()
        for _ in system.ticks():
            view.show(state, health)
            # A machine that can't keep up runs late; it doesn't catch up afterwards.
            due = max(due + tick_s, time.monotonic())
            time.sleep(max(0.0, due - time.monotonic()))
    return _with_overruns(system.cluster.results(), state)


def _with_overruns(results: Results, state: SystemState) -> Results:
    """Add overruns: the simulated cluster doesn't know the budgets and can't count them."""
    rows = [replace(row, budget_overruns=state.overruns) for row in results.rows]
    return replace(results, rows=rows)


class Watcher(Handler[None]):
    """A reader on the memory bus that feeds all events into the state."""

    name = "watcher"
    # Reference data is read whole, so all events arrive in `learn`, whatever their key.
    reference = EVENTS

    def __init__(self, state: SystemState) -> None:
        self._state = state

    def learn(self, event: Event, clock: Clock) -> None:  # noqa: ARG002
        """Update the state."""
        self._state.update(event)

    def start(self, key: str) -> None:
        """Keep no state per key."""

    def handle(self, event: Event, state: None, clock: Clock) -> Step[None]:  # noqa: ARG002
        """Consume nothing: all events arrive in `learn`."""
        return Step(state)
