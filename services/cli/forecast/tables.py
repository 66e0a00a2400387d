"""A comparison of forecasts as tables, for a terminal and for an HTML page."""

from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple

import msgspec
from rich.markup import escape
from rich.table import Table

from models.forecaster.learned.artefact import NAME
from models.forecaster.port import HORIZONS_MIN
from models.forecaster.score.comparison import Cell, Headline, headlines
from models.forecaster.score.contest import Contest
from models.forecaster.score.metrics import Row
from models.forecaster.score.spikes import ALL_SERIES, FACTORS, SpikeScore, pooled
from models.forecaster.score.windows import Skipped
from services.cli.output import table

SHOWN_SERIES: Final = 8
"""Of larger files the tables show the extremes; the JSON file has all."""
IN_BAND: Final = (0.75, 0.85)
"""Acceptable coverage of a served 80 % interval."""
READING: Final = (
    "P50 q-risk and, in brackets, its ratio to the best simple rule (last, mean5, mean15, day, "
    "week); * is the best; in is the share of values within the 80 % interval, ! marks one "
    f"of the served model outside {IN_BAND[0]:.0%} to {IN_BAND[1]:.0%}"
)
_NONE: Final = "-"
Mark = Literal["", "best", "bad"]


class Result(NamedTuple):
    """Scores of all series of a file."""

    file: str
    contests: list[Contest]
    skipped: list[Skipped]
    notes: list[str]
    seconds: float
    command: str
    """Command line that repeats the comparison."""

    @property
    def models(self) -> list[str]:
        """Models with at least one forecast, in order."""
        return list(dict.fromkeys(row.model for each in self.contests for row in each.rows))

    @property
    def headline(self) -> tuple[Headline, ...]:
        """Geometric means over the series."""
        return headlines(cell for each in self.contests for cell in each.cells)

    @property
    def spikes(self) -> list[SpikeScore]:
        """Of each series with announcements; then of all of them pooled."""
        scores = [score for each in self.contests for score in each.spikes]
        # Of one series the pooled scores would be the same line again.
        several = len({score.series for score in scores}) > 1
        return [*scores, *pooled(scores)] if several else scores

    def all_notes(self) -> list[str]:
        """Notes about the file, the models and single series."""
        return [*self.notes, *(note for each in self.contests for note in each.notes)]


def payload(result: Result) -> dict[str, Any]:
    """The result as JSON."""
    contests = result.contests
    return {
        "served": {each.evaluation.series.name: each.served.model for each in contests},
        "rows": [row for each in contests for row in each.rows],
        "headline": result.headline,
        "ratios": [cell for each in contests for cell in each.cells],
        "significance": [found for each in contests for found in each.significance],
        "spikes": [_spike(score) for score in result.spikes],
        "why": {each.evaluation.series.name: each.served.why for each in contests},
        "skipped": {each.series: each.reason for each in result.skipped},
        "notes": result.all_notes(),
        "command": result.command,
    }


def _spike(score: SpikeScore) -> dict[str, Any]:
    return {
        **msgspec.structs.asdict(score),
        "recall": score.recall,
        "recall_interval": score.recall_interval,
        "unannounced_recall": score.unannounced_recall,
        "false_alarms_per_day": score.false_alarms_per_day,
    }


class Text(NamedTuple):
    """A cell and its highlighting."""

    text: str
    mark: Mark = ""


class Listing(NamedTuple):
    """A table independent of its output format."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[Text, ...]]


def terminal_table(listing: Listing) -> Table:
    """The table for a terminal."""
    styles = {"": "{}", "best": "[bold green]{}[/bold green]", "bad": "[red]{}[/red]"}
    rows = [[styles[cell.mark].format(escape(cell.text)) for cell in row] for row in listing.rows]
    made = table(escape(listing.title), listing.columns, rows)
    for column in made.columns:
        # Names of series can be long; a cut one cannot be searched for.
        column.overflow = "fold"
    for column in made.columns[1:]:
        column.justify = "right"
    return made


def listings(result: Result) -> list[Listing]:
    """A table per series if there are few, and the means and extremes of all."""
    few = len(result.contests) <= SHOWN_SERIES
    tables = [of_series(each) for each in result.contests] if few else []
    if len(result.contests) > 1:
        tables.append(headline(result))
    tables += [significance(result)] if any(each.significance for each in result.contests) else []
    return tables + ([spikes(result.spikes)] if result.spikes else [])


def of_series(contest: Contest) -> Listing:
    """Every model on one series, horizon beside horizon."""
    name, served = contest.evaluation.series.name, contest.served
    columns = [f"{horizon} min" for horizon in HORIZONS_MIN]
    rows = []
    for model in contest.evaluation.forecasts:
        cells = [Text(model)]
        for horizon in HORIZONS_MIN:
            cells += _figures(contest, model, horizon)
        rows.append(tuple(cells))
    return Listing(
        f"{name}: {served.model} serves, {served.why}",
        ("model", *(part for column in columns for part in (column, "in"))),
        rows,
    )


def _figures(contest: Contest, model: str, horizon: int) -> tuple[Text, Text]:
    """Error with its ratio, and coverage."""
    rows = {row.model: row for row in contest.rows if row.horizon_min == horizon}
    if model not in rows:
        return Text(_NONE), Text(_NONE)
    row = rows[model]
    best = _best(list(rows.values()))
    ratio = next((f" ({cell.ratio:.2f})" for cell in contest.cells if _is(cell, row)), "")
    risk = _NONE if row.q_risk_p50 is None else f"{row.q_risk_p50:.4f}{ratio}"
    error = Text(f"{risk} *", "best") if best is not None and row.model == best else Text(risk)
    return error, _coverage(row, model == contest.served.model)


def _best(rows: Sequence[Row]) -> str | None:
    """The model with the lowest error among those that forecast every window."""
    # A model that was silent in hard windows would look better than it is.
    most = max(row.windows for row in rows)
    whole = {
        row.model: row.q_risk_p50
        for row in rows
        if row.q_risk_p50 is not None and row.windows == most
    }
    return min(whole, key=lambda model: whole[model]) if whole else None


def _is(cell: Cell, row: Row) -> bool:
    return cell.model == row.model and cell.horizon_min == row.horizon_min


def _coverage(row: Row, served: bool) -> Text:
    text = f"{row.coverage_80:.0%}"
    outside = not IN_BAND[0] <= row.coverage_80 <= IN_BAND[1]
    # Only the served interval is marked: nothing acts on the intervals of the others.
    return Text(f"{text}!", "bad") if served and outside else Text(text)


def headline(result: Result) -> Listing:
    """Geometric means over the series with the extremes, model by model."""
    rows = []
    for mean in result.headline:
        found = [
            cell
            for each in result.contests
            for cell in each.cells
            if cell.model == mean.model and cell.horizon_min == mean.horizon_min
        ]
        found.sort(key=lambda cell: cell.ratio)
        low, high = found[0], found[-1]
        below = sum(cell.ratio <= 1 for cell in found) / len(found)
        rows.append(
            (
                Text(mean.model),
                Text(str(mean.horizon_min)),
                _ratio(mean.ratio, _is_lowest(result, mean.model, mean.horizon_min)),
                Text(f"{below:.0%} of {mean.series}"),
                Text(f"{low.ratio:.2f} {_short(low.series)}"),
                Text(f"{high.ratio:.2f} {_short(high.series)}"),
            )
        )
    columns = ("model", "min", "mean", "at most 1", "lowest", "highest")
    return Listing("Ratio to the best simple rule, geometric mean over the series", columns, rows)


def _ratio(value: float, best: bool) -> Text:
    return Text(f"{value:.3f} *", "best") if best else Text(f"{value:.3f}")


def _is_lowest(result: Result, model: str, horizon: int) -> bool:
    """Only means over equally many series can be compared."""
    beside = [mean for mean in result.headline if mean.horizon_min == horizon]
    most = max(mean.series for mean in beside)
    whole = [mean for mean in beside if mean.series == most]
    return min(whole, key=lambda mean: mean.ratio).model == model


def _short(name: str) -> str:
    return name if len(name) <= 24 else f"{name[:23]}…"


def significance(result: Result) -> Listing:
    """Whether the learned model is significantly better than the best rule."""
    found = [each for contest in result.contests for each in contest.significance]
    cut = len(result.contests) > SHOWN_SERIES
    by_ratio = sorted(found, key=lambda each: each.ratio.value)
    # Both ends, so that a table of the best series cannot hide the worst.
    shown = [*by_ratio[:SHOWN_SERIES], *by_ratio[-SHOWN_SERIES:]] if cut else found
    rows = [
        (
            Text(each.series),
            Text(str(each.horizon_min)),
            Text(each.floor),
            Text(f"{each.ratio.value:.3f}"),
            Text(f"{each.ratio.low:.3f} .. {each.ratio.high:.3f}"),
            Text(_verdict(each.ratio.low, each.ratio.high)),
        )
        for each in shown
    ]
    title = f"{NAME} against the best simple rule, with 95 % intervals"
    columns = ("series", "min", "rule", "ratio", "interval", "")
    return Listing(f"{title}; the lowest and the highest" if cut else title, columns, rows)


def _verdict(low: float, high: float) -> str:
    if high < 1:
        return "better"
    return "worse" if low > 1 else "no difference shown"


def spikes(scores: Sequence[SpikeScore]) -> Listing:
    """Doublings that were forecast, and false alarms."""
    many = len({score.series for score in scores} - {ALL_SERIES}) > SHOWN_SERIES
    rows = [
        (
            Text(score.series),
            Text(score.model),
            Text(f"{score.by} x {FACTORS[score.by]:g}"),
            Text(_share(score.announced_found, score.announced) + _interval(score)),
            Text(_share(score.unannounced_found, score.unannounced)),
            Text(f"{score.false_alarms_per_day:.2f}"),
        )
        for score in scores
        # Of many series only the pooled scores, or the table would have hundreds of rows.
        if score.series == ALL_SERIES or not many
    ]
    columns = ("series", "model", "by", "announced", "unannounced", "false/day")
    return Listing("Doublings forecast at least 10 minutes ahead", columns, rows)


def _share(found: int, of: int) -> str:
    return f"{found}/{of} ({found / of:.0%})" if of else "none"


def _interval(score: SpikeScore) -> str:
    found = score.recall_interval
    return f" [{found[0]:.0%}, {found[1]:.0%}]" if found else ""
