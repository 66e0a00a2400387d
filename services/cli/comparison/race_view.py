"""The live view of a race: a column per controller on a terminal, occasional lines elsewhere."""

from collections.abc import Sequence
from typing import Final, Protocol, Self

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.text import Text

from models.cluster.description import PRIORITIES
from models.compare.race import LaneSnapshot, Race, StartedFailure
from services.cli.comparison.race_tables import UNKNOWN, columns
from services.cli.output import flagged
from services.cli.simulation.live import Pace, PacedFrame, clock, headline, sparkline

_LINE_EVERY_MINUTES: Final = 10
_BARS: Final = 40
"""Minutes of demand that the view shows."""


class View(Protocol):
    """Shows a race, on a terminal or in a log file."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def show(self, race: Race, begun: Sequence[StartedFailure]) -> None:
        """Show a finished tick and the failures that begin in it."""
        ...


class PlainView:
    """A line per controller every ten simulated minutes, and one for each failure."""

    def __init__(self, console: Console, race: Race) -> None:
        self._console = console
        self._every = round(race.world.timeline.ticks(_LINE_EVERY_MINUTES))
        self._print(headline(race.world, _names(race)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, race: Race, begun: Sequence[StartedFailure]) -> None:
        """Print the lines that are due."""
        when = clock(race.world, race.world.tick - 1)
        for controller, finding in begun:
            self._print(f"{when}  {controller}: {finding.name.upper()}: {finding.explanation}")
        if race.world.tick % self._every == 0:
            # From outside the cluster, so equal in all lanes.
            demand = race.lanes[0].demand()[-1]
            for lane in race.lanes:
                self._print(f"{when}  {lane.name}: {_line(lane.snapshot(), demand)}")

    def _print(self, text: str) -> None:
        # Without `emoji=False` rich would print `:calendar:` as an emoji.
        self._console.print(text, soft_wrap=True, highlight=False, markup=False, emoji=False)


class LiveView:
    """Demand, the controllers side by side and their failures, redrawn several times a second."""

    def __init__(self, console: Console, race: Race, pace: Pace) -> None:
        self._frame = PacedFrame(console, race.world, _names(race), pace)
        self._failures: dict[str, list[str]] = {lane.name: [] for lane in race.lanes}

    def __enter__(self) -> Self:
        self._frame.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._frame.stop()

    def show(self, race: Race, begun: Sequence[StartedFailure]) -> None:
        """Redraw when a frame is due, and wait when the race is ahead of its pace."""
        tick = race.world.tick - 1
        when = clock(race.world, tick)
        for controller, finding in begun:
            # Only the time: the bar shows the weekday.
            self._failures[controller].append(f"{finding.name} {when.split()[1]}")
        self._frame.show(tick, bool(begun), lambda: self._render(race))

    def _render(self, race: Race) -> RenderableType:
        snapshots = {lane.name: lane.snapshot() for lane in race.lanes}
        cells = [_cells(snapshot) for snapshot in snapshots.values()]
        rows = [(label, *(found[label] for found in cells)) for label in cells[0]]
        return Group(
            _demand(race),
            columns("", tuple(snapshots), rows),
            *(self._failure_line(name) for name in snapshots),
        )

    def _failure_line(self, name: str) -> Text:
        names = ", ".join(self._failures[name])
        return Text.assemble(f"{name}: ", (names, "bold red") if names else ("no failure", "dim"))


def play(race: Race, view: View) -> None:
    """Run all lanes to their end and show each tick."""
    with view:
        while not race.finished:
            view.show(race, race.step())


def _names(race: Race) -> str:
    return ", ".join(lane.name for lane in race.lanes)


def _demand(race: Race) -> Text:
    demand = race.lanes[0].demand()
    bars = sparkline(np.array(demand), round(race.world.timeline.ticks(1)), _BARS)
    return Text(f"P0 demand {demand[-1]:,.0f}/s {bars}")


def _cells(snapshot: LaneSnapshot) -> dict[str, str]:
    """The cells of a column, by the label of their row."""
    counted = snapshot.counted
    minutes = {
        f"{name} minutes": UNKNOWN if counted is None else f"{counted.violation_minutes[name]:,.1f}"
        for name in PRIORITIES
    }
    return {
        "P0 violating now": flagged(snapshot.p0_violating, 0.01, "{:.1%}"),
        "P0 p99/target": flagged(snapshot.p0_p99, 1.0, "{:.2f}"),
        **minutes,
        "pods pending": flagged(snapshot.pending, 0, "{:,.0f}"),
        "nodes (+coming)": f"{snapshot.nodes_ready:,} (+{snapshot.nodes_coming:,})",
        "actions": UNKNOWN if counted is None else f"{counted.scaling_actions:,}",
        "J": UNKNOWN if counted is None else f"{counted.objective:,.1f}",
    }


def _line(snapshot: LaneSnapshot, demand: float) -> str:
    counted = snapshot.counted
    now = (
        f"P0 demand {demand:,.0f}/s, {snapshot.p0_violating:.1%} violating, "
        f"p99/target {snapshot.p0_p99:.2f}; {snapshot.pending:,} pods pending; "
        f"nodes {snapshot.nodes_ready:,} ready, {snapshot.nodes_coming:,} coming"
    )
    if counted is None:
        return f"{now}; warm-up"
    minutes = ", ".join(f"{name} {counted.violation_minutes[name]:,.1f}" for name in PRIORITIES)
    return (
        f"{now}; violation minutes {minutes}; {counted.scaling_actions:,} actions; "
        f"J {counted.objective:,.1f}"
    )
