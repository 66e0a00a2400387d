"""`hirl bench forecast`: how well models forecast a user's own traffic, beside each other."""

import shlex
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from models.compare.cores import cores
from models.forecaster.learned.artefact import SHIPPED
from models.forecaster.score.contest import Advance, Contest, contest, steps_of
from models.forecaster.score.peers.catalogue import NAMES, Entrants, all_installed, named
from models.forecaster.score.peers.port import Peer
from models.forecaster.score.windows import Skipped, Windows
from models.forecaster.series import Series
from models.inputs.errors import InputError
from services.cli.forecast.options import (
    ArtefactOption,
    CalendarOption,
    SeriesOption,
    StartOption,
    StepOption,
)
from services.cli.forecast.reading import Source, read, tests
from services.cli.forecast.report import write_report
from services.cli.forecast.result import Result, payload
from services.cli.forecast.tables import READING, listings, set_table
from services.cli.options import JsonOption, ReportOption
from services.cli.output import progress, write_json

EXAMPLES = (
    "Examples: [bold]hirl bench forecast --series traffic.csv[/bold], "
    "[bold]hirl bench forecast --series traffic.parquet --calendar events.csv "
    "--test-from 2024-05-01 --json forecast.json --report .hirl/forecast[/bold]"
)
_SHOWN_NOTES = 12

TestFromOption = Annotated[
    str | None,
    typer.Option(
        "--test-from",
        metavar="TIME",
        help="When scoring begins; what learns does so from what is before. "
        "The last 20 % of each series when not given.",
    ),
]
ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="A,B",
        help=f"Of {', '.join(NAMES)}; all that are installed when not given. "
        "The simple rules always run.",
    ),
]


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

    The shipped model stays as it is; peers that learn do so from what is before the test. What
    would have been served is chosen by what was known before it, too.
    """
    console, began = Console(emoji=False), time.monotonic()
    found = read(Source(series, calendar, step_min, start))
    entrants = _entrants(model, artefact, len(found.series))
    scored, skipped = tests(found.series, test_from)
    steps = len(scored) * steps_of(entrants.peers)
    with progress("forecasting", steps, console) as advance:
        contests = _contests(scored, entrants.peers, advance)
    result = Result(
        file=str(series),
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
        _say(console, f"report: {write_report(report, result)}")


def _contests(
    scored: Sequence[tuple[Series, Windows]], peers: Sequence[Peer], advance: Advance
) -> list[Contest]:
    """One series after the other on each core: networks, trees and kernels leave Python alone."""
    with ThreadPoolExecutor(cores()) as pool:
        return list(pool.map(lambda each: contest(each[0], each[1], peers, advance), scored))


def _unserved(contest: Contest) -> Skipped:
    """Nobody has anything to say: the rule that would serve has no past to measure itself on."""
    reason = contest.outcome.absent[contest.served.model]
    return Skipped(contest.outcome.series.name, f"nobody can forecast it: {reason}")


def _entrants(model: str | None, artefact: Path, series: int) -> Entrants:
    if model is None:
        return all_installed(series, artefact)
    names = tuple(dict.fromkeys(name.strip() for name in model.split(",") if name.strip()))
    if not names:
        raise InputError(f"model: expected at least one of {', '.join(NAMES)}")
    return named(names, artefact)


def _show(console: Console, result: Result) -> None:
    for listing in listings(result):
        console.print(set_table(listing))
    _say(console, READING)
    for each in result.skipped[:_SHOWN_NOTES]:
        _say(console, f"skipped: {each.series}: {each.reason}")
    notes = result.all_notes()
    for note in notes[:_SHOWN_NOTES]:
        _say(console, f"note: {note}")
    more = max(0, len(notes) - _SHOWN_NOTES) + max(0, len(result.skipped) - _SHOWN_NOTES)
    if more:
        _say(console, f"and {more} more notes: --json FILE has all")
    _say(console, f"took {result.seconds:.0f} s")


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
        "--artefact": None if artefact == SHIPPED else artefact,
        "--step-min": step_min,
        "--start": start,
    }
    given = [f"{k} {shlex.quote(str(value))}" for k, value in values.items() if value is not None]
    return " ".join(["hirl bench forecast", *given])


def _say(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=not console.is_terminal)
