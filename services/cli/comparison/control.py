"""`hirl bench control`: controllers x scenarios x seeds on all cores, paired and resumable."""

import shlex
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from models.compare import pool, store
from models.compare.catalogue import ENTRANTS
from models.compare.hashes import code_hashes, combined, world_hashes
from models.compare.jobs import Finished, Job, jobs_of
from models.compare.outcome import Outcome
from models.compare.request import FULL_SEEDS, Asked, Request, request_of
from models.jit import is_compiled
from models.sim.tick import advance as tick_kernel
from services.cli.comparison.files import payload, write_csv
from services.cli.comparison.report import write_report
from services.cli.comparison.tables import FEW_SEEDS, READING, compact
from services.cli.options import JsonOption, ReportOption
from services.cli.output import progress, table, write_json
from services.cli.targets import writable_file

EXAMPLES = (
    "Examples: [bold]hirl bench control --quick[/bold], "
    "[bold]hirl bench control --controllers hpa,hpa@priority --seeds 0-4 "
    "--json control.json --report .hirl/control[/bold]"
)

ControllersOption = Annotated[
    str | None,
    typer.Option(
        "--controllers",
        metavar="A,B",
        help=f"Of {', '.join(ENTRANTS)}; hpa:0.6 is HPA at that target, NAME@fifo, NAME@priority "
        "and NAME@priority+preemption change the scheduler, package.module:attribute names an "
        "entrant of your own. All of the first when not given.",
    ),
]
ScenariosOption = Annotated[
    str | None,
    typer.Option(
        "--scenarios", metavar="S,T", help="Names or paths of files; all that ship by default."
    ),
]
SeedsOption = Annotated[
    str | None,
    typer.Option("--seeds", metavar="0-9", help=f"Such as 0-9, 3 or 0,2,5; default {FULL_SEEDS}."),
]
AppsOption = Annotated[
    int | None,
    typer.Option("--apps", metavar="N", help="Scale the cluster to so many apps."),
]
AgainstOption = Annotated[
    str | None,
    typer.Option(
        "--against",
        metavar="C",
        help="What the others are compared with; hpa-calibrated, hpa or the first by default.",
    ),
]
FrontierOption = Annotated[
    bool | None,
    typer.Option(
        "--frontier/--no-frontier",
        help="Run HPA at eight targets too; by default when all controllers run and not --quick.",
    ),
]
QuickOption = Annotated[
    bool, typer.Option("--quick", help="Fewer seeds, scenarios and apps: within a minute.")
]
FreshOption = Annotated[
    bool, typer.Option("--fresh", help="Run everything again, whatever earlier runs have left.")
]
CsvOption = Annotated[
    Path | None,
    typer.Option(
        "--csv", metavar="FILE", callback=writable_file, help="Write the rows as CSV, too."
    ),
]


def control(
    controllers: ControllersOption = None,
    scenarios: ScenariosOption = None,
    seeds: SeedsOption = None,
    apps: AppsOption = None,
    against: AgainstOption = None,
    frontier: FrontierOption = None,
    quick: QuickOption = False,
    fresh: FreshOption = False,
    json: JsonOption = None,
    csv: CsvOption = None,
    report: ReportOption = None,
) -> None:
    """Compare controllers: the same scenarios and seeds for each, on all cores.

    Seeds are paired: ratios are of sums over the seeds, with 95 % bootstrap intervals. What is
    done is kept in .hirl/bench-control, so that a run that was stopped goes on where it was;
    it is run again when the world or a controller changed.
    """
    console, began = Console(), time.monotonic()
    asked = Asked(controllers, scenarios, seeds, apps, against, frontier, quick)
    request = request_of(asked)
    worlds, code = world_hashes(request), code_hashes(request.entrants)
    jobs = jobs_of(request, worlds, code)
    kept = [] if fresh else _kept(jobs)
    left = [job for job in jobs if job.label not in {done.label for done in kept}]
    _announce(console, request, len(jobs), len(kept))
    finished = [*kept, *_run(left, console)]
    outcome = Outcome(
        request=request,
        world_hash=combined(f"{name} {h}" for name, by in worlds.items() for h in by.values()),
        world_hashes=worlds,
        code_hash=combined(code.values()),
        jobs=finished,
        reused=len(kept),
        seconds=time.monotonic() - began,
        command=_command(asked),
    )
    _show(console, outcome)
    _write(console, outcome, json, csv, report)


def _kept(jobs: list[Job]) -> list[Finished]:
    found = (store.load(store.FOLDER, job) for job in jobs)
    return [finished for finished in found if finished is not None]


def _announce(console: Console, request: Request, jobs: int, kept: int) -> None:
    extra = f" and {len(request.frontier)} targets of HPA" if request.frontier else ""
    _say(
        console,
        f"{len(request.controllers)} controllers{extra} x {len(request.scenarios)} scenarios x "
        f"{len(request.seeds)} seeds, {request.cluster.apps:,} apps, against {request.reference}",
    )
    if request.reduced:
        _say(console, f"quick: {', '.join(request.reduced)}")
    if kept:
        _say(console, f"{kept} of {jobs} jobs are done already, in {store.FOLDER}")


def _run(jobs: list[Job], console: Console) -> list[Finished]:
    if not jobs:
        return []
    entrants = len({job.controller for job in jobs})
    compiling = "" if is_compiled(tick_kernel) else ", compiling kernels (once, minutes)"
    with progress(f"trying out {entrants} entrants{compiling}", entrants, console) as advance:
        paces = pool.try_out(jobs, advance)
    processes = pool.processes_for(jobs)
    guess = pool.expected_s(jobs, paces, processes)
    _say(console, f"{len(jobs)} jobs on {processes} cores, about {_duration(guess)}")
    try:
        with progress("running", len(jobs), console) as advance:
            return pool.run(jobs, processes, store.FOLDER, advance)
    except KeyboardInterrupt:
        _say(console, f"stopped; what is done is kept in {store.FOLDER}, run again to go on")
        raise


def _show(console: Console, outcome: Outcome) -> None:
    for listing in compact(outcome.standings, outcome.request.reference):
        console.print(table(*listing))
    few = len(outcome.request.seeds) < FEW_SEEDS
    note = f"; with fewer than {FEW_SEEDS} seeds intervals are too narrow" if few else ""
    _say(console, f"{READING}{note}")
    reused = f", {outcome.reused} jobs reused" if outcome.reused else ""
    _say(console, f"world {outcome.world_hash}; took {_duration(outcome.seconds)}{reused}")


def _write(
    console: Console, outcome: Outcome, json: Path | None, csv: Path | None, report: Path | None
) -> None:
    if json is not None:
        write_json(json, payload(outcome))
        _say(console, f"JSON: {json}")
    if csv is not None:
        write_csv(csv, outcome.rows)
        _say(console, f"CSV: {csv}")
    if report is not None:
        _say(console, f"report: {write_report(report, outcome)}")


def _command(asked: Asked) -> str:
    values = {
        "--controllers": asked.controllers,
        "--scenarios": asked.scenarios,
        "--seeds": asked.seeds,
        "--apps": asked.apps,
        "--against": asked.against,
    }
    parts = [f"{name} {shlex.quote(str(value))}" for name, value in values.items() if value]
    if asked.frontier is not None:
        parts.append("--frontier" if asked.frontier else "--no-frontier")
    if asked.quick:
        parts.append("--quick")
    return " ".join(["hirl bench control", *parts])


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _say(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)
