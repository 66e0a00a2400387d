"""`hirl bench policy`: whether a policy is better than the heuristic without selling P0."""

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from models.compare.gate import GateRow, gate, passes
from models.compare.outcome import payload
from models.compare.request import FULL_SEEDS, Options, request_of
from models.statistics import Interval
from services.cli.commands import examples
from services.cli.comparison.control import AppsOption, FreshOption, ScenariosOption, benchmark
from services.cli.comparison.frontier import SeedsOption
from services.cli.comparison.running import duration
from services.cli.comparison.tables import FEW_SEEDS, signed
from services.cli.options import ClusterOption, JsonOption, PhysicsOption, folder_of
from services.cli.output import Cell, command_line, print_line, table, write_json


def _folder(path: Path | None) -> Path | None:
    return None if path is None else folder_of(path)


CommanderOption = Annotated[
    Path | None,
    typer.Option(
        "--commander", metavar="DIR", callback=_folder, help="Folder of a Commander's policy."
    ),
]
SoldierOption = Annotated[
    Path | None,
    typer.Option(
        "--soldier", metavar="DIR", callback=_folder, help="Folder of a Soldiers' policy."
    ),
]
ForecastOption = Annotated[
    str, typer.Option("--forecast", metavar="NAME", help="Forecaster of policy and heuristic.")
]


@examples(
    "hirl bench policy --commander .hirl/models/commander --apps 155",
    "hirl bench policy --seeds 10-14 --scenarios calm,cascade --json policy.json",
)
def policy(
    commander: CommanderOption = None,
    soldier: SoldierOption = None,
    forecast: ForecastOption = "calendar",
    scenarios: ScenariosOption = None,
    seeds: SeedsOption = FULL_SEEDS,
    apps: AppsOption = None,
    cluster: ClusterOption = None,
    physics: PhysicsOption = None,
    fresh: FreshOption = False,
    json: JsonOption = None,
) -> None:
    """Compare a policy with the heuristic it sits on; exit 1 unless it may replace it.

    Without a folder, the policies that ship. A policy passes when its J is lower, with the whole
    95 % interval over scenarios and seeds, and no scenario has more P0 minutes beyond doubt.
    Results are stored as in `hirl bench control`.
    """
    console, began = Console(), time.monotonic()
    reference, ours = f"heuristic:{forecast}", _entrant(forecast, commander, soldier)
    request = request_of(
        Options(
            f"{reference},{ours}",
            scenarios,
            seeds,
            apps,
            against=reference,
            frontier=False,
            cluster=cluster,
            physics=physics,
        )
    )
    given = {
        "--commander": commander,
        "--soldier": soldier,
        "--forecast": forecast,
        "--scenarios": scenarios,
        "--seeds": seeds,
        "--apps": apps,
        "--cluster": cluster,
        "--physics": physics,
    }
    outcome = benchmark(request, command_line("hirl bench policy", given), fresh, console, began)
    rows = gate(outcome.rows, request, ours)
    overruns = sum(row.budget_overruns or 0 for row in outcome.rows if row.controller == ours)
    _show(console, rows, reference, overruns)
    few = len(request.seeds) < FEW_SEEDS
    note = f"with fewer than {FEW_SEEDS} seeds intervals are too narrow; " if few else ""
    print_line(console, f"{note}world {outcome.world_hash}; took {duration(outcome.seconds)}")
    if json is not None:
        write_json(json, payload(outcome) | {"gate": rows, "passes": passes(rows)})
        print_line(console, f"JSON: {json}")
    if not passes(rows):
        raise typer.Exit(1)


def _entrant(forecast: str, commander: Path | None, soldier: Path | None) -> str:
    given = {"commander": commander, "soldier": soldier}
    parts = "+".join(f"{kind}={path}" for kind, path in given.items() if path is not None)
    return f"policy:{forecast}/{parts}" if parts else f"policy:{forecast}"


def _show(console: Console, rows: list[GateRow], reference: str, overruns: int) -> None:
    lines: list[tuple[Cell, ...]] = [
        (row.scenario, signed(row.objective), _minutes(row.p0_minutes), row.verdict) for row in rows
    ]
    columns = ("scenario", "J", "P0 minutes a seed", "P0")
    console.print(table(f"The policy over {reference} [95 %]", columns, lines))
    nodes = rows[-1].node_hours
    print_line(console, f"node-hours {signed(nodes)}; budget overruns {overruns}")
    verdict = "passes" if passes(rows) else "does not pass: the heuristic stays"
    print_line(console, f"the policy {verdict}")


def _minutes(found: Interval) -> str:
    return f"{found.value:+.1f} [{found.low:+.1f}, {found.high:+.1f}]"
