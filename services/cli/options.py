"""Options that more than one command takes, declared once so that they mean the same everywhere."""

from pathlib import Path
from typing import Annotated

import typer

from models.control.catalogue import ENTRANTS
from services.cli.targets import report_folder, tables_folder, writable_file

ClusterOption = Annotated[
    Path | None,
    typer.Option(
        "--cluster",
        metavar="FILE",
        help="Cluster description (YAML); the example cluster when not given.",
    ),
]
SeedOption = Annotated[
    int,
    typer.Option(
        "--seed",
        metavar="N",
        min=0,
        help="Seed of all randomness: the same seed gives the same world.",
    ),
]
JsonOption = Annotated[
    Path | None,
    typer.Option(
        "--json",
        metavar="FILE",
        callback=writable_file,
        help="Write the figures to this file as JSON, too.",
    ),
]
ControllerOption = Annotated[
    str, typer.Option("--controller", metavar="C", help=f"One of {', '.join(ENTRANTS)}.")
]
ReportOption = Annotated[
    Path | None,
    typer.Option(
        "--report",
        metavar="DIR",
        callback=report_folder,
        help="Write an HTML report into this folder.",
    ),
]
TracesOption = Annotated[
    Path | None,
    typer.Option(
        "--traces",
        metavar="DIR",
        envvar="HIRL_TRACES",
        callback=tables_folder,
        help="Folder with the real tables, in sim/ and dev/.",
    ),
]
