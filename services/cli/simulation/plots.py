"""Plots of a run's report, as SVG in the text colour of the page, so that dark pages work."""

from collections.abc import Sequence
from typing import Final

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from models.cluster.arrays import F64, I32
from models.sim.config.timeline import announcements
from models.sim.results.findings import Finding
from models.sim.results.recording import Recording
from models.sim.results.spans import Span, event_spans
from models.sim.world import World
from services.cli.page import INK, PLOT_STYLE, drawing

_LANES: Final = (("announced", "#8b93a1"), ("events", "#d9a514"), ("failures", "#e5484d"))
_FIRST_MINUTES: Final = 5


def timeline_svg(world: World, recording: Recording, findings: Sequence[Finding]) -> str:
    """All figures over one time axis, one panel below the other."""
    # A fixed salt: with random ids in the SVG, two reports of the same run would differ.
    with mpl.rc_context({"svg.hashsalt": "timeline"}, str(PLOT_STYLE)):
        figure = Figure(figsize=(10.5, 15.5))
        figure.subplots_adjust(left=0.08, right=0.99, top=0.985, bottom=0.035, hspace=0.26)
        heights = [1.5, 2, 2, 2, 2, 2, 2, 2]
        axes = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights)
        domains, pools = world.cluster.domain_names, world.cluster.pool_names
        base = _demand_base(world, recording)
        labels = [f"{name} ({rps:,.0f}/s)" for name, rps in zip(domains, base, strict=True)]
        _lanes(axes[0], world, findings)
        axes[1].set_title("demand, over its mean of the first five minutes (in brackets)")
        _lines(axes[1], world, recording.rps / base, labels)
        axes[2].set_title("p99 over target, traffic-weighted (log scale; above 1 is too slow)")
        _lines(axes[2], world, recording.p99_over_target)
        axes[2].set_yscale("log")
        # `_lines` has set linear limits, which may include zero.
        axes[2].autoscale(axis="y")
        axes[2].axhline(1, color=INK, linewidth=0.8, linestyle=":")
        axes[3].set_title("violating requests, %")
        _lines(axes[3], world, 100 * recording.violating)
        axes[4].set_title("pods without a node")
        _lines(axes[4], world, recording.pending)
        axes[5].set_title("nodes ready")
        _lines(axes[5], world, recording.nodes_ready, pools)
        axes[6].set_title("nodes on their way (booting, or requested from the cloud)")
        _lines(axes[6], world, recording.nodes_booting + recording.nodes_asked)
        axes[7].set_title("CPU of the ready nodes: held by each domain's pods, and in use, %")
        _lines(axes[7], world, 100 * recording.held)
        used = 100 * recording.cpu_use
        axes[7].plot(_minutes(world), used, color=INK, linestyle="--", label="in use, all")
        axes[7].set_ylim(0, 105)
        axes[7].legend(loc="upper left")
        for axis in axes[1:]:
            _mark(axis, world, findings)
        axes[-1].set_xlabel("minutes from the accounted start (warm-up before 0)")
        axes[0].set_xlim(*_minutes(world)[[0, -1]])
        return drawing(figure)


def waits_svg(world: World, environment: int = 0) -> str:
    """Histogram of the time from need to ready, by domain."""
    with mpl.rc_context({"svg.hashsalt": "waits"}, str(PLOT_STYLE)):
        figure = Figure(figsize=(10.5, 2.9))
        figure.subplots_adjust(left=0.08, right=0.99, top=0.9, bottom=0.18, wspace=0.28)
        waits = world.accounts.waits[environment]
        used = np.flatnonzero(waits.sum(axis=0))
        last = int(used[-1]) + 1 if used.size else 2
        seconds = np.arange(last) * world.cluster.tick_seconds
        columns = figure.subplots(1, waits.shape[0], sharex=True, squeeze=False)[0]
        for d, (axis, name) in enumerate(zip(columns, world.cluster.domain_names, strict=True)):
            width = world.cluster.tick_seconds
            axis.bar(seconds, waits[d, :last], width, color=f"C{d}")
            # A few late pods would be invisible beside thousands of early ones.
            axis.set_yscale("symlog", linthresh=10)
            axis.set_ylim(bottom=0)
            axis.set_title(name)
            axis.set_xlabel("seconds")
        columns[0].set_ylabel("pods")
        return drawing(figure)


def _minutes(world: World) -> F64:
    return _to_minutes(world, range(world.timeline.total_ticks))


def _to_minutes(world: World, ticks: Sequence[float]) -> F64:
    since = np.asarray(ticks, np.float64) - world.timeline.warmup_ticks
    return since * world.cluster.tick_seconds / 60


def _demand_base(world: World, recording: Recording) -> F64:
    first = world.timeline.warmup_ticks
    mean = recording.rps[first : first + round(world.timeline.ticks(_FIRST_MINUTES))].mean(axis=0)
    return np.asarray(np.maximum(mean, 1e-9))


def _lines(axis: Axes, world: World, values: F64 | I32, names: Sequence[str] = ()) -> None:
    """One line per column; the y range fits the accounted part, not the warm-up."""
    for column in range(values.shape[1]):
        label = names[column] if names else None
        axis.plot(_minutes(world), values[:, column], label=label)
    counted = values[world.timeline.warmup_ticks :]
    low, high = float(counted.min()), float(counted.max())
    # Leave space for the legend above the lines.
    axis.set_ylim(low - 0.05 * (high - low), high + (0.3 if names else 0.05) * (high - low) + 1e-3)
    if names:
        axis.legend(ncols=6, loc="upper left")


def _lanes(axis: Axes, world: World, findings: Sequence[Finding]) -> None:
    """Announcements, events and failures as labelled bars."""
    announced = announcements(world.scenario.calendar, world.cluster.domain_names, world.timeline)
    lanes = (
        [Span(entry.name, entry.start_tick, entry.end_tick) for entry in announced],
        event_spans(world),
        [Span(found.name, found.tick, found.last_tick + 1) for found in findings],
    )
    row = 0
    ticks = []
    for (label, colour), spans in zip(_LANES, lanes, strict=True):
        ticks.append((row + max(len(spans) - 1, 0) / 2, label))
        for span in spans:
            start, end = _to_minutes(world, (span.start, span.end))
            # An event of one tick would be too narrow to see.
            width = max(end - start, 0.3)
            axis.barh(row, width, left=start, height=0.7, color=colour, alpha=0.75)
            axis.annotate(span.name, (start, row), (3, 0), textcoords="offset points",
                          va="center", fontsize=8, annotation_clip=True)  # fmt: skip
            row += 1
        row += 0 if spans else 1
    axis.set_yticks([row for row, _ in ticks], [label for _, label in ticks])
    axis.set_ylim(row - 0.5, -0.5)
    axis.grid(visible=False)
    axis.set_title("announcements, events, failures")


def _mark(axis: Axes, world: World, findings: Sequence[Finding]) -> None:
    start = _to_minutes(world, (0,))[0]
    axis.axvspan(start, 0, color="#8882", linewidth=0)
    for span in event_spans(world):
        left, right = _to_minutes(world, (span.start, span.end))
        axis.axvspan(left, max(right, left + 0.1), color=_LANES[1][1], alpha=0.1, linewidth=0)
    for found in findings:
        at = _to_minutes(world, (found.tick,))[0]
        axis.axvline(at, color=_LANES[2][1], linewidth=0.9, linestyle="--")
