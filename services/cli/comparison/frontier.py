"""`hirl bench frontier`: what each family violates for what it costs, over its cost knob."""

import math
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from models.compare.frontier import (
    TUNED,
    Equal,
    Families,
    at_knobs,
    compare_lines,
    knob_points,
)
from models.compare.hashes import code_hashes, combined, world_hashes
from models.compare.jobs import jobs_of
from models.compare.provenance import notice, outdated
from models.compare.request import FULL_SEEDS, Options, controller_names, request_of
from models.inputs.errors import InputError
from models.statistics import Interval
from services.cli.commands import examples
from services.cli.comparison.control import AppsOption, FreshOption, ScenariosOption
from services.cli.comparison.running import run_jobs
from services.cli.comparison.tables import UNKNOWN, times
from services.cli.options import ClusterOption, JsonOption, PhysicsOption, writable_file
from services.cli.output import print_line, table, write_file, write_json

_FAMILIES: Final = "hpa-calibrated,practitioner,heuristic:calendar"
_KNOBS: Final = "0.7,0.8,0.9,1,1.1,1.25"

FamiliesOption = Annotated[
    str,
    typer.Option("--families", metavar="A,B", help="Controllers with targets of utilisation."),
]
KnobsOption = Annotated[
    str,
    typer.Option("--knobs", metavar="0.8,1", help="Factors on all tuned targets; 1 is added."),
]
AgainstOption = Annotated[
    str, typer.Option("--against", metavar="C", help="The family to compare with, as tuned.")
]
SeedsOption = Annotated[str, typer.Option("--seeds", metavar="10-19", help="As in bench control.")]
PlotOption = Annotated[
    Path | None,
    typer.Option(
        "--plot", metavar="FILE", callback=writable_file, help="Also draw the lines, as SVG."
    ),
]


@examples(
    "hirl bench frontier --apps 155 --seeds 10-13",
    "hirl bench frontier --families practitioner,heuristic:none --knobs 0.8,1,1.2 "
    "--json frontier.json --plot frontier.svg",
)
def frontier(
    families: FamiliesOption = _FAMILIES,
    knobs: KnobsOption = _KNOBS,
    against: AgainstOption = "practitioner",
    scenarios: ScenariosOption = None,
    seeds: SeedsOption = FULL_SEEDS,
    apps: AppsOption = None,
    cluster: ClusterOption = None,
    physics: PhysicsOption = None,
    fresh: FreshOption = False,
    json: JsonOption = None,
    plot: PlotOption = None,
) -> None:
    """Compare families where they cost as much, and where they violate as much.

    Each family runs with all its tuned targets of utilisation times each knob. Its P0 minutes at
    the node-hours of the reference and its node-hours at the P0 minutes of the reference are
    interpolated; 95 % intervals are of draws of scenarios and seeds.
    """
    console = Console()
    names = controller_names(families)
    if against not in names:
        raise InputError(f"against: {against}: expected one of {families}")
    lines = {name: at_knobs(name, _parse_knobs(knobs)) for name in names}
    entrants = ",".join(entrant for line in lines.values() for entrant in line)
    request = request_of(
        Options(
            entrants,
            scenarios,
            seeds,
            apps,
            against=f"{against}~{TUNED:g}",
            frontier=False,
            cluster=cluster,
            physics=physics,
        )
    )
    print_line(
        console,
        f"{len(lines)} families x {len(lines[against])} knobs x {len(request.scenarios)} scenarios "
        f"x {len(request.seeds)} seeds, {request.cluster.apps:,} apps, against {against}",
    )
    worlds, code = world_hashes(request), code_hashes(request.entrants)
    finished, _ = run_jobs(jobs_of(request, worlds, code), fresh, console)
    found = knob_points((row for job in finished for row in job.results), lines)
    figures = compare_lines(found, against)
    _show(console, figures, against)
    if note := notice(outdated(entrants=request.entrants)):
        print_line(console, note)
    if json is not None:
        world = combined(f"{name} {h}" for name, by in worlds.items() for h in by.values())
        write_json(
            json, {"world_hash": world, "reference": against, "families": found, "equal": figures}
        )
    if plot is not None:
        _plot(plot, found)


def _parse_knobs(text: str) -> list[float]:
    try:
        found = {float(part) for part in text.split(",")}
    except ValueError:
        raise InputError(f"knobs: expected numbers such as 0.8,1,1.2, got {text!r}") from None
    return sorted({*found, TUNED})


def _show(console: Console, figures: list[Equal], against: str) -> None:
    rows = [
        (one.family, _shown(one.p0_interval), _shown(one.node_hours_interval)) for one in figures
    ]
    columns = ("family", "P0 at equal node-hours", "node-hours at equal P0")
    console.print(table(f"Over {against} as tuned [95 % over scenarios and seeds]", columns, rows))
    print_line(console, f"{UNKNOWN}: the line does not reach as far")


def _shown(found: Interval) -> str:
    return UNKNOWN if math.isnan(found.value) else times(found, 3)


def _plot(file: Path, families: Families) -> None:
    # Only plots need matplotlib; a serving installation doesn't have it.
    from services.cli.comparison.plots import families_svg  # noqa: PLC0415

    write_file(file, families_svg(families).encode())
