"""`hirl status` and `hirl down`: what `hirl up` left running."""

from typing import Final

import typer
from rich.console import Console

from services.cli.options import JsonOption
from services.cli.output import write_json

STATUS_EXAMPLES: Final = "Example: [bold]hirl status --json .hirl/status.json[/bold]"
DOWN_EXAMPLES: Final = "Example: [bold]hirl down[/bold]"


def status(json: JsonOption = None) -> None:
    """Show what runs, how far behind it is and how far the scenario has come; exit 1 if not all.

    The event age is the mean since the start of the service.
    """
    from services.cli.system import overview  # noqa: PLC0415

    found = overview.look()
    console = Console(emoji=False, highlight=False)
    if found is None:
        console.print("no system runs here: hirl up starts one")
        raise typer.Exit(1)
    overview.show(console, found)
    if json is not None:
        write_json(json, found)
    if not found.healthy:
        raise typer.Exit(1)


def down() -> None:
    """Stop everything that `hirl up` started here, and nothing else. Logs stay, records go."""
    from services.cli.system import ending, record  # noqa: PLC0415

    console = Console(emoji=False, highlight=False)
    if record.read(record.ROOT) is None:
        console.print("no system runs here, so nothing was stopped")
        return
    console.print("stopping ...")
    ended = ending.stop() or 0
    console.print(f"stopped {ended} processes" if ended else "all had ended already; tidied up")
