"""`hirl forecast`: the next half hour of a file of traffic, by the model that would serve."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer
from rich.console import Console

from models.forecaster.data.axes import minute_of, stamp
from models.forecaster.learned.announcements import HOLIDAY
from models.forecaster.learned.artefact import NAME, SHIPPED
from models.forecaster.port import HIGH, HORIZONS_MIN, LOW, MEDIAN
from models.forecaster.score.contest import Advance
from models.forecaster.score.headline import FLOORS
from models.forecaster.score.one_shot import Spoken, speak
from models.forecaster.score.peers.catalogue import Entrants, named
from models.forecaster.series import Series
from models.inputs.errors import InputError
from services.cli.forecast.options import (
    ArtefactOption,
    CalendarOption,
    SeriesOption,
    StartOption,
    StepOption,
)
from services.cli.forecast.reading import Source, read, span
from services.cli.options import JsonOption
from services.cli.output import progress, shown, table, write_json

EXAMPLES = (
    "Examples: [bold]hirl forecast --series traffic.csv[/bold], [bold]hirl forecast "
    "--series traffic.csv --calendar events.csv --at 2024-05-01T15:30 --json next.json[/bold]"
)
_SHOWN_SERIES = 12

AtOption = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="TIME",
        help="Forecast as of this time, nothing later is looked at; the end when not given.",
    ),
]


def forecast(
    series: SeriesOption,
    calendar: CalendarOption = None,
    at: AtOption = None,
    artefact: ArtefactOption = SHIPPED,
    step_min: StepOption = None,
    start: StartOption = None,
    json: JsonOption = None,
) -> None:
    """Forecast the minutes 5, 15 and 30 minutes ahead, with 80 % intervals and the peak.

    By the shipped model, or by a simple rule where that was better in the days before.
    """
    console = Console(emoji=False)
    found = read(Source(series, calendar, step_min, start))
    entrants = named((NAME,), artefact)
    with progress("forecasting", len(found.series), console) as advance:
        spoken, refused = _all(found.series, at, entrants, advance)
    odd = [note for each in spoken for note in (*_unheard(each), *_untold(each))]
    notes = [*found.notes, *entrants.notes, *refused, *odd]
    _show(console, spoken, notes)
    if json is not None:
        rows = [row for each in spoken for row in _rows(each)]
        write_json(json, {"forecasts": rows, "notes": notes})


def _all(
    series: list[Series], at: str | None, entrants: Entrants, advance: Advance
) -> tuple[list[Spoken], list[str]]:
    """Forecasts, and why there is none of some series; at least one is needed."""
    spoken: list[Spoken] = []
    refused: list[str] = []
    for each in series:
        try:
            spoken.append(speak(each, _until(each, at), entrants.peers))
        except InputError as error:
            refused.append(str(error))
        advance(1)
    if not spoken:
        raise InputError(refused[0])
    return spoken, refused


def _unheard(spoken: Spoken) -> list[str]:
    """What was announced for the time ahead, where a rule serves that knows no calendar."""
    if spoken.served.model == NAME:
        return []
    series, last = spoken.series, spoken.at + max(HORIZONS_MIN)
    return [
        f"{series.name}: {entry.kind or 'an event'} is announced for "
        f"{_when(series, entry.start_min)}, of which {spoken.served.model} knows nothing"
        for entry in series.calendar
        if entry.kind != HOLIDAY
        and entry.announced_from_min <= spoken.at
        and entry.start_min <= last
        and entry.end_min > spoken.at + 1
    ]


def _untold(spoken: Spoken) -> Iterator[str]:
    """Where less is said than was asked for."""
    series = spoken.series
    if spoken.silent_min >= series.step_min:
        yield (
            f"{series.name}: the last value is {spoken.silent_min} minutes old, "
            "and the forecast is from then on"
        )
    finer = ", ".join(str(each) for each in HORIZONS_MIN if each < series.step_min)
    if finer:
        yield f"{series.name}: in steps of {series.step_min} min nothing is said of {finer} min"


def _until(series: Series, at: str | None) -> int:
    if at is None:
        return series.rps.size
    minute = minute_of(series, at)
    if not 0 < minute <= series.rps.size:
        raise InputError(f"{series.name}: at: expected a time within {span(series)}, got {at}")
    return minute


def _show(console: Console, spoken: list[Spoken], notes: list[str]) -> None:
    for each in spoken[:_SHOWN_SERIES]:
        rows = [
            (
                f"{row['horizon_min']} min",
                row["at"],
                shown(row["p50"]),
                f"{shown(row['p10'])} .. {shown(row['p90'])}",
                shown(row["peak_p90"]),
            )
            for row in _rows(each)
        ]
        title = f"{each.series.name}, as of {_when(each.series, each.at + 1)}"
        columns = ("in", "minute", "expected", "80 % interval", "peak until then")
        console.print(table(title.replace("[", r"\["), columns, rows))
        _say(console, f"{each.served.model} serves: {each.served.why}")
    if len(spoken) > _SHOWN_SERIES:
        _say(console, f"and {len(spoken) - _SHOWN_SERIES} more series: --json FILE has all")
    _say(console, f"the peak is not exceeded in nine of ten cases; {_others()}")
    for note in notes[:_SHOWN_SERIES]:
        _say(console, f"note: {note}")


def _others() -> str:
    return f"{NAME} gives way to {', '.join(FLOORS)} where they were better"


def _rows(spoken: Spoken) -> list[dict[str, Any]]:
    series = spoken.series
    return [
        {
            "series": series.name,
            "model": spoken.served.model,
            "why": spoken.served.why,
            "made_at": _when(series, spoken.at + 1),
            "horizon_min": horizon,
            "at": _when(series, spoken.at + horizon),
            "p10": float(spoken.values[place, LOW]),
            "p50": float(spoken.values[place, MEDIAN]),
            "p90": float(spoken.values[place, HIGH]),
            "peak_p90": float(spoken.peak[place]),
        }
        for place, horizon in enumerate(HORIZONS_MIN)
        if horizon >= series.step_min
    ]


def _when(series: Series, minute: int) -> str:
    return stamp((series.origin_min + minute) * 60)[:16]


def _say(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=not console.is_terminal)
