"""The live view of a run: redrawn on a terminal, occasional lines elsewhere."""

from collections.abc import Callable
from typing import Protocol, Self

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from models.cluster.arrays import F64
from models.cluster.calendar import DAY_MINUTES, WEEK_MINUTES
from models.sim.config.timeline import WEEKDAYS
from models.sim.results.findings import Finding
from models.sim.results.recording import Recording
from models.sim.world import World
from services.cli.live_frame import LiveFrame
from services.cli.output import flagged, short, table

_BARS = "▁▂▃▄▅▆▇█"
_SPARK_MINUTES = 12
_LINE_EVERY_MINUTES = 10
_FRAME_S = 0.1
_FAILURES_SHOWN = 3


class View(Protocol):
    """Shows a run, on a terminal or in a log file."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def show(self, recording: Recording, tick: int, begun: list[Finding]) -> None:
        """Show a finished tick and the failures that begin in it."""
        ...


class PlainView:
    """One line every ten simulated minutes, and one for each failure."""

    def __init__(self, console: Console, world: World, controller: str) -> None:
        self._console, self._world = console, world
        self._every = round(world.timeline.ticks(_LINE_EVERY_MINUTES))
        self._print(headline(world, controller))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, recording: Recording, tick: int, begun: list[Finding]) -> None:
        """Print the lines that are due."""
        when = clock(self._world, tick)
        for finding in begun:
            self._print(f"{when}  {finding.name.upper()}: {finding.explanation}")
        # Ticks count from 0, and a line is about the ten minutes that have just ended.
        if (tick + 1) % self._every == 0:
            self._print(f"{when}  {self._line(recording, tick)}")

    def _line(self, recording: Recording, tick: int) -> str:
        domains = "; ".join(
            f"{name} {recording.rps[tick, d]:,.0f}/s, {recording.violating[tick, d]:.1%} violating,"
            f" {recording.pending[tick, d]:,} pending"
            for d, name in enumerate(self._world.cluster.domain_names)
        )
        nodes = recording.nodes_ready[tick].sum()
        coming = recording.nodes_booting[tick].sum() + recording.nodes_asked[tick].sum()
        return f"{domains}; nodes {nodes:,} ready, {coming:,} coming"

    def _print(self, text: str) -> None:
        self._console.print(text, soft_wrap=True, highlight=False, markup=False)


class Pace:
    """When to draw, and how long to wait so that a person can follow."""

    def __init__(
        self, pause_s: float, now: Callable[[], float], sleep: Callable[[float], None]
    ) -> None:
        self._pause_s, self._now, self._sleep = pause_s, now, sleep
        self._started = self._drawn_at = 0.0

    def start(self) -> None:
        """Set the time of the first tick to now."""
        self._started = self._now()

    @property
    def frame_is_due(self) -> bool:
        """Whether the last frame has been visible long enough."""
        return self._now() - self._drawn_at >= _FRAME_S

    def drawn(self) -> None:
        """Record that a frame was drawn now."""
        self._drawn_at = self._now()

    def wait(self, ticks: int) -> None:
        """Sleep if `ticks` ticks took less time than they should."""
        # Against the start, not the last tick: a slow frame is made up for by the following ticks.
        ahead = self._started + ticks * self._pause_s - self._now()
        if ahead > 0:
            self._sleep(ahead)


def pause_of(tick_s: float, minutes_per_s: float) -> float:
    """Seconds that a tick should take at a speed in simulated minutes per second; 0: no wait."""
    return tick_s / 60 / minutes_per_s if minutes_per_s > 0 else 0.0


class PacedFrame:
    """The frame of a simulated run: its headline, and ticks at a pace that a person can follow."""

    def __init__(self, console: Console, world: World, controllers: str, pace: Pace) -> None:
        self._world, self._pace = world, pace
        self._title = Text(headline(world, controllers), style="bold")
        self._frame = LiveFrame(console, world.timeline.total_ticks)

    def start(self) -> None:
        """Begin to draw, and to measure the pace."""
        self._frame.start()
        self._pace.start()

    def stop(self) -> None:
        """Leave the last drawing on the terminal."""
        self._frame.stop()

    def show(self, tick: int, urgent: bool, render: Callable[[], RenderableType]) -> None:
        """Redraw when a frame is due, and wait when the run is ahead of its pace."""
        timeline = self._world.timeline
        # The last tick is always drawn: its figures stay on the terminal.
        last = tick + 1 == timeline.total_ticks
        if last or urgent or self._pace.frame_is_due:
            phase = "warm-up" if tick < timeline.warmup_ticks else "accounted"
            content = Group(self._title, render())
            self._frame.draw(content, tick + 1, f"{clock(self._world, tick)} {phase}")
            self._pace.drawn()
        self._pace.wait(tick + 1)


class LiveView:
    """Domains, pools and failures, redrawn several times a second."""

    def __init__(
        self,
        console: Console,
        world: World,
        controller: str,
        pause_s: float,
        now: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self._world = world
        self._frame = PacedFrame(console, world, controller, Pace(pause_s, now, sleep))
        self._failures: list[Text] = []

    def __enter__(self) -> Self:
        self._frame.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._frame.stop()

    def show(self, recording: Recording, tick: int, begun: list[Finding]) -> None:
        """Redraw when a frame is due, and wait when the run is ahead of its pace."""
        when = clock(self._world, tick)
        for finding in begun:
            line = Text.assemble((f"{when} {finding.name}: ", "bold red"), finding.explanation)
            self._failures.append(line)
        self._frame.show(tick, bool(begun), lambda: self._render(recording, tick))

    def _render(self, recording: Recording, tick: int) -> RenderableType:
        return Group(
            domain_table(self._world, recording, tick),
            pool_table(self._world, recording, tick),
            *self._failures[-_FAILURES_SHOWN:],
        )


def headline(world: World, controller: str) -> str:
    """Scenario, controller, size and seed, and what the scenario shows."""
    scenario = world.scenario
    return (
        f"{scenario.name} under {controller}, {world.given.apps.size:,} apps, "
        f"seed {world.state.env['seed'][0]}: {scenario.shows}"
    )


def clock(world: World, tick: int) -> str:
    """Weekday and time at which a tick ends."""
    minute = world.timeline.start_minute_of_week + (tick + 1) * world.cluster.tick_seconds // 60
    day, minute = divmod(minute % WEEK_MINUTES, DAY_MINUTES)
    return f"{WEEKDAYS[day]} {minute // 60:02d}:{minute % 60:02d}"


def domain_table(world: World, recording: Recording, tick: int) -> Table:
    """Demand, latency and pods of each domain."""
    columns = (
        "domain", "", "demand\n/s", f"last {_SPARK_MINUTES} min", "p99/\ntarget",
        "violating", "ready", "pending",
    )  # fmt: skip
    rows = [
        (
            domain.name,
            domain.priority,
            short(float(recording.rps[tick, d])),
            sparkline(recording.rps[: tick + 1, d], round(world.timeline.ticks(1))),
            flagged(recording.p99_over_target[tick, d], 1.0, "{:.2f}"),
            flagged(recording.violating[tick, d], 0.01, "{:.1%}"),
            f"{recording.ready[tick, d]:,}",
            flagged(recording.pending[tick, d], 0, "{:,.0f}"),
        )
        for d, domain in enumerate(world.cluster.domains)
    ]
    result = table("", columns, rows)
    # A long name is folded, so that numbers keep their width at 80 columns.
    result.columns[0].overflow = "fold"
    for column in result.columns[1:]:
        column.no_wrap = True
    for index in (2, 4, 5, 6, 7):
        result.columns[index].justify = "right"
    return result


def pool_table(world: World, recording: Recording, tick: int) -> Table:
    """Nodes of each pool: ready, booting, and requested from the cloud."""
    nodes = {
        "ready": recording.nodes_ready,
        "booting": recording.nodes_booting,
        "requested": recording.nodes_asked,
    }
    rows = [(name, *counts[tick].tolist()) for name, counts in nodes.items()]
    return table("", ("nodes", *world.cluster.pool_names), rows)


def sparkline(values: F64, every: int, bars: int = _SPARK_MINUTES) -> str:
    """One bar per `every` values, the latest last, scaled to the highest so far."""
    # Backwards, so that the newest value always has a bar.
    recent = values[::-1][::every][:bars][::-1]
    scale = max(float(values.max()), 1e-9)
    return "".join(_BARS[int((len(_BARS) - 1) * value / scale + 0.5)] for value in recent)
