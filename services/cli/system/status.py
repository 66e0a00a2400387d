"""`hirl status` and `hirl down`: look at or stop the system that `hirl up` started."""

import time
from typing import TYPE_CHECKING, Final

import typer
from rich.console import Console

from services.cli.options import JsonOption
from services.cli.output import write_json

if TYPE_CHECKING:
    from services.devcluster.overview import Overview

STATUS_EXAMPLES: Final = "Example: [bold]hirl status --json .hirl/status.json[/bold]"
DOWN_EXAMPLES: Final = "Example: [bold]hirl down[/bold]"


def status(json: JsonOption = None) -> None:
    """Show what runs, how far behind it is and how far the scenario has come; exit 1 if not all.

    The event age is the mean since the start of the service.
    """
    from services.devcluster import overview  # noqa: PLC0415

    found = overview.look()
    console = Console(emoji=False, highlight=False)
    if found is None:
        console.print("no system runs here: hirl up starts one")
        raise typer.Exit(1)
    _show(console, found)
    if json is not None:
        write_json(json, found)
    if not found.healthy:
        raise typer.Exit(1)


def down() -> None:
    """Stop everything that `hirl up` started here, and nothing else. Logs stay, records go."""
    from services.devcluster import ending, record  # noqa: PLC0415

    console = Console(emoji=False, highlight=False)
    if record.read(record.ROOT) is None:
        console.print("no system runs here, so nothing was stopped")
        return
    console.print("stopping ...")
    ended = ending.stop() or 0
    console.print(f"stopped {ended} processes" if ended else "all had ended already; tidied up")


def _show(console: Console, found: "Overview") -> None:
    from services.cli.system.view import headline, service_table  # noqa: PLC0415
    from services.devcluster import record  # noqa: PLC0415
    from services.devcluster.probe import Vitals  # noqa: PLC0415

    run = record.read()
    if run is None:
        return
    console.print(headline(run.scene), style="bold")
    vitals = {
        name: Vitals(service.ready, service.lag, service.event_age_s)
        for name, service in found.services.items()
    }
    console.print(service_table(run, vitals, time.time()))
    for name, service in found.services.items():
        if service.detail:
            console.print(f"{name}: {service.detail}", markup=False, soft_wrap=True)
    console.print(f"Kafka {'answers' if found.broker_up else 'is down'} at {found.bootstrap}")
    console.print(_progress(found))
    if not found.supervised:
        console.print("the supervisor is gone: stop the rest with hirl down")


def _progress(found: "Overview") -> str:
    if found.tick is None:
        return "the simulated cluster does not answer (it may still be starting)"
    return (
        f"tick {found.tick} of {found.total_ticks}, closed up to {found.closed_tick}; "
        f"simulated cluster at {found.cluster_url}"
    )
