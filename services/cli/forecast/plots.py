"""Plots of a comparison of forecasts, as SVG in the text colour of the page."""

from collections.abc import Callable
from typing import Final

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from models.cluster.arrays import F64
from models.cluster.calendar import DAY_MINUTES
from models.forecaster.port import HIGH, HORIZONS_MIN, LOW, MEDIAN, QUANTILES
from models.forecaster.score.contest import Contest
from models.forecaster.score.peers.floors import mean_of_last
from services.cli.forecast.tables import Result
from services.cli.page import INK, PLOT_STYLE, drawing

_WIDTH: Final = 11.0
_MOST_DAYS: Final = 3
"""Series of which a day is plotted."""
_RISE_MIN: Final = 30
_LARGEST: Final = 2.0
"""Larger ratios are cut off: how much worse doesn't matter."""
Draw = Callable[[Figure], None]


def ratios_svg(result: Result) -> str:
    """A panel per horizon, a bar per model."""
    models = [name for name in result.models if any(m.model == name for m in result.headline)]

    def draw(figure: Figure) -> None:
        panels = figure.subplots(1, len(HORIZONS_MIN), sharey=True)
        for axis, horizon in zip(panels, HORIZONS_MIN, strict=True):
            means = {m.model: m.ratio for m in result.headline if m.horizon_min == horizon}
            values = [min(means.get(name, np.nan), _LARGEST) for name in models]
            colours = ["C2" if value < 1 else "C1" for value in values]
            axis.barh(models, values, color=colours, height=0.7)
            axis.axvline(1, color=INK, linewidth=0.8, linestyle=":")
            axis.set_title(f"{horizon} minutes ahead")
        panels[0].invert_yaxis()

    return _svg("ratios", 0.8 + 0.25 * len(models), draw)


def calibration_svg(result: Result) -> str:
    """A panel per horizon, a line per model through its three quantiles."""

    def draw(figure: Figure) -> None:
        panels = figure.subplots(1, len(HORIZONS_MIN), sharey=True)
        for index, (axis, horizon) in enumerate(zip(panels, HORIZONS_MIN, strict=True)):
            axis.plot([0, 1], [0, 1], color=INK, linewidth=0.8, linestyle=":")
            for model in result.models:
                forecasts = [
                    (each, each.evaluation.forecasts.get(model)) for each in result.contests
                ]
                _reliability(
                    axis, [pair for pair in forecasts if pair[1] is not None], index, model
                )
            _reliability(axis, [(c, _served(c)) for c in result.contests], index, "served")
            axis.set_title(f"{horizon} minutes ahead")
            axis.set_xlabel("quantile")
        panels[0].set_ylabel("share of values below it")
        panels[-1].legend(loc="lower right", fontsize=7)

    return _svg("calibration", 3.8, draw)


def days_svg(result: Result) -> str:
    """A row per series, a panel per horizon."""
    # The days with the largest rises: that is where forecasts differ.
    chosen = sorted(result.contests, key=lambda each: -_largest_rise(each)[1])[:_MOST_DAYS]

    def draw(figure: Figure) -> None:
        grid = figure.subplots(len(chosen), len(HORIZONS_MIN), sharey="row", squeeze=False)
        for row, contest in zip(grid, chosen, strict=True):
            for index, axis in enumerate(row):
                _day(axis, contest, index)
            row[0].set_ylabel(contest.evaluation.series.name[:28])

    return _svg("days", 0.5 + 2.6 * len(chosen), draw)


def _reliability(
    axis: Axes, forecasts: list[tuple[Contest, F64 | None]], index: int, label: str
) -> None:
    below = [
        contest.evaluation.windows.target[:, index, None] <= forecast[:, index]
        for contest, forecast in forecasts
        if forecast is not None
    ]
    valid = [
        ~np.isnan(contest.evaluation.windows.target[:, index])
        & ~np.isnan(forecast[:, index, MEDIAN])
        for contest, forecast in forecasts
        if forecast is not None
    ]
    if not any(each.any() for each in valid):
        return
    share = np.concatenate([b[k] for b, k in zip(below, valid, strict=True)]).mean(axis=0)
    style = {"color": INK, "linewidth": 2.4} if label == "served" else {"linewidth": 0.9}
    axis.plot(QUANTILES, share, "o-", markersize=3, label=label, **style)


def _day(axis: Axes, contest: Contest, index: int) -> None:
    series, windows, horizon = (
        contest.evaluation.series,
        contest.evaluation.windows,
        HORIZONS_MIN[index],
    )
    middle = _largest_rise(contest)[0]
    first, end = middle - DAY_MINUTES // 2, middle + DAY_MINUTES // 2
    minutes = np.arange(max(0, first), min(end, series.rps.size))
    hours = (minutes + series.origin_min) / 60
    base = hours[0] // 24 * 24
    axis.plot(hours - base, series.rps[minutes], color=INK, linewidth=0.9)
    about = windows.at + horizon
    shown = (about >= minutes[0]) & (about <= minutes[-1])
    forecast = _served(contest)[shown, index]
    when = (about[shown] + series.origin_min) / 60 - base
    axis.plot(when, forecast[:, MEDIAN], color="C0", linewidth=0.9)
    axis.fill_between(
        when, forecast[:, LOW], forecast[:, HIGH], color="C0", alpha=0.25, linewidth=0
    )
    for entry in series.calendar:
        if minutes[0] <= entry.start_min <= minutes[-1]:
            start = (entry.start_min + series.origin_min) / 60 - base
            axis.axvline(start, color="C3", linewidth=0.8, linestyle="--")
    axis.set_title(f"{contest.served.model}, {horizon} minutes ahead")
    axis.set_xlabel("hour of the day")


def _served(contest: Contest) -> F64:
    return contest.evaluation.forecasts[contest.served.model]


def _largest_rise(contest: Contest) -> tuple[int, float]:
    """The minute of the test after which the five-minute mean rises most, and by how much."""
    at, rps = contest.evaluation.windows.at, contest.evaluation.series.rps
    later = np.minimum(at + _RISE_MIN, rps.size - 1)
    # Gaps count as no rise.
    rise = np.nan_to_num(mean_of_last(rps, later, 5) - mean_of_last(rps, at, 5))
    index = int(np.argmax(rise))
    return int(at[index]), float(rise[index] / max(float(np.nanmean(rps[at])), 1e-9))


def _svg(name: str, height: float, draw: Draw) -> str:
    # A fixed salt: with random ids in the SVG, two reports of the same run would differ.
    with mpl.rc_context({"svg.hashsalt": name}, str(PLOT_STYLE)):
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
        draw(figure)
        return drawing(figure)
