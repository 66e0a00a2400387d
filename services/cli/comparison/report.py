"""The HTML report of a benchmark: one self-contained file."""

from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path
from typing import Final, NamedTuple

from models.compare.outcome import BenchmarkOutcome
from models.compare.request import Request
from models.compare.standings import Standing
from services.cli.comparison.tables import (
    FEW_SEEDS,
    READING,
    Listing,
    by_scenario,
    frontier_table,
    grouped,
    held_table,
    objective_table,
    pooled_tables,
)
from services.cli.page import page, write_page

_BODY: Final = Path(__file__).with_name("report.html")
_COLUMNS: Final = 4
"""Timelines side by side."""


class Section(NamedTuple):
    """A part of the page: title, explanation and content."""

    title: str
    text: str
    body: str


def write_report(
    folder: Path,
    outcome: BenchmarkOutcome,
    name: str = "control.html",
    first: Iterable[Section] = (),
) -> Path:
    """Write the report into `folder`, with the sections `first` on top; return the file."""
    return write_page(folder / name, render(outcome, first))


def render(outcome: BenchmarkOutcome, first: Iterable[Section] = ()) -> str:
    """The report as an HTML page."""
    request = outcome.request
    reduced = f" Quick run: {', '.join(request.reduced)}." if request.reduced else ""
    return page(
        "Controllers compared",
        _BODY,
        run=escape(
            f"{_counted(request)}, "
            f"{request.cluster.apps:,} apps of {request.cluster.name}; compared with "
            f"{request.reference}; {outcome.seconds:.0f} s, {outcome.reused} of "
            f"{len(outcome.jobs)} jobs from earlier runs.{reduced}{_caveat(len(request.seeds))}"
        ),
        sections="".join(_html(section) for section in (*first, *_sections(outcome))),
        world_hash=outcome.world_hash,
        code_hash=outcome.code_hash,
        command=escape(outcome.command),
    )


def _caveat(seeds: int) -> str:
    if seeds == 1:
        return " One seed gives no intervals: it shows how controllers differ, not how much."
    few = seeds < FEW_SEEDS
    return f" With fewer than {FEW_SEEDS} seeds intervals are too narrow." if few else ""


def _counted(request: Request) -> str:
    controllers = f"{len(request.controllers)} controllers"
    if len(request.scenarios) == len(request.seeds) == 1:
        return f"{controllers}, {request.scenarios[0].name}, seed {request.seeds[0]}"
    return (
        f"{controllers}, {len(request.scenarios)} scenarios, "
        f"{len(request.seeds)} seeds ({request.seeds[0]} to {request.seeds[-1]})"
    )


def _sections(outcome: BenchmarkOutcome) -> Iterator[Section]:
    standings, reference = outcome.standings, outcome.request.reference
    tables = by_scenario(standings, reference)
    yield Section("The figures", f"{_capital(READING)}.", _table(tables[-1]))
    if outcome.pooled:
        yield Section(
            "How much depends on the scenarios",
            "Intervals over draws of scenarios as well as seeds, for all scenarios and without "
            f"the one in which {reference} violates most.",
            "".join(_table(listing) for listing in pooled_tables(outcome.pooled, reference)),
        )
    yield from _plots(outcome)
    yield Section(
        "Is J no worse?",
        f"Mean paired difference in J over the mean J of {reference}, with its 95 % interval. "
        "A controller is no worse by a margin when the upper end lies below that margin; "
        "it is better when the upper end lies below zero.",
        _table(objective_table(standings, reference)),
    )
    yield Section(
        "Scenario by scenario",
        "The same figures as above, for each scenario.",
        "".join(_table(listing) for listing in tables),
    )


def _plots(outcome: BenchmarkOutcome) -> Iterator[Section]:
    # Only reports need matplotlib; a serving installation doesn't have it.
    from services.cli.comparison import plots  # noqa: PLC0415

    standings = outcome.standings
    # The last group is that of all scenarios, or the only scenario there is.
    where, overall = list(grouped(standings).items())[-1]
    shown = outcome.request.shown
    timelines = {name: outcome.timelines[name] for name in _shown_controllers(outcome)}
    seed = next(iter(timelines.values())).seed
    yield Section(
        f"One {shown.name}, side by side",
        f"{shown.shows} Seed {seed}, the same traffic in every column; beside the reference are "
        "the controllers with the lowest J here. Rows share their scale; grey is warm-up, which "
        "does not count. Read down a column: demand rises and pods follow; where they are late, "
        "the p99 crosses its target (dotted) and requests violate.",
        plots.timeline_svg(timelines),
    )
    yield Section(
        "Who violates, by priority",
        f"Violation minutes in {where}, means over the seeds; the thin line is the 95 % interval "
        "of the mean, which is wide because seeds differ: compare by the paired ratios in the "
        "tables. Shorter is better.",
        plots.violations_svg(overall),
    )
    yield Section(
        "Nodes against violations",
        _frontier_text(outcome),
        plots.frontier_svg(standings, outcome.frontier)
        + (_table(frontier_table(standings)) if outcome.frontier else ""),
    )
    yield Section(
        "Oscillation",
        f"In {where}: the share of actions that revert an app's last one within five minutes, "
        "loops (out and back) scaled to a day, and actions. Shorter is calmer.",
        plots.oscillation_svg(overall),
    )
    yield Section(
        "Who held capacity while P0 waited",
        f"In {where}: the share of ready CPU that P3's pods were bound to in the ticks in which "
        "a P0 pod waited for a node, and how many such ticks there were, mean over the seeds.",
        plots.held_svg(overall) + _table(held_table(standings)),
    )


def _frontier_text(outcome: BenchmarkOutcome) -> str:
    text = (
        "Further left is cheaper, further down is better; the scale of violations is "
        "log(1 + violations)."
    )
    if not outcome.frontier:
        return text
    return (
        f"{text} The grey line is HPA at {len(outcome.request.frontier)} targets: what tuning "
        "its one parameter achieves. A point below the line violates less than an HPA that costs "
        "as much. The table puts each controller's P0 minutes beside HPA's at equal node-hours, "
        "interpolated between targets (linear in node-hours and log(minutes + 1)); where a dearer "
        "target violates more than a cheaper one, the cheaper one counts; "
        "“beyond” marks more or fewer node-hours than any target."
    )


def _shown_controllers(outcome: BenchmarkOutcome) -> list[str]:
    """The reference, then the controllers with the lowest J in the plotted scenario."""
    reference, shown = outcome.request.reference, outcome.request.shown.name
    others: list[Standing] = [
        row for row in grouped(outcome.standings)[shown] if row.controller != reference
    ]
    others.sort(key=lambda row: row.objective)
    # The reference is shown even if others are better.
    return [reference, *(row.controller for row in others[: _COLUMNS - 1])]


def _html(section: Section) -> str:
    return f"<h2>{escape(section.title)}</h2><p>{escape(section.text)}</p>{section.body}"


def _table(listing: Listing) -> str:
    caption = f"<caption>{escape(listing.title)}</caption>" if listing.title else ""
    head = "".join(f"<th>{escape(column)}</th>" for column in listing.columns)
    rows = "".join(
        f"<tr><th>{escape(first)}</th>{''.join(f'<td>{escape(cell)}</td>' for cell in rest)}</tr>"
        for first, *rest in listing.rows
    )
    return f'<div class="card"><table>{caption}<tr>{head}</tr>{rows}</table></div>'


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
