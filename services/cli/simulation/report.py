"""A finished run: its figures for people, and the HTML report, one file without dependencies."""

from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import NamedTuple

from models.sim.results.findings import Finding
from models.sim.results.recording import Recording
from models.sim.results.summary import Result
from models.sim.world import World
from services.cli.page import page, write_page

_BODY = Path(__file__).with_name("report.html")


class FinishedRun(NamedTuple):
    """A finished run: its world, recording, failures and figures."""

    world: World
    world_hash: str
    recording: Recording
    findings: list[Finding]
    result: Result
    command: str
    """Command line that repeats the run."""


def figures(result: Result) -> list[tuple[str, str]]:
    """Label and value of each figure, for people."""
    minutes = result.violation_minutes
    overruns = result.budget_overruns
    return [
        *((f"violation minutes {name}", f"{value:,.1f}") for name, value in minutes.items()),
        ("PW, weighted by priority", f"{result.pw:,.1f}"),
        ("J = PW + node-hours", f"{result.objective:,.1f}"),
        ("node-hours", f"{result.node_hours:,.1f}"),
        *_insurance(result),
        ("money", f"{result.money:,.0f} ({result.spend_cap_share:.1%} of the spend cap)"),
        ("p99 of a P0 app, mean", f"{result.latency_p99_ms:,.0f} ms"),
        ("CPU, memory in use", f"{result.cpu_utilisation:.1%}, {result.memory_utilisation:.1%}"),
        ("scaling actions", f"{result.scaling_actions:,}"),
        ("reversals", f"{result.reversals:,} ({result.oscillation_rate:.2%} of the actions)"),
        ("loops per day", f"{result.loops_per_day:,.0f}"),
        ("pods started, stopped", f"{result.pods_started:,}, {result.pods_stopped:,}"),
        ("most pods pending", f"{result.max_pending_pods:,}"),
        ("need to ready, median", f"{result.need_to_ready_p50_s:,.0f} s"),
        ("need to ready, p95", f"{result.need_to_ready_p95_s:,.0f} s"),
        ("CPU held by P3 while P0 waits", _p3_share(result, result.p3_share_while_p0_waits)),
        (
            "the same, of the pools P0 waits for",
            _p3_share(result, result.p3_share_of_p0_pools_while_p0_waits),
        ),
        ("unscored transactions", f"{result.unscored_transactions:,.0f}"),
        ("evictions, preemptions", f"{result.evictions:,}, {result.preemptions:,}"),
        ("restarts", f"{result.restarts:,}"),
        ("decreases on missing data", f"{result.missing_data_decreases:,}"),
        ("budget overruns", "no budgets" if overruns is None else f"{overruns:,}"),
    ]


def _insurance(result: Result) -> list[tuple[str, str]]:
    """Only where something is insured: a line of zeros would puzzle everyone else."""
    if not result.insurance_node_hours:
        return []
    hours, money = result.insurance_node_hours, result.insurance_money or 0.0
    return [("of these, to survive a zone", f"{hours:,.1f} ({money:,.0f} of the money)")]


def _p3_share(result: Result, share: float) -> str:
    if result.p0_wait_ticks == 0:
        # A share of no ticks would read as 0 %, which is a good result.
        return "P0 never waited"
    return f"{share:.1%} (over {result.p0_wait_ticks} ticks)"


def write_report(folder: Path, finished: FinishedRun) -> Path:
    """Write the report into `folder`, named after the run; return the file."""
    result = finished.result
    # Named by what identifies a run, so that several reports fit into one folder.
    file = folder / f"{result.scenario}-{result.controller}-{result.seed}.html"
    return write_page(file, render(finished))


def render(finished: FinishedRun) -> str:
    """The report as an HTML page."""
    # Only reports need matplotlib; a serving installation doesn't have it.
    from services.cli.simulation.plots import timeline_svg, waits_svg  # noqa: PLC0415

    world, result = finished.world, finished.result
    return page(
        escape(f"{result.scenario} under {result.controller}"),
        _BODY,
        shows=escape(world.scenario.shows),
        run=escape(
            f"{world.cluster.name}, {result.apps:,} apps, seed {result.seed}, "
            f"{world.scenario.length_minutes} minutes from {world.scenario.start} "
            f"after {world.scenario.warmup_minutes} minutes of warm-up"
        ),
        failures=_failures(world, finished.findings),
        figures="".join(_row(cells) for cells in figures(result)),
        timeline=timeline_svg(world, finished.recording, finished.findings),
        waits=waits_svg(world),
        world_hash=finished.world_hash,
        command=escape(finished.command),
    )


def _failures(world: World, findings: list[Finding]) -> str:
    if not findings:
        return "<li>None of the three failure modes occurred.</li>"
    return "".join(f"<li>{failure_line(world, finding)}</li>" for finding in findings)


def failure_line(world: World, finding: Finding) -> str:
    """A failure with its minutes and explanation, as HTML."""
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
