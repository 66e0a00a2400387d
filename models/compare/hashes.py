"""Hashes of what a result depends on: the worlds, and the code that controls them."""

import hashlib
import importlib.util
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import models
from models.compare.catalogue import ENTRANTS, entrant_of
from models.compare.jobs import population_of
from models.compare.policies import POLICY, folders_of
from models.compare.provenance import hash_of_world
from models.compare.request import Request
from models.jit import meaning, sources
from models.sim import world

_UNJUDGED: Final = ("validate", "training")
"""Packages of models that neither decide nor score."""


def world_hashes(request: Request) -> dict[str, dict[str, str]]:
    """By scenario and entrant: an entrant with its own scheduler runs in another world."""
    schedulings = {name: entrant_of(name).scheduling for name in request.entrants}
    hashes, population = {}, population_of(request.cluster)
    for scenario in request.scenarios:
        by_scheduling = {
            scheduling: hash_of_world(request.cluster, scenario, scheduling, population)
            for scheduling in set(schedulings.values())
        }
        hashes[scenario.name] = {
            name: by_scheduling[scheduling] for name, scheduling in schedulings.items()
        }
    return hashes


def code_hashes(entrants: Iterable[str]) -> dict[str, str]:
    """By entrant: of all our deciding code, and of a user's own entrant or policy.

    All files count, including tuned parameters and weights; of Python files, what they mean.
    """
    # Any change of our code reruns every entrant of ours: which code a result depends on is hard to
    # tell, and running again is always correct.
    common = _digest(deciding_files())
    return {name: _digest(_modules(name), common) for name in entrants}


def deciding_files() -> list[Path]:
    """Everything in models that decides or scores: what no world hash covers."""
    root = Path(models.__file__).parent
    of_world = set(sources(Path(world.__file__)))
    return [
        file
        for file in sorted(root.rglob("*"))
        if file.is_file()
        and file not in of_world
        and file.relative_to(root).parts[0] not in _UNJUDGED
        and "__pycache__" not in file.parts
    ]


def combined(hashes: Iterable[str]) -> str:
    """One hash of several, independent of their order."""
    return hashlib.sha256(" ".join(sorted(set(hashes))).encode()).hexdigest()[:16]


def _modules(entrant: str) -> list[Path]:
    # `hpa:0.6` and `heuristic:calendar` have a colon as well, but name no module.
    plain = entrant.partition("@")[0]
    module, own, rest = plain.partition(":")
    if module == POLICY:
        folders = folders_of(rest.partition("/")[2]).values()
        return [file for folder in folders for file in sorted(folder.glob("network.onnx"))]
    if not own or module in {name.partition(":")[0] for name in ENTRANTS}:
        return []
    spec = importlib.util.find_spec(module)
    return [Path(spec.origin)] if spec is not None and spec.origin is not None else []


def _digest(files: Iterable[Path], before: str = "") -> str:
    digest = hashlib.sha256(before.encode())
    for file in files:
        digest.update(file.name.encode())
        content = meaning(file).encode() if file.suffix == ".py" else file.read_bytes()
        digest.update(content)
    return digest.hexdigest()[:16]
