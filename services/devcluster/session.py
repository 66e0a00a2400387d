"""A system for as long as it is needed: for tests and for other commands."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from rich.console import Console

from models.inputs.errors import InputError
from services.devcluster import ending, record
from services.devcluster import lifecycle as launch
from services.devcluster.probe import Progress, progress_of
from services.devcluster.record import ROOT, SIMCLUSTER, Run
from services.devcluster.request import Request
from services.devcluster.specs import COLLECTOR

_POLL_S: Final = 0.5
_QUIET: Final = Console(quiet=True)


@contextmanager
def system(request: Request, root: Path = ROOT, console: Console = _QUIET) -> Iterator[Run]:
    """Started when entered, stopped when left, whatever happens inside."""
    run = launch.start(request, root, console)
    try:
        yield run
    finally:
        ending.stop(root)


def wait(root: Path = ROOT, ticks: int | None = None, patience_s: float = 600.0) -> Progress:
    """Until so many ticks are closed by every domain, or until the scenario has ended.

    Raises InputError when a service was given up, or when it takes too long.
    """
    deadline = time.monotonic() + patience_s
    while True:
        run = record.running(root)
        if run.failed:
            raise InputError(run.failed[0])
        progress, ended = progress_of(run), has_ended(run)
        if progress is not None and (ended or (ticks is not None and progress.closed + 1 >= ticks)):
            return progress
        if time.monotonic() > deadline:
            raise InputError(f"after {patience_s:.0f} s {_shown(progress)}; see {run.folder}/logs")
        time.sleep(_POLL_S)


def has_ended(run: Run | None) -> bool:
    """Whether the scenario is over; raises when it never will be."""
    if run is None:
        raise InputError("the system was stopped by somebody else")
    if run.standing(SIMCLUSTER).state == "failed":
        raise InputError(f"simcluster {run.standing(SIMCLUSTER).detail}")
    # The collector goes when its source has ended; nobody else does so by itself.
    return run.standing(COLLECTOR).state == "done"


def _shown(progress: Progress | None) -> str:
    if progress is None:
        return "the simulated cluster does not answer"
    return f"the cluster is at tick {progress.tick} and tick {progress.closed} is the last closed"
