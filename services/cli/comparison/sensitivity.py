"""`hirl bench sensitivity`: the same comparison in worlds that differ in one mechanism."""

import math
import time
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from models.compare.hashes import code_hashes
from models.compare.jobs import Job
from models.compare.provenance import notice, outdated
from models.compare.request import FULL_SEEDS, Options, Request, request_of
from models.compare.sensitivity import (
    CellFigures,
    CellJobs,
    cell_figures,
    choose_cells,
    jobs_of_cell,
)
from models.sim.results.summary import Result
from models.statistics import Interval
from services.cli.commands import examples
from services.cli.comparison.control import AppsOption, FreshOption, ScenariosOption
from services.cli.comparison.frontier import PlotOption, SeedsOption
from services.cli.comparison.running import duration, run_jobs
from services.cli.comparison.tables import FEW_SEEDS, UNKNOWN
from services.cli.options import ClusterOption, JsonOption, PhysicsOption
from services.cli.output import command_line, print_line, table, write_file, write_json

_BEHIND: Final = "!"
_SURELY_BEHIND: Final = "!!"

ControllersOption = Annotated[
    str,
    typer.Option(
        "--controllers", metavar="A,B", help="Names as in `hirl bench control`; a table for each."
    ),
]
AgainstOption = Annotated[
    str, typer.Option("--against", metavar="C", help="The opponent in every cell.")
]
CellsOption = Annotated[
    str | None,
    typer.Option(
        "--cells",
        metavar="X,Y",
        help="Cells of models/compare/sensitivity.yaml, such as window-15; all by default.",
    ),
]


@examples(
    "hirl bench sensitivity --apps 155 --seeds 10-13",
    "hirl bench sensitivity --cells window-15,window-120 --scenarios cascade,zone-loss "
    "--seeds 10-19 --json sensitivity.json --plot sensitivity.svg",
)
def sensitivity(
    controllers: ControllersOption = "heuristic:calendar",
    against: AgainstOption = "practitioner",
    cells: CellsOption = None,
    scenarios: ScenariosOption = None,
    seeds: SeedsOption = FULL_SEEDS,
    apps: AppsOption = None,
    cluster: ClusterOption = None,
    physics: PhysicsOption = None,
    fresh: FreshOption = False,
    json: JsonOption = None,
    plot: PlotOption = None,
) -> None:
    """Show how a comparison depends on each mechanism of the simulated world.

    Each cell changes one mechanism and nothing else: the error of declared saturation, the window
    of metrics, quotas, the time that pods and nodes take to start, or a mechanism that is switched
    off. Figures are ratios over the opponent in the same cell; 95 % intervals are of draws of
    scenarios and seeds. Results are stored as in `hirl bench control`.
    """
    console, began = Console(), time.monotonic()
    chosen = choose_cells(cells)
    request = request_of(
        Options(
            controllers,
            scenarios,
            seeds,
            apps,
            against,
            frontier=False,
            cluster=cluster,
            physics=physics,
        )
    )
    print_line(
        console,
        f"{len(chosen)} cells x {len(request.controllers)} controllers x "
        f"{len(request.scenarios)} scenarios x {len(request.seeds)} seeds, "
        f"{request.cluster.apps:,} apps, against {request.reference}",
    )
    code = code_hashes(request.entrants)
    grid = [jobs_of_cell(cell, request, code) for cell in chosen]
    rows, reused = _run(grid, fresh, console)
    figures = [
        found for one in grid for found in cell_figures(one.cell, rows[one.cell.name], request)
    ]
    _show(console, request, grid, figures)
    if stale := notice(outdated(entrants=request.entrants)):
        print_line(console, stale)
    note = f", {reused} jobs reused" if reused else ""
    print_line(console, f"took {duration(time.monotonic() - began)}{note}")
    given = {
        "--controllers": controllers,
        "--against": against,
        "--cells": cells,
        "--scenarios": scenarios,
        "--seeds": seeds,
        "--apps": apps,
        "--cluster": cluster,
        "--physics": physics,
    }
    if json is not None:
        command = command_line("hirl bench sensitivity", given)
        _write_json(json, request, grid, figures, rows, command)
        print_line(console, f"JSON: {json}")
    if plot is not None:
        _plot(plot, figures)
        print_line(console, f"plot: {plot}")


def _run(
    grid: list[CellJobs], fresh: bool, console: Console
) -> tuple[dict[str, list[Result]], int]:
    """Rows by cell. Cells that change nothing share the base's jobs, which run once."""
    # Cell by cell, because a process keeps the population of one world.
    jobs: dict[str, Job] = {job.label: job for one in grid for job in one.jobs}
    finished, reused = run_jobs(list(jobs.values()), fresh, console)
    by_label = {job.label: job.results for job in finished}
    rows = {one.cell.name: [row for job in one.jobs for row in by_label[job.label]] for one in grid}
    return rows, reused


def _show(
    console: Console, request: Request, grid: list[CellJobs], figures: list[CellFigures]
) -> None:
    for name in request.controllers:
        lines = [
            (
                row.cell,
                _brief(row.p0_ratio),
                f"{_brief(row.objective_ratio)}{_mark(row)}",
                _brief(row.node_hours_ratio, 3),
            )
            for row in figures
            if row.controller == name
        ]
        if lines:
            title = f"{name} over {request.reference} [95 % over scenarios and seeds]"
            console.print(table(title, ("cell", "P0", "J", "node-hours"), lines))
    few = len(request.seeds) < FEW_SEEDS
    note = f"; with fewer than {FEW_SEEDS} seeds intervals are too narrow" if few else ""
    print_line(
        console,
        f"ratios of sums over scenarios and seeds; {_BEHIND} J above {request.reference}'s, "
        f"{_SURELY_BEHIND} its whole interval as well{note}",
    )
    same = [one.cell.name for one in grid if one.unchanged and one.cell.changes]
    if same:
        print_line(console, f"this world already has the values of {', '.join(same)}")


def _mark(row: CellFigures) -> str:
    if not row.behind:
        return ""
    return f" {_SURELY_BEHIND if row.objective_ratio.low > 1 else _BEHIND}"


def _brief(found: Interval, decimals: int = 2) -> str:
    """A ratio with its interval in 16 characters (19 with three decimals): lines have 80."""
    if math.isnan(found.value):
        return UNKNOWN
    value, low, high = (_digits(one, decimals) for one in (found.value, found.low, found.high))
    return value if math.isnan(found.low) else f"{value} [{low}-{high}]"


def _digits(value: float, decimals: int) -> str:
    """Fewer decimals for large ratios, which are rough anyway."""
    whole = len(f"{value:.0f}") - 1 if math.isfinite(value) else 0
    return f"{value:.{max(0, decimals - whole)}f}"


def _write_json(
    file: Path,
    request: Request,
    grid: list[CellJobs],
    figures: list[CellFigures],
    rows: dict[str, list[Result]],
    command: str,
) -> None:
    cells = [
        {
            "name": one.cell.name,
            "changes": one.cell.changes,
            "source": one.cell.source,
            "unchanged": one.unchanged,
            "world_hash": one.world_hash,
            "figures": [found for found in figures if found.cell == one.cell.name],
            "rows": rows[one.cell.name],
        }
        for one in grid
    ]
    write_json(file, {"reference": request.reference, "cells": cells, "command": command})


def _plot(file: Path, figures: list[CellFigures]) -> None:
    # Only plots need matplotlib; a serving installation doesn't have it.
    from services.cli.comparison.plots import sensitivity_svg  # noqa: PLC0415

    write_file(file, sensitivity_svg(figures).encode())
