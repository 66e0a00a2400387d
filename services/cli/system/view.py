"""The live view of a system: domains with their budgets, nodes, services, the last changes."""

import time
from collections.abc import Mapping, Sequence
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from services.cli.output import flagged, table
from services.cli.system.picture import Domain, Picture
from services.devcluster.probe import Vitals
from services.devcluster.record import Run, Scene

_FRAME_S: Final = 0.25
_LINE_EVERY_S: Final = 20.0
"""Between lines where nobody watches, or ten simulated minutes, whichever comes first."""
_LINE_EVERY_MINUTES: Final = 10
_UNKNOWN: Final = "-"
_FIRST: Final = "waiting for the first tick (the first run ever compiles kernels: 2 to 4 minutes)"


class Health:
    """What is known of the services: their standings and what they said last."""

    def __init__(self, run: Run | None = None) -> None:
        self.run = run
        """None where all services are in this process."""
        self.vitals: dict[str, Vitals] = {}

    @property
    def failed(self) -> Sequence[str]:
        """A line for each service that was given up."""
        return self.run.failed if self.run else ()


class PlainView:
    """A line now and then, for log files."""

    def __init__(self, console: Console, scene: Scene) -> None:
        self._console, self._scene = console, scene
        self._tick, self._at = -1, time.monotonic()
        self._told: set[str] = set()
        self._print(headline(scene))

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, picture: Picture, health: Health) -> None:
        """Print what is due."""
        for line in health.failed:
            if line not in self._told:
                self._told.add(line)
                self._print(f"given up: {line}")
        if picture.tick < 0 and _FIRST not in self._told:
            self._told.add(_FIRST)
            self._print(_FIRST)
        ticks = _LINE_EVERY_MINUTES * 60 // self._scene.tick_seconds
        waited = time.monotonic() - self._at >= _LINE_EVERY_S
        if picture.closed >= self._tick + ticks or (waited and picture.closed > self._tick):
            self._tick, self._at = picture.closed, time.monotonic()
            self._print(plain_line(picture, self._scene))

    def _print(self, text: str) -> None:
        self._console.print(text, soft_wrap=True, highlight=False, markup=False, emoji=False)


class LiveView:
    """Repainted several times a second."""

    def __init__(self, console: Console, scene: Scene) -> None:
        self._scene = scene
        self._painted = 0.0
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(None), TextColumn("left"),
            TimeRemainingColumn(), console=console, expand=True,
        )  # fmt: skip
        self._task = self._bar.add_task("", total=scene.total_ticks)
        self._live = Live(console=console, auto_refresh=False)

    def __enter__(self) -> None:
        self._live.start()

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, picture: Picture, health: Health) -> None:
        """Repaint when a frame is due."""
        if time.monotonic() - self._painted < _FRAME_S:
            return
        self._painted = time.monotonic()
        done = picture.closed + 1
        self._bar.update(self._task, completed=done, description=when(picture, self._scene))
        self._live.update(painting(picture, health, self._scene, self._bar), refresh=True)


View = PlainView | LiveView


def view_for(console: Console, scene: Scene) -> View:
    """As the place that it is shown in allows."""
    return (LiveView if console.is_terminal else PlainView)(console, scene)


def headline(scene: Scene) -> str:
    """Which run this is."""
    return f"{scene.scenario}, {scene.apps:,} apps, seed {scene.seed}, {scene.pace}"


def when(picture: Picture, scene: Scene) -> str:
    """Event time and tick."""
    if picture.tick < 0:
        return _FIRST
    return f"{picture.time[:10]} {picture.time[11:19]} tick {picture.tick} of {scene.total_ticks}"


def painting(picture: Picture, health: Health, scene: Scene, bar: RenderableType) -> RenderableType:
    """Everything on one screen."""
    parts: list[RenderableType] = [
        Text(headline(scene), style="bold"),
        domain_table(picture),
        Text(nodes_line(picture)),
        Text(outcome_line(picture)),
        *(Text(line, style="dim") for line in picture.changes),
    ]
    if picture.cluster_breaker:
        parts.append(Text(f"breaker of the cluster: {picture.cluster_breaker}", style="bold red"))
    if picture.dead_letters:
        parts.append(Text(f"last dead letter: {picture.last_dead_letter}", style="red"))
    if health.run is not None:
        parts.append(service_table(health.run, health.vitals, time.time()))
    parts += [Text(f"given up: {line}", style="bold red") for line in health.failed]
    return Group(*parts, bar)


def domain_table(picture: Picture) -> Table:
    """How each domain fares, and what it may hold."""
    columns = (
        "domain", "rps", "ready/wanted", "pending", "p99/target", "at risk", "missing",
        "share", "cores held/granted", "urgency", "headroom", "breaker",
    )  # fmt: skip
    rows = [_domain_row(name, domain) for name, domain in picture.domains.items()]
    result = table("", columns, rows)
    for column in range(1, 11):
        result.columns[column].justify = "right"
    return result


def _domain_row(name: str, domain: Domain) -> tuple[str, ...]:
    budget = domain.budget
    held = f"{domain.held:,.0f}"
    return (
        name,
        f"{domain.rps:,.0f}",
        f"{domain.ready:,}/{domain.replicas:,}",
        flagged(domain.pending, 0, "{:,.0f}"),
        flagged(domain.p99_over_target, 1.0, "{:.2f}"),
        flagged(domain.at_risk, 0, "{:.0f}"),
        flagged(domain.missing, 0, "{:.0f}"),
        f"{budget.share:.1%}" if budget else _UNKNOWN,
        f"{held}/{budget.cores:,.0f}" if budget else f"{held}/{_UNKNOWN}",
        f"{budget.urgency:.2f}" if budget else _UNKNOWN,
        f"{budget.headroom:.0%}" if budget else _UNKNOWN,
        _breaker(domain),
    )


def _breaker(domain: Domain) -> str:
    if domain.breaker in ("closed", "?"):
        return domain.breaker
    return f"[red]{domain.breaker}[/red] {domain.breaker_reason}"


def nodes_line(picture: Picture) -> str:
    """Nodes by pool."""
    pools = picture.pools.values()
    return "nodes: " + ", ".join(
        f"{p.pool} {p.ready:,} (+{p.booting + p.requested:,})" for p in pools
    )


def outcome_line(picture: Picture) -> str:
    """What became of all changes so far."""
    found = picture.outcomes
    return (
        f"changes: {found['applied']:,} applied, {found['held']:,} held, "
        f"{found['superseded']:,} superseded; {picture.overruns:,} overruns, "
        f"{picture.dead_letters:,} dead letters"
    )


def service_table(run: Run, vitals: Mapping[str, Vitals], now: float) -> Table:
    """Who runs, since when, how far behind."""
    columns = ("service", "state", "pid", "up", "ready", "lag", "event age", "restarts")
    rows = []
    for spec in run.specs:
        standing, said = run.standing(spec.name), vitals.get(spec.name)
        up = standing.state == "running"
        rows.append(
            (
                spec.name,
                standing.state if up or standing.state == "done" else f"[red]{standing.state}[/]",
                str(standing.process.pid) if standing.process else _UNKNOWN,
                f"{now - standing.since:,.0f} s" if up else _UNKNOWN,
                ("yes" if said.ready else "no") if said and up else _UNKNOWN,
                f"{said.lag:,}" if said and said.lag is not None else _UNKNOWN,
                f"{said.age_s * 1000:,.0f} ms" if said and said.age_s is not None else _UNKNOWN,
                flagged(standing.restarts, 0, "{:.0f}"),
            )
        )
    result = table("", columns, rows)
    for column in range(2, 8):
        result.columns[column].justify = "right"
    return result


def plain_line(picture: Picture, scene: Scene) -> str:
    """Everything that matters in one line."""
    domains = "; ".join(
        f"{name} {domain.rps:,.0f}/s {domain.ready:,}/{domain.replicas:,} ready"
        f" p99/target {domain.p99_over_target:.2f}"
        for name, domain in picture.domains.items()
    )
    return f"{when(picture, scene)}: {domains}; {outcome_line(picture)}"
