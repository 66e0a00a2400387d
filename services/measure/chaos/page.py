"""The report of a run as the text of a page in docs/results."""

import os
import platform
from collections.abc import Mapping
from datetime import date

from services.measure.chaos import releases
from services.measure.chaos.report import Report
from services.measure.chaos.subject import Skipped

_UNKNOWN = "not recorded"
_HEADINGS = "| fault | times | lost | twice | wrong | held | silent | next s | max s |"


def origin(command: str, world: str, day: date) -> dict[str, str]:
    """Where figures come from: the first table of every page of results."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return {
        "Date": day.isoformat(),
        "Commit": _commit(),
        "Command": f"`{command}`",
        "World hash": f"{_UNKNOWN}; {world}",
        "Machine": f"{os.cpu_count()} cores, {platform.machine()}, load {load:.1f} at the end",
    }


def page_of(report: Report, come_from: Mapping[str, str]) -> str:
    """Markdown: where it comes from, the headline, the table, and what is said below it."""
    total = {
        "lost": sum(row.lost for row in report.rows),
        "made twice": sum(row.doubled for row in report.rows),
        "wrong decreases": sum(row.wrong_decreases for row in report.rows),
        "silenced domains": sum(row.silenced for row in report.rows),
        "services that did not come back": len(report.dead),
    }
    slowest = max(report.rows, key=lambda row: row.next_tick_most_s, default=None)
    lines = [
        "# What faults do",
        "",
        "| | |",
        "|---|---|",
        *(f"| {name} | {text} |" for name, text in come_from.items()),
        "",
        f"{sum(row.times for row in report.rows)} faults of {len(report.rows)} kinds in "
        f"{report.minutes:.0f} minutes and {report.ticks:,} ticks, with {report.changes:,} applied "
        f"changes, {report.hostile_records:,} hostile records and {report.dead_letters:,} dead "
        f"letters: {', '.join(f'{count} {name}' for name, count in total.items())}."
        + (
            f" The next tick closed after {slowest.next_tick_most_s:.1f} s at most "
            f"({slowest.fault})."
            if slowest
            else ""
        )
        + (" It was interrupted." if report.interrupted else ""),
        "",
        "The columns are explained [where faults are](../guides/development.md#injecting-faults).",
        "",
        _HEADINGS,
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
        *(
            f"| {row.fault} | {row.times} | {row.lost} | {row.doubled} | {row.wrong_decreases} | "
            f"{row.holds} | {row.silenced} | {row.next_tick_s:.1f} | {row.next_tick_most_s:.1f} |"
            for row in report.rows
        ),
        "",
        *(f"- Skipped {one.fault}: {one.reason}" for one in report.skipped),
        *(f"- Ended early after {line}" for line in report.died),
        *(f"- Did not come back: {name}" for name in report.dead),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _commit() -> str:
    try:
        return releases.present()
    except Skipped:
        return _UNKNOWN
