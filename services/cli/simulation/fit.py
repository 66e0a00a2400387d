"""`hirl world fit`: fit the population's parameters to the real tables again."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from models.sim.population.fitted import FITTED
from services.cli.targets import tables_folder, writable_file

EXAMPLES = "Example: [bold]hirl world fit --traces ../shared/traces[/bold]"

TracesOption = Annotated[
    Path,
    typer.Option(
        "--traces",
        metavar="DIR",
        callback=tables_folder,
        help="Folder with the tables, in sim/ and dev/.",
    ),
]
OutOption = Annotated[
    Path,
    typer.Option(
        "--out", metavar="FILE", callback=writable_file, help="Where to write the parameters."
    ),
]


def fit(traces: TracesOption, out: OutOption = FITTED) -> None:
    """Fit sizes, service times, profiles, noise and calls, and write them with provenance."""
    # Only here: the tables need libraries that nothing else needs.
    from models.sim.population import fit as fitting  # noqa: PLC0415

    console = Console()
    with console.status("fitting"):
        fitting.write(fitting.fit(traces), out)
    console.print(f"written: {out}", highlight=False, soft_wrap=True)
