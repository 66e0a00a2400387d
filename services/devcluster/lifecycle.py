"""Wait for a running system, and stop it; light enough for `hirl status` and `hirl down`."""

import time
from pathlib import Path
from typing import Final

from models.inputs.errors import InputError
from services.devcluster import processes, record
from services.devcluster.kafka import cluster as kafka_cluster
from services.devcluster.probe import Progress, read_progress
from services.devcluster.processes import locked
from services.devcluster.record import COLLECTOR, ROOT, SIMCLUSTER, Run
from services.devcluster.supervisor import STOP_S

_STOP_MARGIN_S: Final = 10.0
"""Added to STOP_S: the supervisor then stops the simulated cluster and kills what is left."""
_POLL_S: Final = 0.5


def wait(root: Path = ROOT, ticks: int | None = None, timeout_s: float = 600.0) -> Progress:
    """Wait until every domain has closed `ticks` ticks, or until the scenario has ended.

    Raises InputError when a service has failed, or after `timeout_s`.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        run = record.running(root)
        if run.failed:
            raise InputError(run.failed[0])
        progress, ended = read_progress(run), has_ended(run)
        # Ticks count from 0: with tick n closed, n + 1 of them are.
        if progress is not None and (ended or (ticks is not None and progress.closed + 1 >= ticks)):
            return progress
        if time.monotonic() > deadline:
            state = _progress_text(progress)
            resting = "".join(f"; {line}" for line in run.resting)
            raise InputError(f"after {timeout_s:.0f} s {state}{resting}; see {run.folder}/logs")
        time.sleep(_POLL_S)


def has_ended(run: Run | None) -> bool:
    """Whether the scenario is over; raises InputError when it can't finish any more."""
    if run is None:
        raise InputError("the system was stopped by another command")
    if run.status(SIMCLUSTER).state == "failed":
        raise InputError(f"simcluster {run.status(SIMCLUSTER).detail}")
    # The simulated cluster keeps serving its results; the collector ends with the scenario.
    return run.status(COLLECTOR).state == "done"


def stop(root: Path = ROOT) -> int | None:
    """Stop the system; return how many processes ended, None if no system was recorded."""
    with locked(root):
        run = record.read(root)
        return None if run is None else end(root, Path(run.kafka_home))


def end(root: Path, kafka_home: Path) -> int:
    """Stop the supervisor first, or it would restart what ends; then the rest."""
    run = record.read(root)
    ended = 0
    if run is not None:
        # Counted now, because the supervisor ends them before this process could.
        services = len([one for one in run.processes if processes.is_running(one)])
        ended += services + processes.end_all([run.supervisor], STOP_S + _STOP_MARGIN_S)
        # It may have started a service meanwhile, or have been killed before.
        last = record.read(root) or run
        processes.end_all(last.processes, STOP_S)
    # At once: its data is wiped, so a broker has nothing to save.
    ended += kafka_cluster.stop(kafka_home, wipe=True, timeout_s=0)
    record.remove(root)
    return ended


def _progress_text(progress: Progress | None) -> str:
    if progress is None:
        return "the simulated cluster does not answer"
    return f"the cluster is at tick {progress.tick} and the last closed tick is {progress.closed}"
