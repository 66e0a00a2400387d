"""What a benchmark writes: one payload for programs, the same rows as CSV for spreadsheets."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from models.cluster.description import PRIORITIES
from models.compare.outcome import Outcome
from models.inputs.errors import InputError
from models.sim.results.summary import Result


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
