"""`hirl forecast`: the next half hour of recorded traffic, by the model that would serve."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer
from rich.console import Console

from models.forecaster.data.axes import minute_of, stamp
from models.forecaster.learned.announcements import HOLIDAY
from models.forecaster.learned.artefact import NAME, SHIPPED
from models.forecaster.port import HIGH, HORIZONS_MIN, LOW, MEDIAN
from models.forecaster.score.comparison import FLOORS
from models.forecaster.score.contest import Advance
from models.forecaster.score.one_shot import SeriesForecast, forecast_series
from models.forecaster.score.peers.catalogue import Entrants, named
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
    span,
)
from services.cli.options import JsonOption
from services.cli.output import print_line, progress, shown, table, write_json

_SHOWN_SERIES = 12

AtOption = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="TIME",
        help="Forecast as of this time, ignoring later data; the end when not given.",
    ),
]


@examples(
    "hirl forecast --series traffic.csv",
    "hirl forecast --series traffic.csv --calendar events.csv --at 2024-05-01T15:30 "
    "--json next.json",
)
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

    Uses the shipped model, or a simple rule where that was better in the days before.
    """
    console = Console(emoji=False)
    found = read(Source(series, calendar, step_min, start))
    entrants = named((NAME,), artefact)
    with progress("forecasting", len(found.series), console) as advance:
        forecasts, refused = _forecast_all(found.series, at, entrants, advance)
    extra = [note for each in forecasts for note in (*_ignored_announcements(each), *_limits(each))]
    notes = [*found.notes, *entrants.notes, *refused, *extra]
    _show(console, forecasts, notes)
    if json is not None:
        rows = [row for each in forecasts for row in _rows(each)]
        write_json(json, {"forecasts": rows, "notes": notes})


def _forecast_all(
    series: list[Series], at: str | None, entrants: Entrants, advance: Advance
) -> tuple[list[SeriesForecast], list[str]]:
    """Forecasts, and for other series the reason why there is none; at least one must succeed."""
    forecasts: list[SeriesForecast] = []
    refused: list[str] = []
    for each in series:
        try:
            forecasts.append(forecast_series(each, _until(each, at), entrants.peers))
        # One bad series of many is a note; only if all fail is it an error.
        except InputError as error:
            refused.append(str(error))
        advance(1)
    if not forecasts:
        raise InputError(refused[0])
    return forecasts, refused


def _ignored_announcements(made: SeriesForecast) -> list[str]:
    """Upcoming announcements that the serving rule ignores, because it uses no calendar."""
    # The learned model uses the calendar.
    if made.served.model == NAME:
        return []
    series, last = made.series, made.at + max(HORIZONS_MIN)
    return [
        f"{series.name}: {entry.kind or 'an event'} is announced for "
        f"{_when(series, entry.start_min)}, which {made.served.model} ignores"
        for entry in series.calendar
        if entry.kind != HOLIDAY
        and entry.announced_from_min <= made.at
        and entry.start_min <= last
        and entry.end_min > made.at + 1
    ]


def _limits(made: SeriesForecast) -> Iterator[str]:
    """Notes on horizons and times that the forecast doesn't cover."""
    series = made.series
    if made.silent_min >= series.step_min:
        yield (
            f"{series.name}: the last value is {made.silent_min} minutes old, "
            "and the forecast is from then on"
        )
    finer = ", ".join(str(each) for each in HORIZONS_MIN if each < series.step_min)
    if finer:
        yield f"{series.name}: steps of {series.step_min} min are too coarse for {finer} min"


def _until(series: Series, at: str | None) -> int:
    if at is None:
        return series.rps.size
    minute = minute_of(series, at)
    if not 0 < minute <= series.rps.size:
        raise InputError(f"{series.name}: at: expected a time within {span(series)}, got {at}")
    return minute


def _show(console: Console, forecasts: list[SeriesForecast], notes: list[str]) -> None:
    for each in forecasts[:_SHOWN_SERIES]:
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
        # rich would take a name in brackets for markup.
        console.print(table(title.replace("[", r"\["), columns, rows))
        print_line(console, f"{each.served.model} serves: {each.served.why}")
    if len(forecasts) > _SHOWN_SERIES:
        print_line(
            console, f"and {len(forecasts) - _SHOWN_SERIES} more series: --json FILE has all"
        )
    rules = f"{NAME} gives way to {', '.join(FLOORS)} where they were better"
    minute = "in 5 min is the minute that ends then, shown by its start"
    print_line(console, f"{minute}; the peak is not exceeded in nine of ten cases; {rules}")
    for note in notes[:_SHOWN_SERIES]:
        print_line(console, f"note: {note}")


def _rows(made: SeriesForecast) -> list[dict[str, Any]]:
    series = made.series
    return [
        {
            "series": series.name,
            "model": made.served.model,
            "why": made.served.why,
            "made_at": _when(series, made.at + 1),
            "horizon_min": horizon,
            "at": _when(series, made.at + horizon),
            "p10": float(made.values[index, LOW]),
            "p50": float(made.values[index, MEDIAN]),
            "p90": float(made.values[index, HIGH]),
            "peak_p90": float(made.peak[index]),
        }
        for index, horizon in enumerate(HORIZONS_MIN)
        # A series of 15-minute steps has no value 5 minutes ahead.
        if horizon >= series.step_min
    ]


def _when(series: Series, minute: int) -> str:
    return stamp((series.origin_min + minute) * 60)[:16]
