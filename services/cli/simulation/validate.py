"""`hirl world validate`: check the simulated cluster, and report why it can be trusted."""

import time
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console

from models.sim.config.physics import load_sim_cluster
from models.sim.config.scenario import load_scenario
from models.sim.world import World
from models.validate import conservation, latency, marginals, readiness, realism, utilisation
from models.validate import repeatability as sameness
from models.validate.section import FULL, QUICK, Effort, Listing, Plot, Section
from services.cli.commands import examples
from services.cli.options import JsonOption, ReportOption, TracesOption
from services.cli.output import Cell, progress, shown, table, write_json
from services.cli.page import PLOT_STYLE, drawing, page, write_page

EXIT_FAILED = 1

QuickOption = Annotated[
    bool, typer.Option("--quick", help="Fewer seeds and sizes: under a minute.")
]


@examples(
    "hirl world validate --quick",
    "hirl world validate --report .hirl/validation --json validation.json",
)
def validate(
    json: JsonOption = None,
    report: ReportOption = None,
    traces: TracesOption = None,
    quick: QuickOption = False,
) -> None:
    """Check the simulated cluster against theory, real tables and its own promises.

    With --traces it compares with the real tables, not only with their fit. Takes about two
    minutes, and two or three more to compile kernels on the first run. The exit code is 1 when a
    check fails.
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
    # Last, so that a failed validation still leaves its report and JSON file.
    if any(not check.ok for section in sections for check in section.checks):
        raise typer.Exit(EXIT_FAILED)


def _parts(effort: Effort, traces: Path | None) -> dict[str, Callable[[], Section]]:
    return {
        "conservation": lambda: conservation.examine(effort),
        "latency against Erlang C": lambda: latency.examine(effort),
        "generated apps against real tables": lambda: marginals.examine(effort, traces),
        "need to ready": lambda: readiness.examine(effort),
        "utilisation and cascades": lambda: utilisation.examine(effort),
        "pods and metrics": lambda: realism.examine(effort),
        "same seed, same world": lambda: sameness.examine(effort),
    }


def _world_hash() -> str:
    """Hash of the calm scenario in the example cluster; changes when the rules of the world do."""
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


_BODY = Path(__file__).with_name("validate_report.html")


def write_report(folder: Path, sections: Sequence[Section], world_hash: str, run: str) -> Path:
    """Write the report into `folder`; return the file."""
    text = page(
        "Can the simulated cluster be trusted?",
        _BODY,
        summary=_checks(sections),
        sections="".join(_section(section) for section in sections),
        world_hash=world_hash,
        run=escape(run),
    )
    return write_page(folder / "validation.html", text)


def _checks(sections: Sequence[Section]) -> str:
    rows = []
    for section in sections:
        for check in section.checks:
            mark = '<td class="ok">holds</td>' if check.ok else '<td class="bad">fails</td>'
            cells = "".join(f"<td>{escape(t)}</td>" for t in (check.figure, check.expected))
            rows.append(f"<tr><th>{escape(check.name)}</th>{cells}{mark}</tr>")
    return "".join(rows)


def _section(section: Section) -> str:
    plots = "".join(f"<figure>{_svg(plot)}</figure>" for plot in section.plots)
    return (
        f'<h2>{escape(section.title)}</h2><p class="soft">{escape(section.text)}</p>'
        f"{_listing(section.listing) if section.listing else ''}"
        f'<div class="plots">{plots}</div>'
    )


def _listing(listing: Listing) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in listing.columns)
    rows = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in listing.rows)
    return f'<div class="card"><table><tr>{head}</tr>{rows}</table></div>'


def _cell(cell: Cell) -> str:
    return f"<td>{escape(shown(cell))}</td>"


def _svg(plot: Plot) -> str:
    # Only reports need matplotlib; a serving installation doesn't have it.
    import matplotlib as mpl  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    # A salt per plot: ids in one page must differ, and equal plots must give equal files.
    with mpl.rc_context({"svg.hashsalt": plot.title}, str(PLOT_STYLE)):
        figure = Figure(figsize=(5.2, 3.1), layout="constrained")
        axis = figure.subplots()
        axis.set_title(plot.title)
        plot.draw(axis)
        return drawing(figure)
