"""`hirl explain`: why a decision about an app was taken, from the topics alone."""

from typing import Annotated, Final

import typer
from rich.console import Console

from services.cli.bus.tail import BootstrapOption, CredentialsOption
from services.cli.options import JsonOption
from services.cli.output import write_json

EXAMPLES: Final = (
    "Examples: [bold]hirl explain payments-0003[/bold], "
    "[bold]hirl explain payments-0003 --tick 312 --json why.json[/bold]"
)
_LABEL: Final = 10


def explain(
    app: Annotated[str, typer.Argument(metavar="APP", help="As the inventory names it.")],
    tick: Annotated[
        int | None,
        typer.Option("--tick", metavar="N", min=0, help="The last one decided when not given."),
    ] = None,
    bootstrap: BootstrapOption = None,
    credentials: CredentialsOption = None,
    json: JsonOption = None,
) -> None:
    """Say why an app has the replicas it has: seen, forecast, granted, needed, planned, done."""
    # Kafka's clients are slow to import, and only where services run.
    from services.admin.evidence import gather  # noqa: PLC0415
    from services.cli.bus.account import account_of  # noqa: PLC0415
    from services.devcluster.connect import options_of  # noqa: PLC0415

    account = account_of(gather(options_of(bootstrap, credentials), app, tick))
    console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
    title = f"{account.app} of {account.domain} at tick {account.tick} ({account.time})"
    console.print(f"{title}: {account.outcome}", style="bold")
    for section in account.sections:
        for number, line in enumerate(section.lines):
            label = "" if number else section.name
            console.print(f"{label:<{_LABEL}}{line}")
    if json is not None:
        write_json(json, account)
