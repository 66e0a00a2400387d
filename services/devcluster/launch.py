"""Start a whole system: Kafka, topics, and the services under their supervisor."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from models.inputs.errors import InputError
from services.devcluster import processes, record
from services.devcluster.kafka import cluster as kafka_cluster
from services.devcluster.kafka.description import Description
from services.devcluster.lifecycle import end, stop
from services.devcluster.processes import Notify, free_ports, locked, silent
from services.devcluster.record import ROOT, SIMCLUSTER, Run
from services.devcluster.request import Request, simulation_of
from services.devcluster.specs import SERVICES, service_specs

_SIGN_IN_S: Final = 60.0
_POLL_S: Final = 0.05
_NOTHING: Final[dict[str, str]] = {}


@contextmanager
def system(
    request: Request,
    root: Path = ROOT,
    notify: Notify = silent,
    environment: dict[str, str] = _NOTHING,
) -> Iterator[Run]:
    """A running system for the length of a block."""
    run = start(request, root, notify, environment)
    try:
        yield run
    finally:
        stop(root)


def start(
    request: Request,
    root: Path = ROOT,
    notify: Notify = silent,
    environment: dict[str, str] = _NOTHING,
) -> Run:
    """Start everything; return while services are still getting ready.

    Each system gets its own Kafka, because the services' state belongs to one run of a scenario.
    Stopping the system removes it; logs stay.
    """
    request.check()
    with locked(root):
        _check_alone(root)
        folder = root / f"{time.strftime('%Y%m%d-%H%M%S')}-{request.load()[1].name}"
        try:
            run, _ = prepare(request, folder, notify, environment)
            notify(f"starting {len(run.specs)} services, logs in {run.folder}/logs")
            return _start_supervisor(root, run)
        # Ctrl-C included: the run isn't recorded yet, so `hirl down` could not find its Kafka.
        except BaseException:
            end(root, _kafka_home(folder))
            raise


def prepare(
    request: Request,
    folder: Path,
    notify: Notify = silent,
    environment: dict[str, str] = _NOTHING,
) -> tuple[Run, Description]:
    """Start a Kafka with all topics and describe the services to run on it, without starting them.

    Every service gets `environment` in addition to its own variables.
    """
    # First of all, so that an invalid file doesn't leave a Kafka behind.
    cluster, scenario = request.load()
    folder, home = folder.resolve(), _kafka_home(folder)
    kafka = _start_kafka(request, home, notify)
    timeline = scenario.timeline(cluster.tick_seconds)
    specs = service_specs(request, timeline, kafka, home, folder, free_ports(len(SERVICES)))
    run = Run(
        name=folder.name,
        folder=str(folder),
        simulation=simulation_of(request, cluster, scenario),
        bootstrap=kafka.bootstrap,
        kafka_home=str(home),
        cluster_url=next(spec.url for spec in specs if spec.name == SIMCLUSTER),
        started=time.time(),
        specs=tuple(replace(spec, environment=spec.environment | environment) for spec in specs),
    )
    return run, kafka


def _kafka_home(folder: Path) -> Path:
    return folder.resolve() / "kafka"


def _check_alone(root: Path) -> None:
    run = record.read(root)
    if run is None:
        return
    if processes.is_running(run.supervisor):
        raise InputError(
            f"{run.simulation.scenario} is already running: inspect it with hirl status, "
            "stop it with hirl down"
        )
    raise InputError("a system ran here and was not stopped: clean up with hirl down")


def _start_kafka(request: Request, home: Path, notify: Notify) -> Description:
    # kafka-python is slow to import, and only this function needs it.
    from services.admin import client, reconcile  # noqa: PLC0415
    from services.devcluster.connect import options_for  # noqa: PLC0415

    kafka = kafka_cluster.start(home, brokers=request.brokers, secure=request.secure, notify=notify)
    admin = client.admin(options_for(home, kafka))
    try:
        outcome = reconcile.apply_to(admin, acls=request.secure)
    finally:
        admin.close()
    # Everything can be applied to a new broker, so a difference means that something is broken.
    if outcome.differences:
        raise InputError(f"Kafka differs from what it should be: {outcome.differences[0]}")
    notify(f"Kafka has {outcome.topics} topics")
    return kafka


def _start_supervisor(root: Path, run: Run) -> Run:
    """Start the supervisor and wait until it has signed in; from then on only it writes."""
    record.write(root, run)
    log = Path(run.folder) / "logs" / "supervisor.log"
    command = [sys.executable, "-m", "services.devcluster.supervisor", str(root)]
    child = processes.spawn(command, log, dict(os.environ))
    return _wait_for_sign_in(root, child, log)


def _wait_for_sign_in(root: Path, child: "subprocess.Popen[bytes]", log: Path) -> Run:
    deadline = time.monotonic() + _SIGN_IN_S
    while time.monotonic() < deadline:
        run = record.read(root)
        if run is not None and run.supervisor is not None:
            return run
        # A supervisor that has died never signs in: report it at once.
        if child.poll() is not None:
            raise InputError(f"the supervisor ended during its start, see {log}")
        time.sleep(_POLL_S)
    child.terminate()
    raise InputError(f"the supervisor did not start within {_SIGN_IN_S:.0f} s, see {log}")
