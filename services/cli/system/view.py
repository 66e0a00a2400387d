"""The live view of a system: domains with their budgets, nodes, services, recent changes."""

import time
from collections.abc import Mapping, Sequence
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from services.cli.live_frame import LiveFrame
from services.cli.output import flagged, short, table
from services.cli.system.state import DomainState, SystemState
from services.devcluster.probe import ServiceMetrics
from services.devcluster.record import Run, Simulation

_FRAME_S: Final = 0.25
_LINE_EVERY_S: Final = 20.0
"""A log file gets a line after this time or ten simulated minutes, whichever comes first."""
_LINE_EVERY_MINUTES: Final = 10
_UNKNOWN: Final = "-"
_WAITING: Final = "waiting for the first tick"


class Health:
    """Status of the services and their last metrics."""

    def __init__(self, run: Run | None = None) -> None:
        self.run = run
        """None if all services run in this process."""
        self.metrics: dict[str, ServiceMetrics] = {}

    @property
    def failed(self) -> Sequence[str]:
        """A line for each service that won't be restarted."""
        return self.run.failed if self.run else ()


class PlainView:
    """Occasional lines, for log files."""

    def __init__(self, console: Console, simulation: Simulation) -> None:
        self._console, self._simulation = console, simulation
        self._tick, self._at = -1, time.monotonic()
        self._printed: set[str] = set()
        self._print(headline(simulation))

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, state: SystemState, health: Health) -> None:
        """Print failures once, and a summary line when one is due."""
        for line in health.failed:
            # `health` keeps failures, and a log should have each line once.
            if line not in self._printed:
                self._printed.add(line)
                self._print(f"given up: {line}")
        if state.tick < 0 and _WAITING not in self._printed:
            self._printed.add(_WAITING)
            self._print(_WAITING)
        ticks = _LINE_EVERY_MINUTES * 60 // self._simulation.tick_seconds
        # In real time ten simulated minutes are ten minutes: a log should show life before that.
        waited = time.monotonic() - self._at >= _LINE_EVERY_S
        if state.closed >= self._tick + ticks or (waited and state.closed > self._tick):
            self._tick, self._at = state.closed, time.monotonic()
            self._print(plain_line(state, self._simulation))

    def _print(self, text: str) -> None:
        self._console.print(text, soft_wrap=True, highlight=False, markup=False, emoji=False)


class LiveView:
    """A screen that is redrawn several times a second."""

    def __init__(self, console: Console, simulation: Simulation) -> None:
        self._simulation = simulation
        self._rendered_at = 0.0
        self._frame = LiveFrame(console, simulation.total_ticks)

    def __enter__(self) -> None:
        self._frame.start()

    def __exit__(self, *_: object) -> None:
        self._frame.stop()

    def show(self, state: SystemState, health: Health) -> None:
        """Redraw when a frame is due."""
        if time.monotonic() - self._rendered_at < _FRAME_S:
            return
        self._rendered_at = time.monotonic()
        content = render(state, health, self._simulation)
        self._frame.draw(content, state.closed + 1, when(state, self._simulation))


View = PlainView | LiveView


def view_for(console: Console, simulation: Simulation) -> View:
    """A live view on a terminal, plain lines elsewhere."""
    return (LiveView if console.is_terminal else PlainView)(console, simulation)


def headline(simulation: Simulation) -> str:
    """Scenario, size, seed and pace in one line."""
    size = f"{simulation.apps:,} apps"
    return f"{simulation.scenario}, {size}, seed {simulation.seed}, {simulation.pace}"


def when(state: SystemState, simulation: Simulation) -> str:
    """Event time and tick."""
    if state.tick < 0:
        return _WAITING
    return f"{state.time[:10]} {state.time[11:19]} tick {state.tick} of {simulation.total_ticks}"


def render(state: SystemState, health: Health, simulation: Simulation) -> RenderableType:
    """Everything above the progress bar."""
    parts: list[RenderableType] = [
        Text(headline(simulation), style="bold"),
        domain_table(state),
        *trouble_lines(state),
        Text(nodes_line(state)),
        Text(outcome_line(state)),
        *(Text(line, style="dim") for line in state.changes),
    ]
    if state.tick < 0:
        # Not beside the bar, where a terminal of 80 columns would cut it.
        parts.insert(1, Text(_WAITING))
    if state.cluster_breaker:
        parts.append(Text(f"breaker of the cluster: {state.cluster_breaker}", style="bold red"))
    if state.dead_letters:
        parts.append(Text(f"last dead letter: {state.last_dead_letter}", style="red"))
    if health.run is not None:
        # Wall clock: start times are recorded by another process.
        parts.append(service_table(health.run, health.metrics, time.time()))
    parts += [Text(f"given up: {line}", style="bold red") for line in health.failed]
    return Group(*parts)


def domain_table(state: SystemState) -> Table:
    """Load and health of each domain, and its budget; `hirl tail budgets` has the rest."""
    # Fits into 80 columns with large numbers, because a cut number is a wrong one.
    columns = (
        "domain", "rps", "ready/\nwanted", "pending", "p99/\ntarget", "at\nrisk", "share",
        "cores held/\ngranted",
    )  # fmt: skip
    rows = [_domain_row(name, domain) for name, domain in state.domains.items()]
    result = table("", columns, rows)
    # A long name is folded, so that numbers keep their width.
    result.columns[0].overflow = "fold"
    for column in result.columns[1:]:
        column.justify, column.no_wrap = "right", True
    return result


def _domain_row(name: str, domain: DomainState) -> tuple[str, ...]:
    budget = domain.budget
    held = short(domain.held)
    return (
        name,
        short(domain.rps),
        f"{short(domain.ready)}/{short(domain.replicas)}",
        flagged(domain.pending, 0, "{:,.0f}"),
        # A mean weighted by requests: without any there is none.
        flagged(domain.p99_over_target, 1.0, "{:.2f}") if domain.rps else _UNKNOWN,
        flagged(domain.at_risk, 0, "{:.0f}"),
        f"{budget.share:.1%}" if budget else _UNKNOWN,
        f"{held}/{short(budget.cores)}" if budget else f"{held}/{_UNKNOWN}",
    )


def trouble_lines(state: SystemState) -> list[Text]:
    """Breakers that are not closed or fell back, and apps without metrics."""
    lines = [
        Text(f"breaker of {name}: {domain.breaker}, {domain.breaker_reason}", style="red")
        for name, domain in state.domains.items()
        # `?` until the first heartbeat.
        if domain.breaker not in ("closed", "?") or domain.breaker_reason
    ]
    missing = [f"{name} {one.missing:,}" for name, one in state.domains.items() if one.missing]
    if missing:
        lines.append(Text(f"apps without metrics: {', '.join(missing)}", style="red"))
    return lines


def nodes_line(state: SystemState) -> str:
    """Ready nodes by pool, with those on their way in brackets."""
    pools = state.pools.values()
    return "nodes: " + ", ".join(
        f"{p.pool} {p.ready:,} (+{p.booting + p.requested:,})" for p in pools
    )


def outcome_line(state: SystemState) -> str:
    """Number of changes so far, by outcome."""
    found = state.outcomes
    return (
        f"changes: {found['applied']:,} applied, {found['held']:,} held, "
        f"{found['superseded']:,} superseded; {state.overruns:,} overruns, "
        f"{state.dead_letters:,} dead letters"
    )


def service_table(run: Run, metrics: Mapping[str, ServiceMetrics], now: float) -> Table:
    """State, uptime, lag and restarts of each service."""
    columns = ("service", "state", "pid", "up", "ready", "lag", "event age", "restarts")
    rows = []
    for spec in run.specs:
        status, found = run.status(spec.name), metrics.get(spec.name)
        up = status.state == "running"
        rows.append(
            (
                spec.name,
                status.state if up or status.state == "done" else f"[red]{status.state}[/]",
                str(status.process.pid) if status.process else _UNKNOWN,
                f"{now - status.since:,.0f} s" if up else _UNKNOWN,
                ("yes" if found.ready else "no") if found and up else _UNKNOWN,
                f"{found.lag:,}" if found and found.lag is not None else _UNKNOWN,
                f"{found.age_s * 1000:,.0f} ms" if found and found.age_s is not None else _UNKNOWN,
                flagged(status.restarts, 0, "{:.0f}"),
            )
        )
    result = table("", columns, rows)
    for column in range(2, 8):
        result.columns[column].justify = "right"
    return result


def plain_line(state: SystemState, simulation: Simulation) -> str:
    """The most important figures in one line."""
    domains = "; ".join(
        f"{name} {domain.rps:,.0f}/s {domain.ready:,}/{domain.replicas:,} ready"
        f" p99/target {f'{domain.p99_over_target:.2f}' if domain.rps else _UNKNOWN}"
        for name, domain in state.domains.items()
    )
    return f"{when(state, simulation)}: {domains}; {outcome_line(state)}"
