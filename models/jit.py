"""Compiled kernels, with a cache on disk that notices every change of source.

numba's own cache looks only at the file a kernel stands in: a changed helper in another
file would leave a stale kernel behind. Here each file's cache folder is named after the
contents of that file and of all files it imports from here. Folders that nobody has used for
long belong to sources of the past and are removed when new ones are compiled.
"""

import hashlib
import os
import re
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numpy.typing import NDArray

F = TypeVar("F", bound=Callable[..., Any])

_IMPORT = re.compile(r"^from (models[\w.]*) import ([^(\n]+)?", re.MULTILINE)


_ROOT = Path(__file__).parent


@cache
def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def _sources(file: Path) -> list[Path]:
    """A file and all it imports from here: kernels call kernels and freeze constants."""
    found = [file, Path(__file__)]
    for source in found:
        for module, names in _IMPORT.findall(_text(source)):
            place = _ROOT.parent.joinpath(*module.split("."))
            inside = [place / f"{name}.py" for name in re.findall(r"\w+", names)]
            for imported in (place.with_suffix(".py"), *inside):
                if imported.exists() and imported not in found:
                    found.append(imported)
    return sorted(found)


@cache
def _cache_folder(file: Path) -> Path:
    """Where the kernels of a file are kept, named after the contents of its sources."""
    digest = hashlib.sha256()
    for source in _sources(file):
        digest.update(_text(source).encode())
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = root / "hirl" / "kernels" / digest.hexdigest()[:16]
    _keep_house(folder)
    return folder


_KEPT_DAYS = 14


def _keep_house(folder: Path) -> None:
    """Note that a folder is used; where it is new, something is compiled and the old can go."""
    # A cache that cannot be written to is read all the same.
    with suppress(OSError):
        if folder.exists():
            os.utime(folder)
        else:
            _prune_once(folder.parent)


@cache
def _prune_once(kernels: Path) -> None:
    prune(kernels, time.time())


def prune(kernels: Path, now: float) -> None:
    """Remove folders that were last used more than `_KEPT_DAYS` before `now`."""
    for folder in kernels.iterdir():
        if now - folder.stat().st_mtime > _KEPT_DAYS * 24 * 3600:
            shutil.rmtree(folder, ignore_errors=True)


# Untyped: numba's stubs know neither the settings nor the options used below.
_numba: Any = numba


def kernel(function: F) -> F:
    """Compile `function` without the interpreter lock; division by zero gives inf or nan.

    No fast-math: results must be the same bit for bit, however a loop was vectorised.
    No reference counting either (`_nrt`): kernels allocate nothing, they work on arrays they
    are given, and counting references to those made small kernels several times slower.
    """
    # numba asks for the folder while it decorates.
    _numba.config.CACHE_DIR = str(_cache_folder(Path(function.__code__.co_filename)))
    options = {"cache": True, "error_model": "numpy", "nogil": True, "_nrt": False}
    return cast(F, _numba.njit(**options)(function))


def is_compiled(function: Callable[..., Any]) -> bool:
    """Whether a kernel is in the cache, so that its first call will not take long."""
    # numba keeps kernels apart by the path of their source, and only the dispatcher knows where.
    folder = Path(cast(Any, function)._cache.cache_path)  # noqa: SLF001
    return any(folder.glob(f"*.{function.__name__}-*.nbc"))


@kernel
def copy_row(source: NDArray[Any], target: NDArray[Any]) -> None:
    """`target[:] = source`, which would allocate."""
    for index in range(target.size):
        target[index] = source[index]
