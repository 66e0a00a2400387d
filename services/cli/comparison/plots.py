"""Plots of the comparison, as SVG in the text colour of the page."""

from collections.abc import Callable, Sequence
from typing import Final

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from models.cluster.description import PRIORITIES
from models.compare.frontier import Families, KnobPoint
from models.compare.jobs import Timeline
from models.compare.sensitivity import CellFigures
from models.compare.standings import F64, FrontierPoint, Standing
from models.statistics import Interval
from services.cli.comparison.tables import grouped
from services.cli.page import INK, PLOT_STYLE, drawing

_WIDTH: Final = 11.0
_MARKERS: Final = "osD^vP*X<>"
_ROWS: Final = (
    ("demand", "P0 demand, 1,000/s", 0.001),
    ("ready", "P0 pods ready", 1.0),
    ("p99_over_target", "P0 p99 over target", 1.0),
    ("violating", "P0 violating, %", 100.0),
    ("pending", "pods without a node", 1.0),
    ("nodes", "nodes ready", 1.0),
)
"""Attribute of a timeline, its label, and a factor."""


def timeline_svg(timelines: dict[str, Timeline]) -> str:
    """One column per controller, one row per figure; rows share their scale."""

    def draw(figure: Figure) -> None:
        grid = figure.subplots(len(_ROWS), len(timelines), sharex=True, sharey="row", squeeze=False)
        for column, (name, timeline) in enumerate(timelines.items()):
            grid[0, column].set_title(name)
            for row, (attribute, label, factor) in enumerate(_ROWS):
                axis, values = grid[row, column], np.array(getattr(timeline, attribute))
                axis.plot(timeline.minutes, factor * values, color=f"C{row}")
                axis.axvspan(timeline.minutes[0], 0, color="#8882", linewidth=0)
                if column == 0:
                    axis.set_ylabel(label)
            # The row of p99 over target.
            grid[2, column].axhline(1, color=INK, linewidth=0.8, linestyle=":")
            grid[-1, column].set_xlabel("minutes")

    return _svg("timeline", 11, 0.75, draw)


def violations_svg(standings: Sequence[Standing]) -> str:
    """A panel per priority, a bar per controller with the interval of its mean."""

    def draw(figure: Figure) -> None:
        axes = figure.subplots(1, len(PRIORITIES), sharey=True)
        for axis, priority in zip(axes, PRIORITIES, strict=True):
            means = [row.violation_minutes[priority] for row in standings]
            spread = np.abs([[m.value - m.low, m.high - m.value] for m in means]).T
            _bars(axis, standings, [m.value for m in means], np.nan_to_num(spread))
            axis.set_title(f"{priority} violation minutes")

    return _svg("violations", _height(standings), _label_width(standings), draw)


def oscillation_svg(standings: Sequence[Standing]) -> str:
    """Reversals, loops and number of actions."""
    return _panels(
        "oscillation",
        standings,
        {
            "reversals, % of actions": [100 * row.oscillation_rate for row in standings],
            "loops per day": [row.loops_per_day for row in standings],
            "actions": [row.actions for row in standings],
        },
    )


def held_svg(standings: Sequence[Standing]) -> str:
    """CPU held by P3 while P0 waited, and how long P0 waited."""
    return _panels(
        "held",
        standings,
        {
            "CPU held by P3 while P0 waits, %": [
                100 * row.p3_share_while_p0_waits for row in standings
            ],
            "ticks in which P0 waits": [row.p0_wait_ticks for row in standings],
        },
    )


def frontier_svg(standings: Sequence[Standing], points: Sequence[FrontierPoint]) -> str:
    """A panel per scenario for P0 minutes, and one more for PW in the last of them."""
    groups = grouped(standings)
    panels = [(name, "P0 minutes") for name in groups] + [(list(groups)[-1], "PW")]
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    height = 0.6 + 2.9 * rows

    def draw(figure: Figure) -> None:
        figure.subplots_adjust(top=1 - 0.75 / height, hspace=0.42, wspace=0.24)
        grid = figure.subplots(rows, columns, squeeze=False).ravel()
        for axis, (scenario, label) in zip(grid, panels, strict=False):
            line = sorted((p for p in points if p.scenario == scenario), key=_cost)
            levels = [p.pw if label == "PW" else p.p0_minutes for p in line]
            axis.plot([p.node_hours for p in line], levels, ".-", color="#8b93a1")
            for index, row in enumerate(groups[scenario]):
                level = row.pw if label == "PW" else row.violation_minutes["P0"].value
                _dot(axis, row, index, level)
            # A plain logarithm is infinite for controllers without violations.
            axis.set_yscale("function", functions=(_squeezed, np.expm1))
            axis.margins(0.12)
            axis.set_title(scenario)
            axis.set_xlabel("node-hours")
            axis.set_ylabel(label)
        for axis in grid[len(panels) :]:
            axis.set_visible(False)
        handles, labels = grid[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="upper center", ncols=5)

    return _svg("frontier", height, 0.75, draw)


def families_svg(families: Families) -> str:
    """Lines of the families over their knobs: P0 minutes, PW and J against node-hours."""
    panels = {
        "P0 minutes": lambda point: point.violation_minutes["P0"],
        "PW": lambda point: point.pw,
        "J": lambda point: point.objective,
    }

    def draw(figure: Figure) -> None:
        figure.subplots_adjust(top=1 - 0.75 / 4.0, wspace=0.3)
        axes = figure.subplots(1, len(panels))
        for axis, (label, of) in zip(axes, panels.items(), strict=True):
            for index, (name, points) in enumerate(families.items()):
                hours, levels = _sums_by_knob(points, of)
                axis.plot(hours, levels, f"{_MARKERS[index]}-", color=f"C{index}", label=name)
            axis.set_yscale("function", functions=(_squeezed, np.expm1))
            axis.set_xlabel("node-hours")
            axis.set_ylabel(label)
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="upper center", ncols=5)

    return _svg("families", 4.0, 0.75, draw)


def sensitivity_svg(figures: Sequence[CellFigures]) -> str:
    """Ratios over the reference with their intervals: a row per cell, a panel per figure."""
    panels: dict[str, Callable[[CellFigures], Interval]] = {
        "P0 minutes, ours over theirs": lambda row: row.p0_ratio,
        "J": lambda row: row.objective_ratio,
        "node-hours": lambda row: row.node_hours_ratio,
    }
    cells = list(dict.fromkeys(row.cell for row in figures))
    names = list(dict.fromkeys(row.controller for row in figures))

    def draw(figure: Figure) -> None:
        axes = figure.subplots(1, len(panels), sharey=True)
        for axis, (label, of) in zip(axes, panels.items(), strict=True):
            for index, name in enumerate(names):
                found = [of(row) for row in figures if row.controller == name]
                # Several controllers share a row without covering each other.
                rows = np.arange(len(cells)) + 0.6 * (index + 0.5) / len(names) - 0.3
                values, low, high = np.array([(f.value, f.low, f.high) for f in found]).T
                axis.hlines(rows, low, high, color=f"C{index}")
                axis.plot(values, rows, _MARKERS[index], color=f"C{index}", label=name)
            axis.axvline(1, color=INK, linewidth=0.8, linestyle=":")
            axis.set_title(label)
            axis.set_yticks(range(len(cells)), cells)
            # From top to bottom in the order of the table.
            axis.set_ylim(len(cells) - 0.5, -0.5)
        if len(names) > 1:
            axes[0].legend()

    return _svg("sensitivity", 1.0 + 0.27 * len(cells), 0.3 + 0.068 * max(map(len, cells)), draw)


def _sums_by_knob(
    points: Sequence[KnobPoint], of: Callable[[KnobPoint], float]
) -> tuple[list[float], list[float]]:
    """Node-hours and a figure, by knob: sums over the scenarios, means over the seeds."""
    seeds = len({point.seed for point in points})
    chosen = [
        [point for point in points if point.knob == knob]
        for knob in sorted({point.knob for point in points})
    ]
    hours = [sum(point.node_hours for point in group) / seeds for group in chosen]
    return hours, [sum(of(point) for point in group) / seeds for group in chosen]


def _squeezed(violations: F64) -> F64:
    """log(1 + violations); matplotlib also tries negative ticks, which don't exist."""
    return np.log1p(np.maximum(violations, -0.99))


def _cost(point: FrontierPoint) -> float:
    return point.node_hours


def _dot(axis: Axes, row: Standing, index: int, level: float) -> None:
    marker = _MARKERS[index % len(_MARKERS)]
    axis.plot(row.node_hours, level, marker, color=f"C{index}", label=row.controller)


def _panels(title: str, standings: Sequence[Standing], figures: dict[str, list[float]]) -> str:
    def draw(figure: Figure) -> None:
        axes = figure.subplots(1, len(figures), sharey=True)
        for axis, (label, values) in zip(axes, figures.items(), strict=True):
            _bars(axis, standings, values)
            axis.set_title(label)

    return _svg(title, _height(standings), _label_width(standings), draw)


def _bars(
    axis: Axes,
    standings: Sequence[Standing],
    values: Sequence[float],
    spread: F64 | None = None,
) -> None:
    rows = np.arange(len(standings))
    colours = [f"C{index}" for index in rows]
    axis.barh(rows, values, color=colours, xerr=spread, ecolor=INK, height=0.7)
    axis.set_yticks(rows, [row.controller for row in standings])
    # From top to bottom in the order of the tables.
    axis.set_ylim(len(standings) - 0.5, -0.5)
    axis.tick_params(axis="x", labelrotation=30)


def _height(standings: Sequence[Standing]) -> float:
    return 1.0 + 0.27 * len(standings)


def _label_width(standings: Sequence[Standing]) -> float:
    """Inches for the names left of the bars."""
    return 0.3 + 0.068 * max(len(row.controller) for row in standings)


def _svg(title: str, height: float, left: float, draw: Callable[[Figure], None]) -> str:
    """An SVG element.

    Margins are explicit, in inches: an automatic layout of dozens of panels takes longer than
    drawing them.
    """
    # A fixed salt: with random ids in the SVG, two reports of the same run would differ.
    with mpl.rc_context({"svg.hashsalt": title}, str(PLOT_STYLE)):
        figure = Figure(figsize=(_WIDTH, height))
        figure.subplots_adjust(
            left=left / _WIDTH, right=0.99, bottom=0.55 / height, top=1 - 0.3 / height
        )
        draw(figure)
        return drawing(figure)
