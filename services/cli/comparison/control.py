"""`hirl bench control`: controllers x scenarios x seeds on all cores, paired and resumable."""

import csv as csv_format
import io
import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console

from models.cluster.description import PRIORITIES
from models.compare.catalogue import ENTRANTS
from models.compare.hashes import code_hashes, combined, world_hashes
from models.compare.jobs import jobs_of
from models.compare.outcome import BenchmarkOutcome, payload
from models.compare.provenance import notice, outdated
from models.compare.request import FULL_SEEDS, Options, Request, request_of
from models.sim.results.summary import Result
from services.cli.commands import examples
from services.cli.comparison.report import write_report
from services.cli.comparison.running import duration, run_jobs
from services.cli.comparison.tables import (
    FEW_SEEDS,
    READING,
    compact,
    insurance_table,
    pooled_tables,
)
from services.cli.options import (
    ClusterOption,
    JsonOption,
    PhysicsOption,
    ReportOption,
    writable_file,
)
from services.cli.output import print_line, table, write_file, write_json

ControllersOption = Annotated[
    str | None,
    typer.Option(
        "--controllers",
        metavar="A,B",
        help=f"Of {', '.join(ENTRANTS)}; hpa:0.6 is HPA at that target, NAME@fifo, NAME@priority "
        "and NAME@priority+preemption change the scheduler, package.module:attribute names an "
        "entrant of your own. All listed ones when not given.",
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
    typer.Option("--apps", metavar="N", help="Scale the cluster to this many apps."),
]
AgainstOption = Annotated[
    str | None,
    typer.Option(
        "--against",
        metavar="C",
        help="The reference of the comparison; hpa-calibrated, hpa or the first by default.",
    ),
]
FrontierOption = Annotated[
    bool | None,
    typer.Option(
        "--frontier/--no-frontier",
        help="Also run HPA at eight targets; the default when all controllers run without --quick.",
    ),
]
QuickOption = Annotated[
    bool, typer.Option("--quick", help="Fewer seeds, scenarios and apps: within a minute.")
]
FreshOption = Annotated[
    bool, typer.Option("--fresh", help="Run everything again, even if results are stored.")
]
CsvOption = Annotated[
    Path | None,
    typer.Option(
        "--csv", metavar="FILE", callback=writable_file, help="Also write the rows as CSV."
    ),
]


@examples(
    "hirl bench control --quick",
    "hirl bench control --controllers hpa,hpa@priority --seeds 0-4 "
    "--json control.json --report .hirl/control",
)
def control(
    controllers: ControllersOption = None,
    scenarios: ScenariosOption = None,
    seeds: SeedsOption = None,
    apps: AppsOption = None,
    against: AgainstOption = None,
    frontier: FrontierOption = None,
    quick: QuickOption = False,
    cluster: ClusterOption = None,
    physics: PhysicsOption = None,
    fresh: FreshOption = False,
    json: JsonOption = None,
    csv: CsvOption = None,
    report: ReportOption = None,
) -> None:
    """Compare controllers: the same scenarios and seeds for each, on all cores.

    Seeds are paired: ratios are of sums over the seeds, with 95 % bootstrap intervals. Results are
    stored in .hirl/bench-control, so that an interrupted run resumes; a job runs again when the
    world or a controller has changed.
    """
    console, began = Console(), time.monotonic()
    options = Options(
        controllers, scenarios, seeds, apps, against, frontier, quick, cluster, physics
    )
    outcome = benchmark(request_of(options), _command(options), fresh, console, began)
    _show(console, outcome)
    _write(console, outcome, json, csv, report)


def benchmark(
    request: Request, command: str, fresh: bool, console: Console, began: float
) -> BenchmarkOutcome:
    """Run the jobs whose results are not stored, with progress on the console."""
    worlds, code = world_hashes(request), code_hashes(request.entrants)
    jobs = jobs_of(request, worlds, code)
    _announce(console, request)
    finished, reused = run_jobs(jobs, fresh, console)
    return BenchmarkOutcome(
        request=request,
        # With the names of the scenarios, because `combined` drops repeated hashes.
        world_hash=combined(f"{name} {h}" for name, by in worlds.items() for h in by.values()),
        world_hashes=worlds,
        code_hash=combined(code.values()),
        jobs=finished,
        reused=reused,
        seconds=time.monotonic() - began,
        outdated=outdated(entrants=request.entrants),
        command=command,
    )


def _announce(console: Console, request: Request) -> None:
    extra = f" and HPA at {len(request.frontier)} targets" if request.frontier else ""
    print_line(
        console,
        f"controllers: {len(request.controllers)}{extra}; scenarios: {len(request.scenarios)}; "
        f"seeds: {len(request.seeds)}; apps: {request.cluster.apps:,}; against {request.reference}",
    )
    if request.reduced:
        print_line(console, f"quick: {', '.join(request.reduced)}")


def _show(console: Console, outcome: BenchmarkOutcome) -> None:
    for listing in compact(outcome.standings, outcome.request.reference):
        console.print(table(*listing))
    for listing in pooled_tables(outcome.pooled, outcome.request.reference):
        console.print(table(*listing))
    if insurance := insurance_table(outcome.rows):
        console.print(table(*insurance))
    few = len(outcome.request.seeds) < FEW_SEEDS
    note = f"; with fewer than {FEW_SEEDS} seeds intervals are too narrow" if few else ""
    print_line(console, f"{READING}{note}")
    if stale := notice(outcome.outdated):
        print_line(console, stale)
    reused = f", {outcome.reused} jobs reused" if outcome.reused else ""
    print_line(console, f"world {outcome.world_hash}; took {duration(outcome.seconds)}{reused}")


def _write(
    console: Console,
    outcome: BenchmarkOutcome,
    json: Path | None,
    csv: Path | None,
    report: Path | None,
) -> None:
    if json is not None:
        write_json(json, payload(outcome))
        print_line(console, f"JSON: {json}")
    if csv is not None:
        _write_csv(csv, outcome.rows)
        print_line(console, f"CSV: {csv}")
    if report is not None:
        print_line(console, f"report: {write_report(report, outcome)}")


def worlds_given(options: Options) -> dict[str, object]:
    """The options that choose the worlds, by their names on the command line."""
    return {
        "--scenarios": options.scenarios,
        "--seeds": options.seeds,
        "--apps": options.apps,
        "--cluster": options.cluster,
        "--physics": options.physics,
    }


def _command(options: Options) -> str:
    # Without --fresh and the output files, which do not change the figures.
    values = {
        "--controllers": options.controllers,
        "--against": options.against,
        **worlds_given(options),
    }
    parts = [f"{name} {shlex.quote(str(value))}" for name, value in values.items() if value]
    if options.frontier is not None:
        parts.append("--frontier" if options.frontier else "--no-frontier")
    if options.quick:
        parts.append("--quick")
    return " ".join(["hirl bench control", *parts])


def _write_csv(path: Path, rows: Sequence[Result]) -> None:
    """Write a line per scenario, controller and seed, with violation minutes by priority."""
    lines = [_csv_row(row) for row in rows]
    text = io.StringIO()
    writer = csv_format.DictWriter(text, lines[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    write_file(path, text.getvalue().encode())


def _csv_row(row: Result) -> dict[str, Any]:
    values: dict[str, Any] = msgspec.to_builtins(row)
    # CSV is flat, and readers expect what identifies a row in front.
    minutes = values.pop("violation_minutes")
    names = ("scenario", "controller", "seed", "apps")
    first = {name: values.pop(name) for name in names}
    return {
        **first,
        **{f"violation_minutes_{name}": minutes[name] for name in PRIORITIES},
        **values,
    }
