"""`hirl bench published`: our models under the protocols of published tables."""

import time
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.table import Table

from models.forecaster.score.protocols import (
    PROTOCOLS,
    Data,
    Name,
    Protocol,
    Scores,
    load,
)
from models.forecaster.score.published import PUBLISHED, Published, scored, simple_models
from services.cli.commands import examples
from services.cli.options import JsonOption, SeedOption
from services.cli.output import Cell, print_line, progress, shown, table, write_json

_NO_TORCH: Final = (
    "tft: left out, training it needs torch: `make train-env`, then .venv-train/bin/hirl"
)
_NO_TEST: Final = (
    "the file ends before the published test rows: ours are of the validation rows, "
    "published figures are of the test rows, so the comparison is for orientation only"
)
_ON_LINEAR: Final = "tft is a network that learns what the DLinear-like model leaves over"
_CHOSEN_ON_TEST: Final = "T-GCN's figures are of the epoch that was best on the test rows"

NameArgument = Annotated[
    Name,
    typer.Argument(metavar="|".join(PROTOCOLS), help="Protocol to follow.", show_choices=False),
]
FileOption = Annotated[
    Path, typer.Option("--file", metavar="FILE", help="The published table: CSV or CSV.gz.")
]


@examples(
    "hirl bench published etth1 --file ETTh1.csv",
    "hirl bench published losloop --file los_speed.csv --json losloop.json",
)
def published(
    name: NameArgument, file: FileOption, seed: SeedOption = 0, json: JsonOption = None
) -> None:
    """Score repeat-last, a DLinear-like model and the TFT as published tables do.

    Uses the test rows if the file contains them, else the validation rows, and says which.
    """
    console, began = Console(emoji=False), time.monotonic()
    data = load(name, file)
    rows = [row for model, fit in simple_models(data).items() for row in scored(data, model, fit)]
    notes = [] if "test" in data.parts else [_NO_TEST]
    # torch is part of the training environment only; the rest of the table is useful without.
    if find_spec("torch") is None:
        notes.append(_NO_TORCH)
    else:
        rows += _tft(data, seed, console)
        notes.append(_ON_LINEAR)
    notes += [_CHOSEN_ON_TEST] if name == "losloop" else []
    console.print(_table(data.protocol, rows, PUBLISHED[name]))
    for note in (*notes, f"took {time.monotonic() - began:.0f} s"):
        print_line(console, note)
    if json is not None:
        write_json(json, _payload(name, data, rows, notes))


def _tft(data: Data, seed: int, console: Console) -> list[Scores]:
    # Imported here: torch is not installed where models run.
    from models.forecaster.training.published import Args, fit_tft  # noqa: PLC0415

    args = Args(seed=seed)
    with progress("training tft", args.epochs * args.steps, console) as advance:
        fitted = fit_tft(data, args, advance)
    with progress("scoring tft", 1, console):
        return list(scored(data, "tft", lambda _: fitted))


def _table(protocol: Protocol, rows: list[Scores], others: tuple[Published, ...]) -> Table:
    names = ("mse", "mae") if protocol.standardised else ("rmse", "mae", "accuracy")
    rows_of: list[tuple[Cell, ...]] = []
    for steps in protocol.ahead:
        ours = (row for row in rows if row.steps == steps)
        theirs = (other for other in others if other.steps == steps)
        rows_of += [
            (row.model, row.split, steps, shown(row.windows), *_errors(row, names)) for row in ours
        ]
        rows_of += [
            (other.model, "published", steps, "", *_errors(other, names)) for other in theirs
        ]
    columns = ("model", "rows", "steps", "windows", *(name.upper() for name in names))
    made = table(f"{protocol.title}, {protocol.past} steps of past", columns, rows_of)
    # Figures are text here, because a missing one is an empty cell.
    for column in made.columns[3:]:
        column.justify = "right"
    return made


def _errors(row: Scores | Published, names: tuple[str, ...]) -> list[str]:
    values = [getattr(row, name) for name in names]
    return ["" if value is None else f"{value:.4f}" for value in values]


def _payload(name: Name, data: Data, rows: list[Scores], notes: list[str]) -> dict[str, Any]:
    return {
        "protocol": name,
        "parts": {split: [part.start, part.stop] for split, part in data.parts.items()},
        "rows": rows,
        "published": [other._asdict() for other in PUBLISHED[name]],
        "notes": notes,
    }
