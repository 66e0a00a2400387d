"""Tuned parameters and their origin: `hirl calibrate` writes them to `tuned.json`.

They are in force in services and benchmarks, and override the defaults in `parameters.py`.
"""

from pathlib import Path
from typing import Final

import msgspec

from models.control.parameters import Parameters
from models.inputs.errors import InputError

FILE: Final = Path(__file__).with_name("tuned.json")
HEURISTIC: Final = "heuristic"
"""Name of the product's own controller in that file."""


class Tuned(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The best parameters of a search, and everything needed to repeat the search."""

    parameters: dict[str, float]
    objective: float
    """Of `parameters`, over the scenarios in `by_scenario`."""
    default_objective: float
    """Of the parameters in the code; the difference is what tuning gained."""
    by_scenario: dict[str, float]
    """J, mean over the seeds."""
    aggregate: str
    """How the J of the scenarios become one number."""
    bounds: dict[str, float] = {}
    """Largest J by scenario that the search allowed."""
    apps: int
    seeds: tuple[int, ...]
    search: str = ""
    """Name and version of the search; empty for one of an earlier release."""
    trials: int
    """Parameter sets tried."""
    search_seed: int
    worlds: dict[str, str]
    """Hash of the world of each scenario."""
    code: str
    """Hash of the controller's code."""


def tuned(name: str, file: Path = FILE) -> dict[str, float]:
    """The tuned parameters of a controller; empty if it was not tuned."""
    found = load_tuned(file).get(name)
    return {} if found is None else found.parameters


def tuned_parameters() -> Parameters:
    """Calibrated parameters of the heuristic controller, as services and benchmarks use them."""
    return Parameters(**tuned(HEURISTIC))


def load_tuned(file: Path = FILE) -> dict[str, Tuned]:
    """All tuned parameters, by controller name; empty without a file."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, Tuned])
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror})") from None
    except msgspec.DecodeError as error:
        raise InputError(f"{file}: {error}") from None


def store_tuned(results: dict[str, Tuned], file: Path = FILE) -> None:
    """Merge results into the file, sorted by controller name."""
    # Controllers that were not tuned this time keep their entry.
    merged = load_tuned(file) | results
    text = msgspec.json.encode(dict(sorted(merged.items())))
    try:
        file.write_bytes(msgspec.json.format(text, indent=2) + b"\n")
    except OSError as error:
        raise InputError(f"{file}: cannot be written ({error.strerror})") from None
