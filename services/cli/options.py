"""Options that several commands share, and checks of the paths that they name.

The checks run before anything that takes minutes.
"""

import os
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from models.inputs.errors import InputError

WATCHED_SPEED = 6.0
"""Simulated minutes per second that a person can follow."""


def writable_file(path: Path | None) -> Path | None:
    """Check that a file can be written; missing folders can be created."""
    if path is not None:
        if path.is_dir():
            raise _not_writable(path, "is a folder")
        _check_creatable(path)
    return path


def folder_of(path: Path) -> Path:
    """Check that a path is no file; the folder may be missing."""
    if path.exists() and not path.is_dir():
        raise InputError(f"{path}: is a file, expected a folder")
    return path


def folder_if_given(path: Path | None) -> Path | None:
    """The same for an option that may be left out."""
    return None if path is None else folder_of(path)


def writable_folder(path: Path) -> Path:
    """Check that files can be written into a folder; it can be created if it is missing."""
    _check_creatable(folder_of(path))
    return path


def report_folder(path: Path | None) -> Path | None:
    """Check that a report can be written into a folder; only reports need matplotlib."""
    if path is not None:
        # Any file name will do: only the folder matters.
        _check_creatable(path / "report.html")
        _check_installed("report", ("matplotlib",), "report")
    return path


def tables_folder(path: Path | None) -> Path | None:
    """Check the folder with the real tables; only reading them needs pyarrow and scipy."""
    if path is not None:
        if not (path / "sim").is_dir() or not (path / "dev").is_dir():
            raise InputError(f"{path}: expected a folder with the folders sim and dev in it")
        _check_installed("traces", ("pyarrow", "scipy"), "fit")
    return path


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
        help="Also write the figures to this file as JSON; missing folders are created.",
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
        help="Scale the cluster to this many apps; as in the cluster file when not given.",
    ),
]
SpeedOption = Annotated[
    float | None,
    typer.Option(
        "--speed",
        metavar="X",
        min=0.0,
        help="Simulated minutes per second, 0 for full speed; "
        f"{WATCHED_SPEED:g} on a terminal when not given.",
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


def _check_creatable(path: Path) -> None:
    """Check that the file can be overwritten, or created in its nearest existing folder."""
    candidates = (path, *path.parents)
    # The path need not exist: its nearest existing parent decides whether it can be created.
    nearest = next(candidate for candidate in candidates if os.access(candidate, os.F_OK))
    if nearest != path and not nearest.is_dir():
        raise _not_writable(path, f"{nearest} is not a folder")
    if not os.access(nearest, os.W_OK):
        raise _not_writable(path, f"no permission to write to {nearest}")
    if nearest.is_dir():
        # Permissions are not enough: nothing can be created in /proc or on a full disk.
        try:
            tempfile.TemporaryFile(dir=nearest).close()
        except OSError as error:
            reason = f"nothing can be created in {nearest}: {error.strerror}"
            raise _not_writable(path, reason) from None


def _not_writable(path: Path, reason: str) -> InputError:
    return InputError(f"{path}: cannot be written ({reason})")


def _check_installed(option: str, modules: tuple[str, ...], extra: str) -> None:
    # Looked up, not imported: importing matplotlib or pyarrow takes a second.
    for module in modules:
        if find_spec(module) is None:
            raise InputError(f"{option}: needs {module}, install the extra `{extra}`")
