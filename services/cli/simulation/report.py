"""The report of a run: one HTML file that needs nothing but itself."""

from collections.abc import Iterable
from html import escape
from pathlib import Path

from models.sim.results.findings import Finding
from models.sim.world import World
from services.cli.page import page, write_page
from services.cli.simulation.outcome import Outcome, figures

_BODY = Path(__file__).with_name("report.html")


def write_report(folder: Path, outcome: Outcome) -> Path:
    """Write the report into `folder`, named after the run; returns the file."""
    result = outcome.result
    file = folder / f"{result.scenario}-{result.controller}-{result.seed}.html"
    return write_page(file, render(outcome))


def render(outcome: Outcome) -> str:
    """The report as HTML."""
    # Only reports need plots; a serving installation has no matplotlib.
    from services.cli.simulation.plots import timeline_svg, waits_svg  # noqa: PLC0415

    world, result = outcome.world, outcome.result
    return page(
        escape(f"{result.scenario} under {result.controller}"),
        _BODY,
        shows=escape(world.scenario.shows),
        run=escape(
            f"{world.cluster.name}, {result.apps:,} apps, seed {result.seed}, "
            f"{world.scenario.length_minutes} minutes from {world.scenario.start} "
            f"after {world.scenario.warmup_minutes} minutes of warm-up"
        ),
        failures=_failures(world, outcome.findings),
        figures="".join(_row(cells) for cells in figures(result)),
        timeline=timeline_svg(world, outcome.recording, outcome.findings),
        waits=waits_svg(world),
        world_hash=outcome.world_hash,
        command=escape(outcome.command),
    )


def _failures(world: World, findings: list[Finding]) -> str:
    if not findings:
        return "<li>None of the three failure modes occurred.</li>"
    return "".join(f"<li>{failure_line(world, finding)}</li>" for finding in findings)


def failure_line(world: World, finding: Finding) -> str:
    """What went wrong and in which minutes, as HTML."""
    first, last = (
        (tick - world.timeline.warmup_ticks) * world.cluster.tick_seconds / 60
        for tick in (finding.tick, finding.last_tick + 1)
    )
    return (
        f"<b>{escape(finding.name)}</b>, minute {first:.0f} to {last:.0f}: "
        f"{escape(finding.explanation)}"
    )


def _row(cells: Iterable[str]) -> str:
    name, value = cells
    return f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>"
