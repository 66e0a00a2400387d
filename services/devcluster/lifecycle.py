"""A whole system, started: Kafka, topics, and the services under their supervisor."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from msgspec.structs import replace
from rich.console import Console

from models.inputs.errors import InputError
from models.jit import is_compiled
from models.sim.tick import advance
from services.devcluster import identity as processes
from services.devcluster import record
from services.devcluster.ending import children, end
from services.devcluster.kafka import cluster as kafka_cluster
from services.devcluster.kafka.description import Description
from services.devcluster.processes import free_ports, locked
from services.devcluster.record import ROOT, SIMCLUSTER, Run
from services.devcluster.request import Request, scene_of
from services.devcluster.specs import SERVICES, lineup

COMPILING: Final = "kernels are compiled first, this once: two to four minutes"
_SIGN_IN_S: Final = 60.0
_POLL_S: Final = 0.05
_QUIET: Final = Console(quiet=True)
_NOTHING: Final[dict[str, str]] = {}


def start(request: Request, root: Path = ROOT, console: Console = _QUIET) -> Run:
    """Start everything; returns while services are still getting ready.

    Each system has a Kafka of its own, because what services remember belongs to one run of a
    scenario. It is gone when the system is stopped; logs stay.
    """
    request.check()
    with locked(root):
        _refuse_second(root)
        folder = root / f"{time.strftime('%Y%m%d-%H%M%S')}-{request.described()[1].name}"
        try:
            run, _ = prepare(request, folder, console)
            console.print(f"starting {len(run.specs)} services, logs in {run.folder}/logs")
            if not is_compiled(advance):
                console.print(COMPILING)
            return _supervised(root, run)
        except BaseException:
            end(root, _home(folder))
            raise


def prepare(
    request: Request,
    folder: Path,
    console: Console = _QUIET,
    environment: dict[str, str] = _NOTHING,
) -> tuple[Run, Description]:
    """A Kafka with all topics, and the services that are to run on it, not yet started.

    `environment` is for all of them, beside what each has of its own.
    """
    cluster, scenario = request.described()
    folder, home = folder.resolve(), _home(folder)
    kafka = _kafka(request, home, console)
    timeline = scenario.timeline(cluster.tick_seconds)
    specs = lineup(request, timeline, kafka, home, folder, free_ports(len(SERVICES)))
    run = Run(
        name=folder.name,
        folder=str(folder),
        scene=scene_of(request, cluster, scenario),
        bootstrap=kafka.bootstrap,
        kafka_home=str(home),
        cluster_url=next(spec.url for spec in specs if spec.name == SIMCLUSTER),
        began=time.time(),
        specs=tuple(replace(one, environment=one.environment | environment) for one in specs),
    )
    return run, kafka


def _home(folder: Path) -> Path:
    return folder.resolve() / "kafka"


def _refuse_second(root: Path) -> None:
    run = record.read(root)
    if run is None:
        return
    if processes.is_running(run.supervisor):
        raise InputError(
            f"{run.scene.scenario} is already running: look at it by hirl status, "
            "stop it by hirl down"
        )
    raise InputError("a system was here and was not stopped: hirl down tidies up")


def _kafka(request: Request, home: Path, console: Console) -> Description:
    """A Kafka of this run's own, with all topics."""
    # kafka-python is slow to import, and only where services run.
    from services.admin import client, reconcile  # noqa: PLC0415
    from services.devcluster.connect import options_for  # noqa: PLC0415

    kafka = kafka_cluster.start(
        home, brokers=request.brokers, secure=request.secure, console=console
    )
    admin = client.admin(options_for(home, kafka))
    try:
        outcome = reconcile.apply_to(admin, acls=request.secure)
    finally:
        admin.close()
    if outcome.differences:
        raise InputError(f"Kafka is not as it should be: {outcome.differences[0]}")
    console.print(f"Kafka has {outcome.topics} topics")
    return kafka


def _supervised(root: Path, run: Run) -> Run:
    """Start the supervisor and wait until it has signed in: from then on it alone writes."""
    record.write(root, run)
    path = Path(run.folder) / "logs" / "supervisor.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as output:
        child = subprocess.Popen(  # noqa: S603  (our own command line)
            [sys.executable, "-m", "services.devcluster.supervisor", str(root)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=dict(os.environ),
        )
    children[child.pid] = child
    deadline = time.monotonic() + _SIGN_IN_S
    while time.monotonic() < deadline:
        known = record.read(root)
        if known is not None and known.supervisor is not None:
            return known
        if child.poll() is not None:
            raise InputError(f"the supervisor ended at its start, see {path}")
        time.sleep(_POLL_S)
    child.terminate()
    raise InputError(f"the supervisor did not start within {_SIGN_IN_S:.0f} s, see {path}")
