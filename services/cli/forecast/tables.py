"""The figures of forecasts as tables, for a terminal and for a page alike."""

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from rich.markup import escape
from rich.table import Table

from models.forecaster.learned.artefact import NAME
from models.forecaster.port import HORIZONS_MIN
from models.forecaster.score.contest import Contest
from models.forecaster.score.headline import Cell
from models.forecaster.score.metrics import Row
from models.forecaster.score.spikes import ALL_SERIES, FACTORS, SpikeScore
from services.cli.forecast.result import Result
from services.cli.output import table

SHOWN_SERIES: Final = 8
"""Files with more have their extremes shown; the rest is in the JSON file."""
IN_BAND: Final = (0.75, 0.85)
"""Coverage that an 80 % interval may have where it is served."""
READING: Final = (
    "P50 q-risk and, in brackets, its ratio to the best simple rule (last, mean5, mean15, day, "
    "week); * is the best; in is the share of values within the 80 % interval, ! marks one "
    f"of the served model outside {IN_BAND[0]:.0%} to {IN_BAND[1]:.0%}"
)
_NONE: Final = "-"
Mark = Literal["", "best", "bad"]


class Text(NamedTuple):
    """A cell, and whether it stands out."""

    text: str
    mark: Mark = ""


class Listing(NamedTuple):
    """A table before it is set."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[Text, ...]]


def set_table(listing: Listing) -> Table:
    """For a terminal."""
    styles = {"": "{}", "best": "[bold green]{}[/bold green]", "bad": "[red]{}[/red]"}
    rows = [[styles[cell.mark].format(escape(cell.text)) for cell in row] for row in listing.rows]
    made = table(escape(listing.title), listing.columns, rows)
    for column in made.columns:
        column.overflow = "fold"
    for column in made.columns[1:]:
        column.justify = "right"
    return made


def listings(result: Result) -> list[Listing]:
    """A table per series where they are few, and the means and extremes of all."""
    few = len(result.contests) <= SHOWN_SERIES
    tables = [of_series(each) for each in result.contests] if few else []
    if len(result.contests) > 1:
        tables.append(headline(result))
    tables += [significance(result)] if any(each.significance for each in result.contests) else []
    return tables + ([spikes(result.spikes)] if result.spikes else [])


def of_series(contest: Contest) -> Listing:
    """Every model on one series, horizon beside horizon."""
    name, served = contest.outcome.series.name, contest.served
    columns = [f"{horizon} min" for horizon in HORIZONS_MIN]
    rows = []
    for model in contest.outcome.forecasts:
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
    """Whether the learned model is better than the best rule, or was lucky."""
    found = [each for contest in result.contests for each in contest.significance]
    cut = len(result.contests) > SHOWN_SERIES
    by_ratio = sorted(found, key=lambda each: each.ratio.value)
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
    """Doublings that were seen coming, and alarms that nothing followed."""
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
        if score.series == ALL_SERIES or not many
    ]
    columns = ("series", "model", "by", "announced", "unannounced", "false/day")
    return Listing("Doublings forecast at least 10 minutes ahead", columns, rows)


def _share(found: int, of: int) -> str:
    return f"{found}/{of} ({found / of:.0%})" if of else "none"


def _interval(score: SpikeScore) -> str:
    found = score.recall_interval
    return f" [{found[0]:.0%}, {found[1]:.0%}]" if found else ""
