"""`hirl world fit`: fit the population's parameters to the real tables again."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from models.sim.describe.errors import InputError
from models.sim.population.fitted import FITTED

EXAMPLES = "Example: [bold]hirl world fit --traces ../shared/traces[/bold]"

TracesOption = Annotated[
    Path, typer.Option("--traces", metavar="DIR", help="Folder with the tables, in sim/ and dev/.")
]
OutOption = Annotated[
    Path, typer.Option("--out", metavar="FILE", help="Where to write the parameters.")
]


def fit(traces: TracesOption, out: OutOption = FITTED) -> None:
    """Fit sizes, service times, profiles, noise and calls, and write them with provenance."""
    if not (traces / "sim").is_dir() or not (traces / "dev").is_dir():
        raise InputError(f"{traces}: expected a folder with the folders sim and dev in it")
    # Only here: the tables need libraries that nothing else needs.
    from models.sim.population import fit as fitting  # noqa: PLC0415

    console = Console()
    with console.status("fitting"):
        fitting.write(fitting.fit(traces), out)
    console.print(f"written: {out}", highlight=False, soft_wrap=True)
