"""Jobs of a comparison on all cores: stored results first, then the rest, with progress."""

from rich.console import Console

from models.compare import workers
from models.compare.jobs import FOLDER, Finished, Job, load_finished
from models.jit import is_compiled
from models.sim.tick import advance as tick_kernel
from services.cli.output import print_line, progress


def run_jobs(jobs: list[Job], fresh: bool, console: Console) -> tuple[list[Finished], int]:
    """Results of all jobs, and how many of them an earlier run had stored."""
    stored = [] if fresh else _stored(jobs)
    # By label: a stored result is no job, but both name controller, scenario, size and seeds.
    remaining = [job for job in jobs if job.label not in {job.label for job in stored}]
    if stored:
        print_line(console, f"{len(stored)} of {len(jobs)} jobs are stored in {FOLDER}")
    return [*stored, *_run(remaining, console)], len(stored)


def duration(seconds: float) -> str:
    """Seconds or minutes."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _stored(jobs: list[Job]) -> list[Finished]:
    results = (load_finished(FOLDER, job) for job in jobs)
    return [result for result in results if result is not None]


def _run(jobs: list[Job], console: Console) -> list[Finished]:
    if not jobs:
        return []
    try:
        return _run_all(jobs, console)
    # Also before the first job has finished: the user should know that nothing is lost.
    except KeyboardInterrupt:
        print_line(console, f"stopped; finished jobs are stored in {FOLDER}, run again to resume")
        raise


def _run_all(jobs: list[Job], console: Console) -> list[Finished]:
    entrants = len({job.controller for job in jobs})
    # Only the kernel of the world is checked: controllers may still have to compile theirs.
    compiling = "" if is_compiled(tick_kernel) else ", compiling kernels (once, takes minutes)"
    with progress(f"trying out {entrants} entrants{compiling}", entrants, console) as advance:
        # In this process first: several workers would compile the same kernels at once.
        paces = workers.try_out(jobs, advance)
    processes = workers.processes_for(jobs)
    estimate = workers.expected_s(jobs, paces, processes)
    print_line(console, f"{len(jobs)} jobs on {processes} cores, about {duration(estimate)}")
    with progress("running", len(jobs), console) as advance:
        return workers.run(jobs, processes, FOLDER, advance)
