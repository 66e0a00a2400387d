"""Checks of what an option points at, made before anything runs that takes minutes."""

import os
from importlib.util import find_spec
from pathlib import Path

from models.inputs.errors import InputError


def writable_file(path: Path | None) -> Path | None:
    """The path of a file that can be written; missing folders can be made."""
    if path is not None:
        if path.is_dir():
            raise _unwritable(path, "is a folder")
        _check_creatable(path)
    return path


def report_folder(path: Path | None) -> Path | None:
    """The path of a folder that a report can be written into; only reports need plots."""
    if path is not None:
        _check_creatable(path / "report.html")
        _check_installed("report", ("matplotlib",), "report")
    return path


def tables_folder(path: Path | None) -> Path | None:
    """The path of the folder with the real tables; only reading them needs pyarrow and scipy."""
    if path is not None:
        if not (path / "sim").is_dir() or not (path / "dev").is_dir():
            raise InputError(f"{path}: expected a folder with the folders sim and dev in it")
        _check_installed("traces", ("pyarrow", "scipy"), "fit")
    return path


def _check_creatable(path: Path) -> None:
    """Whether the file can be overwritten, or made where its nearest existing folder is."""
    places = (path, *path.parents)
    nearest = next(place for place in places if os.access(place, os.F_OK))
    if nearest != path and not nearest.is_dir():
        raise _unwritable(path, f"{nearest} is no folder")
    if not os.access(nearest, os.W_OK):
        raise _unwritable(path, f"no permission to write to {nearest}")


def _unwritable(path: Path, reason: str) -> InputError:
    return InputError(f"{path}: cannot be written ({reason})")


def _check_installed(option: str, modules: tuple[str, ...], extra: str) -> None:
    for module in modules:
        if find_spec(module) is None:
            raise InputError(f"{option}: needs {module}, install the extra `{extra}`")
