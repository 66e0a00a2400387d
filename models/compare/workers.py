"""Run jobs on all cores: kernels are compiled first, results are stored as soon as they exist."""

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Final

import msgspec

from models.compare.catalogue import enter
from models.compare.jobs import Finished, Job, play, population_of, save_finished, work
from models.inputs.errors import InputError
from models.sim.config.scenario import Scenario
from models.sim.world import World

_TRIAL_MINUTES: Final = 3
"""Length of a trial; the first minute settles, and every later one has all periodic steps."""
_SETTLING_TICKS: Final = 6
"""First ticks of a trial, in which kernels are loaded or compiled. Every periodic step runs."""
# Rough, and only for the estimate that is shown before a run.
_JOB_S: Final = 1.0
"""To build a world and to summarise it, in addition to its ticks."""
_PROCESS_S: Final = 4.0
"""For a process to start and to load its kernels."""

Advance = Callable[[int], None]
Paces = dict[str, float]
"""App-ticks per second of each entrant."""


def try_out(jobs: Sequence[Job], advance: Advance) -> Paces:
    """Run each entrant briefly in this process, so that the workers don't compile in parallel.

    The trial also predicts how long the benchmark will take.
    """
    paces: Paces = {}
    for job in {job.controller: job for job in jobs}.values():
        paces[job.controller] = _try_out(job)
        advance(1)
    return paces


def expected_s(jobs: Sequence[Job], paces: Paces, processes: int) -> float:
    """Estimated duration of the jobs in seconds."""
    seconds = sum(_JOB_S + work(job) / paces[job.controller] for job in jobs)
    return seconds / processes + (_PROCESS_S if processes > 1 else 0)


def processes_for(jobs: Sequence[Job]) -> int:
    """One per core, but no more than there are jobs."""
    return max(1, min(cores(), len(jobs)))


def run(jobs: Sequence[Job], processes: int, folder: Path, advance: Advance) -> list[Finished]:
    """Run all jobs, in no particular order; the process that runs a job stores its result."""
    if processes == 1:
        return [_run_in_process(job, folder, advance) for job in jobs]
    # Forking this process is unsafe, because it has threads. A fork server imports the models once,
    # and workers are forked from it.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    finished = []
    with ProcessPoolExecutor(processes, context, initializer=_prepare) as executor:
        try:
            tasks = [executor.submit(_run_and_store, job, folder) for job in jobs]
            for task in as_completed(tasks):
                finished.append(task.result())
                advance(1)
        except BrokenProcessPool:
            raise InputError(
                "a process of the benchmark was killed, perhaps out of memory; "
                "finished jobs are kept: run the command again"
            ) from None
        # Mainly Ctrl-C: leaving the `with` block would wait for all queued jobs.
        except BaseException:
            executor.shutdown(cancel_futures=True)
            raise
    return finished


def _try_out(job: Job) -> float:
    times: list[float] = []

    def on_tick(_world: World) -> None:
        times.append(time.perf_counter())

    population = population_of(job.cluster)
    match = enter(job.controller, job.cluster, _shortened(job.scenario), job.seeds, population)
    match.play(on_tick)
    settled = times[_SETTLING_TICKS - 1 :]
    app_ticks = (len(settled) - 1) * len(job.seeds) * job.cluster.apps
    return app_ticks / (settled[-1] - settled[0])


def _shortened(scenario: Scenario) -> Scenario:
    return msgspec.structs.replace(
        scenario, warmup_minutes=0, length_minutes=_TRIAL_MINUTES, events=(), replay=()
    )


def _run_in_process(job: Job, folder: Path, advance: Advance) -> Finished:
    finished = _run_and_store(job, folder)
    advance(1)
    return finished


def _run_and_store(job: Job, folder: Path) -> Finished:
    try:
        finished = play(job)
    except Exception as error:
        # A traceback from a worker does not show which of hundreds of jobs it was.
        error.add_note(f"in the job {job.label}")
        raise
    save_finished(folder, job, finished)
    return finished


def _prepare() -> None:
    """End workers silently on Ctrl-C, which reaches the whole group; the command explains."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def cores() -> int:
    """Number of cores that this process may use."""
    # A container may be limited to a few cores of the machine; macOS cannot tell.
    available = getattr(os, "sched_getaffinity", None)
    return len(available(0)) if available is not None else os.cpu_count() or 1
