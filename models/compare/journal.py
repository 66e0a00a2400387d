"""A journal of evaluations, one JSON line each, so that a stopped search can resume."""

import ast
import hashlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from models.inputs.errors import InputError

_CONTROLLERS: Final = ("models.baselines", "models.control")


class Entry(msgspec.Struct, frozen=True):
    """One parameter set in one world."""

    key: str
    controller: str
    scenario: str
    parameters: dict[str, float]
    objective: float


class Journal:
    """Past evaluations; in memory only, unless it has a file."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._objectives = {entry.key: entry.objective for entry in _read(file)}

    def get(self, key: str) -> float | None:
        """The objective of an evaluation; None if it was not made."""
        return self._objectives.get(key)

    def add(self, entry: Entry) -> None:
        """Add an evaluation and write it to disk at once."""
        self._objectives[entry.key] = entry.objective
        if self._file is None:
            return
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with self._file.open("ab") as lines:
                lines.write(msgspec.json.encode(entry) + b"\n")
        except OSError as error:
            raise InputError(f"{self._file}: cannot be written ({error.strerror})") from None


def _read(file: Path | None) -> Iterator[Entry]:
    if file is None or not file.exists():
        return
    for line in file.read_bytes().splitlines():
        try:
            yield msgspec.json.decode(line, type=Entry)
        except msgspec.DecodeError:
            # The last line of a run that was killed while writing; it is evaluated again.
            continue


def key_of(*parts: Any) -> str:
    """A short hash of everything that an evaluation depends on."""
    return hashlib.sha256(msgspec.json.encode(parts, order="sorted")).hexdigest()[:24]


def code_digest(module: str) -> str:
    """Hash of a module and of the controllers that it imports.

    A controller that changed has to be evaluated again. The world has its own hash.
    """
    found = [module]
    digest = hashlib.sha256()
    for name in found:
        tree = ast.parse(_source(name))
        digest.update(ast.dump(tree).encode())
        fresh = [one for one in _imports(tree) if one.startswith(_CONTROLLERS) and one not in found]
        found.extend(dict.fromkeys(fresh))
    return digest.hexdigest()[:16]


def _source(module: str) -> str:
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise InputError(f"{module}: cannot be imported")
    return Path(spec.origin).read_text(encoding="utf-8")


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
