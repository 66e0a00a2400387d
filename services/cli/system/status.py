"""`hirl status` and `hirl down`: inspect or stop the system that `hirl up` started."""

import time
from typing import TYPE_CHECKING, Final

import typer
from rich.console import Console

from services.cli.commands import examples
from services.cli.options import JsonOption
from services.cli.output import write_json

if TYPE_CHECKING:
    from services.devcluster.record import Run
    from services.devcluster.status import SystemStatus

_USUALLY_BEHIND: Final = 6
"""Ticks. Up to a minute is ordinary at high speeds; more is worth a word."""


@examples(
    "hirl status --json .hirl/status.json",
)
def status(json: JsonOption = None) -> None:
    """Show the services, their lag and the scenario's progress; exit 1 unless all is healthy.

    The event age is the mean since the start of the service.
    """
    # Imported when called: the help needs none of it.
    from services.devcluster import record  # noqa: PLC0415
    from services.devcluster.status import read_status  # noqa: PLC0415

    run, found = record.read(), read_status()
    console = Console(emoji=False, highlight=False)
    if run is None or found is None:
        console.print("no system runs here: hirl up starts one")
        raise typer.Exit(1)
    _show(console, run, found)
    if json is not None:
        write_json(json, found)
    # After the output, so that scripts get both the figures and the exit code.
    if not found.healthy:
        raise typer.Exit(1)


@examples(
    "hirl down",
)
def down() -> None:
    """Stop everything that `hirl up` started here, and nothing else. Logs stay, records go."""
    from services.devcluster import lifecycle, record  # noqa: PLC0415

    console = Console(emoji=False, highlight=False)
    if record.read() is None:
        console.print("no system runs here, so nothing was stopped")
        return
    console.print("stopping ...")
    ended = lifecycle.stop() or 0
    console.print(
        f"stopped {ended} processes" if ended else "no process was left; cleaned up the rest"
    )


def _show(console: Console, run: "Run", found: "SystemStatus") -> None:
    from services.cli.system.view import headline, service_table  # noqa: PLC0415
    from services.devcluster.probe import ServiceMetrics  # noqa: PLC0415

    console.print(headline(run.simulation), style="bold")
    metrics = {
        name: ServiceMetrics(service.ready, service.lag, service.event_age_s)
        for name, service in found.services.items()
    }
    console.print(service_table(run, metrics, time.time()))
    for line in failure_lines(found):
        console.print(line, markup=False, soft_wrap=True)
    console.print(f"Kafka {'answers' if found.broker_up else 'is down'} at {found.bootstrap}")
    console.print(progress_line(found))
    for scope, limit in found.breakers.items():
        console.print(f"breaker of {scope}: {limit}; hirl breaker show says why", style="red")
    if not found.supervised:
        console.print("the supervisor is not running: stop the rest with hirl down")


def failure_lines(found: "SystemStatus") -> list[str]:
    """The last failure of each service that had one."""
    return [
        # Kept after a restart, so that a failure is not overlooked.
        f"{name}: {'recovered; ' if service.state == 'running' else ''}{service.detail}"
        for name, service in found.services.items()
        if service.detail
    ]


def progress_line(found: "SystemStatus") -> str:
    """How far the scenario is, and how far the services are behind it."""
    if found.tick is None or found.closed_tick is None:
        return "the simulated cluster does not answer (it may still be starting)"
    behind = found.tick - found.closed_tick
    lag = f": services are {behind} ticks behind" if behind > _USUALLY_BEHIND else ""
    ended = found.tick >= found.total_ticks
    # Its collector has ended, so breakers that are open now say nothing about the run.
    end = "the scenario has ended: breakers open, as no samples come\n" if ended else ""
    return (
        f"tick {found.tick} of {found.total_ticks}, closed up to {found.closed_tick}{lag}\n"
        f"{end}simulated cluster at {found.cluster_url}"
    )
