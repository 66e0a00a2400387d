"""`hirl bench forecast`: score models on a user's own traffic, with tables and an HTML report."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from html import escape
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from models.compare.workers import cores
from models.forecaster.learned.artefact import SHIPPED
from models.forecaster.score.contest import Advance, Contest, contest, steps_of
from models.forecaster.score.evaluation import Peer
from models.forecaster.score.peers.catalogue import NAMES, Entrants, all_installed, named
from models.forecaster.score.windows import Skipped, Windows
from models.forecaster.series import Series
from models.inputs.errors import InputError
from services.cli.commands import examples
from services.cli.forecast.reading import (
    ArtefactOption,
    CalendarOption,
    SeriesOption,
    Source,
    StartOption,
    StepOption,
    read,
    scored_series,
)
from services.cli.forecast.tables import (
    READING,
    Listing,
    Result,
    Text,
    listings,
    payload,
    terminal_table,
)
from services.cli.options import JsonOption, ReportOption
from services.cli.output import command_line, print_line, progress, write_json
from services.cli.page import page, write_page

_SHOWN_NOTES = 12

TestFromOption = Annotated[
    str | None,
    typer.Option(
        "--test-from",
        metavar="TIME",
        help="When scoring begins; models learn from earlier data only. "
        "The last 20 % of each series when not given.",
    ),
]
ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="A,B",
        help=f"Of {', '.join(NAMES)}; all installed ones when not given. "
        "The simple rules always run.",
    ),
]


@examples(
    "hirl bench forecast --series traffic.csv",
    "hirl bench forecast --series traffic.parquet --calendar events.csv "
    "--test-from 2024-05-01 --json forecast.json --report .hirl/forecast",
)
def forecast(
    series: SeriesOption,
    calendar: CalendarOption = None,
    test_from: TestFromOption = None,
    model: ModelOption = None,
    artefact: ArtefactOption = SHIPPED,
    step_min: StepOption = None,
    start: StartOption = None,
    json: JsonOption = None,
    report: ReportOption = None,
) -> None:
    """Score forecasts 5, 15 and 30 minutes ahead on a file of recorded traffic.

    The shipped model is not retrained; peers learn from data before the test. The served model
    is chosen from data before the test, too.
    """
    console, began = Console(emoji=False), time.monotonic()
    found = read(Source(series, calendar, step_min, start))
    entrants = _entrants(model, artefact, len(found.series))
    scored, skipped = scored_series(found.series, test_from)
    steps = len(scored) * steps_of(entrants.peers)
    with progress("forecasting", steps, console) as advance:
        contests = _contests(scored, entrants.peers, advance)
    result = Result(
        file=str(series),
        # A series without a serving model has no figures; it is listed as skipped instead.
        contests=[each for each in contests if each.is_served],
        skipped=[*skipped, *(_unserved(each) for each in contests if not each.is_served)],
        notes=[*found.notes, *entrants.notes],
        seconds=time.monotonic() - began,
        command=_command(series, calendar, test_from, model, artefact, step_min, start),
    )
    _show(console, result)
    if json is not None:
        write_json(json, payload(result))
    if report is not None:
        print_line(console, f"report: {write_report(report, result)}")


def _contests(
    scored: Sequence[tuple[Series, Windows]], peers: Sequence[Peer], advance: Advance
) -> list[Contest]:
    """One series at a time per core: networks, trees and kernels release the GIL."""
    with ThreadPoolExecutor(cores()) as pool:
        return list(pool.map(lambda each: contest(each[0], each[1], peers, advance), scored))


def _unserved(contest: Contest) -> Skipped:
    """No model can forecast it: the rule that would serve has no past to be measured on."""
    reason = contest.evaluation.absent[contest.served.model]
    return Skipped(contest.evaluation.series.name, f"no model can forecast it: {reason}")


def _entrants(model: str | None, artefact: Path, series: int) -> Entrants:
    if model is None:
        return all_installed(series, artefact)
    names = tuple(dict.fromkeys(name.strip() for name in model.split(",") if name.strip()))
    if not names:
        raise InputError(f"model: expected at least one of {', '.join(NAMES)}")
    return named(names, artefact)


def _show(console: Console, result: Result) -> None:
    for listing in listings(result):
        console.print(terminal_table(listing))
    print_line(console, READING)
    for each in result.skipped[:_SHOWN_NOTES]:
        print_line(console, f"skipped: {each.series}: {each.reason}")
    notes = result.all_notes()
    for note in notes[:_SHOWN_NOTES]:
        print_line(console, f"note: {note}")
    # A file of hundreds of series would scroll the tables off the screen.
    more = max(0, len(notes) - _SHOWN_NOTES) + max(0, len(result.skipped) - _SHOWN_NOTES)
    if more:
        print_line(console, f"and {more} more notes: --json FILE has all")
    print_line(console, f"took {result.seconds:.0f} s")


def _command(
    series: Path,
    calendar: Path | None,
    test_from: str | None,
    model: str | None,
    artefact: Path,
    step_min: int | None,
    start: str | None,
) -> str:
    values = {
        "--series": series,
        "--calendar": calendar,
        "--test-from": test_from,
        "--model": model,
        # The path of the shipped model differs between machines, and is the default.
        "--artefact": None if artefact == SHIPPED else artefact,
        "--step-min": step_min,
        "--start": start,
    }
    return command_line("hirl bench forecast", values)


_BODY: Final = Path(__file__).with_name("report.html")
_CLASSES: Final = {"": "", "best": ' class="ok"', "bad": ' class="bad"'}
_MOST_NOTES: Final = 40


def write_report(folder: Path, result: Result) -> Path:
    """Write the report into `folder`; return the file."""
    return write_page(folder / "forecast.html", render(result))


def render(result: Result) -> str:
    """The report as an HTML page."""
    # Only reports need matplotlib; a serving installation doesn't have it.
    from services.cli.forecast import plots  # noqa: PLC0415

    windows = sum(each.evaluation.windows.at.size for each in result.contests)
    return page(
        "Forecasts compared",
        _BODY,
        run=escape(
            f"{result.file}: {len(result.contests)} series, {windows:,} origins, "
            f"{len(result.models)} models; {result.seconds:.0f} s"
        ),
        reading=escape(f"{READING[0].upper()}{READING[1:]}."),
        tables="".join(_table(listing) for listing in listings(result)),
        ratios=plots.ratios_svg(result),
        calibration=plots.calibration_svg(result),
        days=plots.days_svg(result),
        notes="".join(f"<li>{escape(line)}</li>" for line in _lines(result)),
        command=escape(result.command),
    )


def _lines(result: Result) -> list[str]:
    skipped = [f"skipped: {each.series}: {each.reason}" for each in result.skipped]
    lines = [*result.notes, *skipped, *(note for each in result.contests for note in each.notes)]
    more = len(lines) - _MOST_NOTES
    return [*lines[:_MOST_NOTES], *([f"and {more} more"] if more > 0 else [])] or ["None."]


def _table(listing: Listing) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in listing.columns)
    rows = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in listing.rows)
    caption = f"<caption>{escape(listing.title)}</caption>"
    return f'<div class="card"><table>{caption}<tr>{head}</tr>{rows}</table></div>'


def _cell(cell: Text) -> str:
    return f"<td{_CLASSES[cell.mark]}>{escape(cell.text)}</td>"
