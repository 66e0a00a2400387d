"""What a benchmark writes: one payload for programs, the same rows as CSV for spreadsheets."""

import csv
import importlib.util
import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from models.sim.describe.config import PRIORITIES
from models.sim.describe.errors import InputError
from models.sim.outcome.results import Result
from services.cli.contest.outcome import Outcome


def payload(outcome: Outcome) -> dict[str, Any]:
    """The contract: `world_hash` and `rows`; what else there is explains them."""
    request = outcome.request
    return {
        "world_hash": outcome.world_hash,
        "rows": outcome.rows,
        "reference": request.reference,
        "standings": outcome.standings,
        "frontier": outcome.frontier,
        "world_hashes": outcome.world_hashes,
        "code_hash": outcome.code_hash,
        "reduced": request.reduced,
        "seconds": outcome.seconds,
        "reused": outcome.reused,
        "command": outcome.command,
    }


def write_csv(path: Path, rows: Sequence[Result]) -> None:
    """One line per scenario, controller and seed; violation minutes in a column per priority."""
    lines = [_flat(row) for row in rows]
    text = io.StringIO()
    writer = csv.DictWriter(text, lines[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.getvalue(), encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from None


def check_targets(json: Path | None, table: Path | None, report: Path | None) -> None:
    """Refuse before hours of simulation what could not be written after them."""
    for file in (json, table):
        if file is not None:
            _check_file(file)
    if report is not None:
        _check_folder(report, report)
        if importlib.util.find_spec("matplotlib") is None:
            raise InputError("report: needs matplotlib, install the extra `report`")


def _check_file(file: Path) -> None:
    if file.is_dir():
        raise InputError(f"{file}: cannot be written (is a folder)")
    if not file.exists():
        _check_folder(file, file.parent)
    elif not os.access(file, os.W_OK):
        raise InputError(f"{file}: cannot be written (no permission)")


def _check_folder(target: Path, folder: Path) -> None:
    """Folders that do not exist yet are made in the first that does."""
    while not folder.exists():
        folder = folder.parent
    if not folder.is_dir():
        raise InputError(f"{target}: cannot be written ({folder} is no folder)")
    if not os.access(folder, os.W_OK):
        raise InputError(f"{target}: cannot be written (no permission in {folder})")


def _flat(row: Result) -> dict[str, Any]:
    values: dict[str, Any] = msgspec.to_builtins(row)
    minutes = values.pop("violation_minutes")
    names = ("scenario", "controller", "seed", "apps")
    first = {name: values.pop(name) for name in names}
    return {
        **first,
        **{f"violation_minutes_{name}": minutes[name] for name in PRIORITIES},
        **values,
    }
