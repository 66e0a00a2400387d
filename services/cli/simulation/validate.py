"""`hirl world validate`: every reason to believe the simulated cluster, checked and shown."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console

from models.sim.config.physics import load_sim_cluster
from models.sim.config.scenario import load_scenario
from models.sim.world import World
from models.validate import conservation, latency, marginals, readiness, utilisation
from models.validate import repeatability as sameness
from models.validate.section import FULL, QUICK, Effort, Section
from services.cli.options import JsonOption, ReportOption, TracesOption
from services.cli.output import Cell, progress, table, write_json
from services.cli.simulation.validate_report import write_report

EXAMPLES = (
    "Examples: [bold]hirl world validate --quick[/bold], "
    "[bold]hirl world validate --report .hirl/validation --json validation.json[/bold]"
)
EXIT_FAILED = 1

QuickOption = Annotated[
    bool, typer.Option("--quick", help="Fewer seeds and sizes: under a minute.")
]


def validate(
    json: JsonOption = None,
    report: ReportOption = None,
    traces: TracesOption = None,
    quick: QuickOption = False,
) -> None:
    """Check the simulated cluster against theory, real tables and its own promises.

    With the real tables it compares with them, and not only with their fit.
    Takes about two minutes, and two or three more when kernels have to be compiled first.
    The exit code is 1 when a check fails.
    """
    console, began = Console(), time.monotonic()
    effort = QUICK if quick else FULL
    parts = _parts(effort, traces)
    sections = []
    with progress("Validating", len(parts), console) as advance:
        for title, examine in parts.items():
            console.print(f"  {title} ...", highlight=False)
            sections.append(examine())
            advance(1)
    rows: list[tuple[Cell, ...]] = [
        (check.name, check.figure, check.expected, "yes" if check.ok else "NO")
        for section in sections
        for check in section.checks
    ]
    console.print(table("Validation", ("check", "figure", "expected", "ok"), rows))
    world_hash = _world_hash()
    console.print(f"World {world_hash}", highlight=False)
    kind = "Quick validation" if quick else "Full validation"
    if report is not None:
        run = f"{kind} in {time.monotonic() - began:.0f} s."
        console.print(f"Report: {write_report(report, sections, world_hash, run)}", highlight=False)
    if json is not None:
        write_json(json, _payload(sections, world_hash, quick))
    if any(not check.ok for section in sections for check in section.checks):
        raise typer.Exit(EXIT_FAILED)


def _parts(effort: Effort, traces: Path | None) -> dict[str, Callable[[], Section]]:
    return {
        "conservation": lambda: conservation.examine(effort),
        "latency against Erlang C": lambda: latency.examine(effort),
        "generated apps against real tables": lambda: marginals.examine(effort, traces),
        "need to ready": lambda: readiness.examine(effort),
        "utilisation and cascades": lambda: utilisation.examine(effort),
        "same seed, same world": lambda: sameness.examine(effort),
    }


def _world_hash() -> str:
    """Of the calm scenario in the example cluster: it changes when the world's rules do."""
    cluster = load_sim_cluster()
    return World(cluster, load_scenario("calm", cluster), [0]).hash


def _payload(sections: list[Section], world_hash: str, quick: bool) -> dict[str, Any]:
    return {
        "quick": quick,
        "checks": [
            {"section": section.title, **msgspec.to_builtins(check)}
            for section in sections
            for check in section.checks
        ],
        "world_hash": world_hash,
    }
