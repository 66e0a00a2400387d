"""Options of the commands about forecasts."""

from pathlib import Path
from typing import Annotated

import typer

SeriesOption = Annotated[
    Path,
    typer.Option(
        "--series",
        metavar="FILE",
        help="Recorded traffic: CSV, CSV.gz or Parquet, one series or many, wide or long.",
    ),
]
CalendarOption = Annotated[
    Path | None,
    typer.Option(
        "--calendar",
        metavar="FILE",
        help="What was announced: starts_at and, where known, ends_at, kind, factor, series.",
    ),
]
ArtefactOption = Annotated[
    Path,
    typer.Option(
        "--artefact",
        metavar="DIR",
        help="Folder of a learned model, as `hirl train forecaster` writes it.",
        show_default="the shipped one",
    ),
]
StepOption = Annotated[
    int | None,
    typer.Option(
        "--step-min",
        metavar="N",
        min=1,
        help="Minutes between two rows, where no column of the file says when.",
    ),
]
StartOption = Annotated[
    str | None,
    typer.Option(
        "--start", metavar="TIME", help="Time of the first row, where no column says when."
    ),
]
