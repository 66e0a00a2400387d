"""`hirl bench foresight`: whether a controller with better forecasts decides better."""

import math
import time
from itertools import pairwise
from typing import Annotated, Final

import typer
from rich.console import Console

from models.compare.foresight import ForesightRow, foresight
from models.compare.outcome import payload
from models.compare.request import FULL_SEEDS, Options, controller_names, request_of
from models.inputs.errors import InputError
from models.statistics import Interval
from services.cli.commands import examples
from services.cli.comparison.control import (
    AppsOption,
    FreshOption,
    ScenariosOption,
    benchmark,
    worlds_given,
)
from services.cli.comparison.frontier import SeedsOption
from services.cli.comparison.running import duration
from services.cli.comparison.tables import FEW_SEEDS, UNKNOWN
from services.cli.options import ClusterOption, JsonOption, PhysicsOption
from services.cli.output import command_line, print_line, table, write_json

_ORDER: Final = "heuristic:oracle,heuristic:calendar,heuristic:none"

ControllersOption = Annotated[
    str,
    typer.Option(
        "--controllers", metavar="A,B", help="At least two, the one with the best forecasts first."
    ),
]


@examples(
    "hirl bench foresight --apps 155 --seeds 10-19",
    "hirl bench foresight --controllers heuristic:tft,heuristic:calendar --json foresight.json",
)
def foresight_command(
    controllers: ControllersOption = _ORDER,
    scenarios: ScenariosOption = None,
    seeds: SeedsOption = FULL_SEEDS,
    apps: AppsOption = None,
    cluster: ClusterOption = None,
    physics: PhysicsOption = None,
    fresh: FreshOption = False,
    json: JsonOption = None,
) -> None:
    """Check that better forecasts give a lower J; exit 1 if a scenario shows the opposite.

    Each controller is compared with the next, paired by seed. A scenario fails if the whole 95 %
    interval of a difference is above zero. Results are stored as in `hirl bench control`.
    """
    console, began = Console(), time.monotonic()
    names = controller_names(controllers)
    if len(names) < 2:
        raise InputError(f"controllers: expected at least two names, got {controllers!r}")
    options = Options(
        controllers,
        scenarios,
        seeds,
        apps,
        # The last one, so that no controller is added as a reference.
        against=names[-1],
        frontier=False,
        cluster=cluster,
        physics=physics,
    )
    request = request_of(options)
    given = {"--controllers": controllers, **worlds_given(options)}
    command = command_line("hirl bench foresight", given)
    outcome = benchmark(request, command, fresh, console, began)
    rows = foresight(outcome.rows, request)
    _show(console, names, rows)
    few = len(request.seeds) < FEW_SEEDS
    note = f"with fewer than {FEW_SEEDS} seeds intervals are too narrow; " if few else ""
    print_line(console, f"{note}world {outcome.world_hash}; took {duration(outcome.seconds)}")
    if json is not None:
        write_json(json, payload(outcome) | {"foresight": rows})
        print_line(console, f"JSON: {json}")
    if any(row.verdict == "fails" for row in rows):
        raise typer.Exit(1)


def _show(console: Console, names: tuple[str, ...], rows: list[ForesightRow]) -> None:
    short = [name.partition(":")[2] or name for name in names]
    steps = [f"{better}, {worse}" for better, worse in pairwise(short)]
    lines = [
        (row.scenario, *(_percent(step.difference) for step in row.steps), row.verdict)
        for row in rows
    ]
    title = "J of each over that of the next, in percent [95 %]"
    console.print(table(title, ("scenario", *steps, "order"), lines))
    failed = [row.scenario for row in rows if row.verdict == "fails"]
    print_line(
        console,
        "open: reversed, but the interval includes zero; fails: the whole interval is above zero",
    )
    print_line(console, f"fails in {', '.join(failed)}" if failed else "fails nowhere")


def _percent(found: Interval) -> str:
    if math.isnan(found.value):
        return UNKNOWN
    value, low, high = (f"{100 * one:+.1f}" for one in (found.value, found.low, found.high))
    return value if math.isnan(found.low) else f"{value} [{low}, {high}]"
