"""`hirl bench year`: whole days, weighted as in a year."""

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from models.compare.outcome import BenchmarkOutcome, payload
from models.compare.request import Options, request_of
from models.compare.year import Year, YearStanding, load_year, year_standings
from services.cli.commands import examples
from services.cli.comparison.control import (
    AgainstOption,
    AppsOption,
    FreshOption,
    SeedsOption,
    benchmark,
)
from services.cli.comparison.tables import FEW_SEEDS, count, signed, times
from services.cli.options import ClusterOption, JsonOption, PhysicsOption
from services.cli.output import Cell, command_line, print_line, table, write_json

DEFAULT_CONTROLLERS = "practitioner,heuristic:calendar"

ControllersOption = Annotated[
    str,
    typer.Option(
        "--controllers", metavar="A,B", help="Names as in `hirl bench control`, with commas."
    ),
]
WeightsOption = Annotated[
    Path | None,
    typer.Option(
        "--weights",
        metavar="FILE",
        help="Days per year of each scenario (YAML), with reasons; those that ship by default.",
    ),
]


@examples(
    "hirl bench year --apps 155 --seeds 0-1",
    "hirl bench year --controllers hpa-calibrated,heuristic:none --seeds 20-29 --json year.json",
)
def year(
    controllers: ControllersOption = DEFAULT_CONTROLLERS,
    weights: WeightsOption = None,
    seeds: SeedsOption = None,
    apps: AppsOption = None,
    against: AgainstOption = None,
    cluster: ClusterOption = None,
    physics: PhysicsOption = None,
    fresh: FreshOption = False,
    json: JsonOption = None,
) -> None:
    """Compare controllers over a year: whole days, each weighted by how often it occurs.

    Days take twenty times as long as other scenarios. Results are stored and paired as in
    `hirl bench control`.
    """
    console, began = Console(), time.monotonic()
    mix = load_year(weights)
    request = request_of(
        Options(
            controllers,
            ",".join(mix.names),
            seeds,
            apps,
            against,
            frontier=False,
            cluster=cluster,
            physics=physics,
        )
    )
    given = {
        "--controllers": controllers,
        "--weights": weights,
        "--seeds": seeds,
        "--apps": apps,
        "--against": against,
        "--cluster": cluster,
        "--physics": physics,
    }
    command = command_line("hirl bench year", given)
    outcome = benchmark(request, command, fresh, console, began)
    standings = year_standings(outcome.rows, mix, request.controllers, request.reference)
    _show(console, outcome, mix, standings)
    if json is not None:
        write_json(json, payload(outcome) | {"year": standings, "weights": mix.days})
        print_line(console, f"JSON: {json}")


def _show(
    console: Console, outcome: BenchmarkOutcome, mix: Year, standings: list[YearStanding]
) -> None:
    days = {weight.day: f"{weight.days:g}" for weight in mix.days}
    rows: list[tuple[Cell, ...]] = [
        (
            # Only the first line of a day names it: names are wide.
            row.scenario if row.controller == outcome.request.controllers[0] else "",
            days[row.scenario] if row.controller == outcome.request.controllers[0] else "",
            row.controller,
            count(row.violation_minutes["P0"].value),
            f"{row.node_hours_ratio.value:.3f}",
            count(row.objective),
        )
        for row in outcome.standings
        if row.scenario in days
    ]
    columns = ("day", "a year", "controller", "P0 minutes", "nodes", "J")
    reference = outcome.request.reference
    console.print(table(f"One day, nodes over {reference}'s", columns, rows))
    for row in standings:
        console.print(table(f"A year of {row.controller}, over {reference} [95 %]", *_lines(row)))
    few = len(outcome.request.seeds) < FEW_SEEDS
    note = f"; with fewer than {FEW_SEEDS} seeds intervals are too narrow" if few else ""
    reused = f", {outcome.reused} jobs reused" if outcome.reused else ""
    print_line(
        console,
        f"sums of {sum(weight.days for weight in mix.days):g} days, means over the seeds{note}; "
        f"world {outcome.world_hash}; took {outcome.seconds / 60:.0f} min{reused}",
    )


def _lines(row: YearStanding) -> tuple[tuple[str, ...], list[tuple[Cell, ...]]]:
    return ("figure", "a year", "over the reference"), [
        ("node-hours", count(row.node_hours.value), times(row.node_hours_ratio, 3)),
        ("P0 minutes", count(row.violation_minutes["P0"].value), times(row.p0_ratio)),
        ("J", count(row.objective.value), signed(row.objective_difference)),
    ]
