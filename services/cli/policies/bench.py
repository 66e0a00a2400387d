"""`hirl bench policy`: whether a policy is better than the heuristic, also at equal cost."""

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from models.compare.evidence import Row, constants, evidence_of, rows_of
from models.compare.outcome import payload
from models.compare.request import FULL_SEEDS, Options, request_of
from models.inputs.errors import InputError
from models.policies.packing import version_in
from models.registry.gate import Check, Limits, judge_runs
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
from services.cli.comparison.tables import FEW_SEEDS, signed
from services.cli.options import (
    ClusterOption,
    JsonOption,
    PhysicsOption,
    folder_if_given,
    writable_file,
)
from services.cli.output import Cell, command_line, print_line, table, write_json

CommanderOption = Annotated[
    Path | None,
    typer.Option(
        "--commander",
        metavar="DIR",
        callback=folder_if_given,
        help="Folder of a Commander's policy.",
    ),
]
SoldierOption = Annotated[
    Path | None,
    typer.Option(
        "--soldier", metavar="DIR", callback=folder_if_given, help="Folder of a Soldiers' policy."
    ),
]
ForecastOption = Annotated[
    str, typer.Option("--forecast", metavar="NAME", help="Forecaster of policy and heuristic.")
]
EvidenceOption = Annotated[
    Path | None,
    typer.Option(
        "--evidence",
        metavar="FILE",
        callback=writable_file,
        help="Also write what was measured for `hirl models promote`; of one policy.",
    ),
]


@examples(
    "hirl bench policy --commander .hirl/models/commander --apps 155",
    "hirl bench policy --soldier .hirl/models/soldier --seeds 10-14 --scenarios calm,cascade "
    "--evidence evidence.json",
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
    evidence: EvidenceOption = None,
) -> None:
    """Compare a policy with the heuristic it sits on; exit 1 unless it may replace it.

    The checks are those of `hirl models promote` that runs can answer: J lower than the heuristic's
    and than that of a heuristic that costs as much, P0 shown not to be worse in any scenario, no
    overruns. Results are stored as in `hirl bench control`.
    """
    console, began = Console(), time.monotonic()
    folders = {"commander": commander, "soldier": soldier}
    given = {kind: folder for kind, folder in folders.items() if folder is not None}
    if not given:
        raise InputError(
            "expected --commander DIR or --soldier DIR, or both; hirl train commander trains one"
        )
    if evidence is not None and len(given) > 1:
        raise InputError("evidence: is about one policy; judge them one by one")
    # Before the runs, which take minutes: a folder that cannot be packed has no version.
    version = "" if evidence is None else version_in(next(iter(given.values())))
    reference = f"heuristic:{forecast}"
    ours = f"policy:{forecast}/" + "+".join(f"{kind}={path}" for kind, path in given.items())
    names = ",".join((reference, ours, *constants(reference)))
    options = Options(
        names, scenarios, seeds, apps, against=reference, frontier=False, cluster=cluster,
        physics=physics,
    )  # fmt: skip
    request = request_of(options)
    words = {f"--{kind}": path for kind, path in given.items()} | {"--forecast": forecast}
    command = command_line("hirl bench policy", words | worlds_given(options))
    outcome = benchmark(request, command, fresh, console, began)
    found = evidence_of(outcome.rows, request, ours, version)
    rows = rows_of(outcome.rows, request, ours, Limits())
    checks = judge_runs(found, Limits(), policy=True)
    _show(console, rows, checks, reference)
    few = len(request.seeds) < FEW_SEEDS
    note = f"with fewer than {FEW_SEEDS} seeds intervals are too narrow; " if few else ""
    print_line(console, f"{note}world {outcome.world_hash}; took {duration(outcome.seconds)}")
    passes = all(check.passed for check in checks)
    if json is not None:
        write_json(json, payload(outcome) | {"gate": rows, "checks": checks, "passes": passes})
        print_line(console, f"JSON: {json}")
    if evidence is not None:
        write_json(evidence, found)
        print_line(console, f"evidence: {evidence}")
    if not passes:
        raise typer.Exit(1)


def _show(console: Console, rows: list[Row], checks: list[Check], reference: str) -> None:
    lines: list[tuple[Cell, ...]] = [
        (row.scenario, signed(row.objective), _minutes(row.p0_minutes), row.verdict) for row in rows
    ]
    columns = ("scenario", "J", "P0 minutes a seed", "P0")
    console.print(table(f"The policy over {reference} [95 %]", columns, lines))
    print_line(console, f"node-hours {signed(rows[-1].node_hours)}")
    checked = [(one.name, "passed" if one.passed else "FAILED", one.found) for one in checks]
    console.print(table("The gate", ("check", "", "found"), checked))
    refused = [check for check in checks if not check.passed]
    for check in refused:
        print_line(console, f"refused: {check}")
    print_line(console, "the heuristic stays" if refused else "it may replace the heuristic")


def _minutes(found: Interval) -> str:
    return f"{found.value:+.1f} [{found.low:+.1f}, {found.high:+.1f}]"
