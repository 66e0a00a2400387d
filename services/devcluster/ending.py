"""A whole system, stopped: whatever `launch` started, and nothing else."""

import subprocess
from pathlib import Path
from typing import Final

from services.devcluster import identity as processes
from services.devcluster import record
from services.devcluster.kafka import cluster as kafka_cluster
from services.devcluster.processes import locked
from services.devcluster.record import ROOT
from services.devcluster.supervisor import STOP_S

_MARGIN_S: Final = 10.0

children: Final[dict[int, "subprocess.Popen[bytes]"]] = {}
"""Supervisors that this very process started: they must be waited for, or they stay as zombies."""


def stop(root: Path = ROOT) -> int | None:
    """Stop what was started; how many processes there were, None where nothing was started."""
    with locked(root):
        run = record.read(root)
        if run is None:
            return None
        return end(root, Path(run.kafka_home))


def end(root: Path, home: Path) -> int:
    """The supervisor first, or it would start again what ends; then what it left behind."""
    run = record.read(root)
    ended = 0
    if run is not None:
        services = len([one for one in run.processes if processes.is_running(one)])
        ended += services + processes.end_all([run.supervisor], STOP_S + _MARGIN_S)
        # It may have started one in the meantime, or have been killed before.
        last = record.read(root) or run
        processes.end_all(last.processes, STOP_S)
        if run.supervisor is not None and run.supervisor.pid in children:
            children.pop(run.supervisor.pid).wait()
    ended += kafka_cluster.stop(home, wipe=True, patience_s=0)
    record.forget(root)
    return ended
