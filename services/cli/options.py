"""Options that more than one command takes, declared once so that they mean the same everywhere."""

from pathlib import Path
from typing import Annotated

import typer

from services.cli.targets import report_folder, tables_folder, writable_file

WATCHED_SPEED = 6.0
"""Simulated minutes per second that eyes can follow."""

ClusterOption = Annotated[
    Path | None,
    typer.Option(
        "--cluster",
        metavar="FILE",
        help="Cluster description (YAML); the example cluster when not given.",
    ),
]
PhysicsOption = Annotated[
    Path | None,
    typer.Option(
        "--physics",
        metavar="FILE",
        help="Physics of the simulated cluster (YAML); those of the example when not given.",
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
        help="Write the figures to this file as JSON, too; folders that are missing are made.",
    ),
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
AppsOption = Annotated[
    int | None,
    typer.Option(
        "--apps",
        metavar="N",
        min=1,
        help="Scale the cluster to so many apps; as the cluster file says when not given.",
    ),
]
SpeedOption = Annotated[
    float | None,
    typer.Option(
        "--speed",
        metavar="X",
        min=0.0,
        help="Simulated minutes per second, 0 for as fast as it goes; "
        f"{WATCHED_SPEED:g} when not given and somebody watches.",
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
