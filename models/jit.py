"""Compiled kernels, with an on-disk cache that is keyed by what the source means.

numba's own cache looks only at the file that defines a kernel: after a change to a helper in
another file it would serve a stale kernel. Here the cache folder of a file is named after the
code of that file and of every file it imports from this package. Comments, docstrings, line
numbers and the location of the checkout don't count, so documenting a kernel doesn't recompile it
and all checkouts of one user share their kernels. Folders that were not used for two weeks are
removed when a new one is created.

An image brings kernels of its own (`models/portable.py`), which are looked at first. They are in a
folder that cannot be written to, so what is missing there is compiled into the other one.
"""

import ast
import hashlib
import logging
import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Final, NamedTuple, TypeVar, cast

import numba
from numba.core.caching import (
    CompileResultCacheImpl,
    FunctionCache,
    IndexDataCacheFile,
    _CacheLocator,
)
from numpy.typing import NDArray

from models.portable import shipped

log = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., Any])

_PACKAGES: Final = ("models.", "schemas.")
_ROOT: Final = Path(__file__).parents[1]
_KEPT_DAYS: Final = 14


class Code(NamedTuple):
    """What a Python file says, from one parse: every process reads dozens of files at its start."""

    meaning: str
    """The code without comments, docstrings and formatting."""
    imports: tuple[str, ...]
    """Dotted names that may be modules: `from a import b` names both `a` and `a.b`."""


def _read(file: Path) -> Code:
    # By time and size, too: an entrant that is edited while a process runs is read again.
    status = file.stat()
    return _parse(file, status.st_mtime_ns, status.st_size)


@cache
def _parse(file: Path, _modified: int, _size: int) -> Code:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    imports: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            imports += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            imports += [alias.name for alias in node.names]
        # Docstrings of attributes are expressions anywhere in a body, not only the first.
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [part for part in body if not _is_docstring(part)]  # type: ignore[attr-defined]
    ours = (name for name in imports if name.startswith(_PACKAGES))
    return Code(ast.dump(tree), tuple(ours))


def meaning(file: Path) -> str:
    """The code of a Python file without comments, docstrings and formatting."""
    return _read(file).meaning


def code_digest(file: Path) -> str:
    """Hash of what a file means, with everything it imports from this package."""
    # The name, too: two files of equal code would share a folder and overwrite their kernels.
    digest = hashlib.sha256(_name(file).encode())
    for source in sources(file):
        digest.update(meaning(source).encode())
    return digest.hexdigest()[:16]


def _is_docstring(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def sources(file: Path) -> list[Path]:
    """A file and everything it imports from here: kernels call kernels and freeze constants."""
    found = [file, Path(__file__)]
    # The list grows while it is read: imports of imports are followed as well.
    for source in found:
        for module in _read(source).imports:
            path = _ROOT.joinpath(*module.split(".")).with_suffix(".py")
            if path.exists() and path not in found:
                found.append(path)
    return sorted(found, key=_name)


def _name(file: Path) -> str:
    """The same for every checkout; a kernel of a user's own is named by its full path."""
    return file.relative_to(_ROOT).as_posix() if file.is_relative_to(_ROOT) else str(file)


@cache
def _cache_folder(file: Path) -> Path:
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = root / "hirl" / "kernels" / code_digest(file)
    _mark_used(folder)
    return folder


def _mark_used(folder: Path) -> None:
    """Refresh the folder's time stamp; prune old folders when this one is new."""
    # A folder that cannot be touched is no reason not to start.
    with suppress(OSError):
        if folder.exists():
            os.utime(folder)
        else:
            _prune_once(folder.parent)


@cache
def _is_writable(folder: Path) -> bool:
    """Without a cache numba compiles at every start: slow, but better than not to start."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # An existing folder may still be read-only or full, so try to write.
        TemporaryFile(dir=folder).close()
    except OSError as error:
        _warn_once(f"{folder.parent}: {error.strerror}")
        return False
    return True


@cache
def _warn_once(reason: str) -> None:
    log.warning(
        "kernels are compiled again at the next start, no cache can be written (%s)", reason
    )


@cache
def _prune_once(kernels: Path) -> None:
    prune(kernels, time.time())


def prune(kernels: Path, now: float) -> None:
    """Remove folders that were last used more than `_KEPT_DAYS` before `now`."""
    for folder in kernels.iterdir():
        if now - folder.stat().st_mtime > _KEPT_DAYS * 24 * 3600:
            shutil.rmtree(folder, ignore_errors=True)


class KernelLocator(_CacheLocator):
    """Tells numba where the cache of a kernel is; the folder's name covers all of its source."""

    def __init__(self, file: Path) -> None:
        self._folder = _cache_folder(file)
        self._py_file = str(file)  # numba names it in warnings

    def get_cache_path(self) -> str:
        """The folder of the kernel's file."""
        return str(self._folder)

    def get_source_stamp(self) -> str:
        """Constant: a changed source has another folder."""
        return self._folder.name

    def get_disambiguator(self) -> str:
        """Constant: no file defines two kernels of one name."""
        return "kernel"

    @classmethod
    def from_function(cls, function: Any, file: str) -> "KernelLocator":  # noqa: ARG003
        """Numba's way to create a locator."""
        return cls(Path(file))


class _Kernel(CompileResultCacheImpl):
    """One kernel in the cache: where, and what is written of it."""

    _locator_classes = cast(Any, [KernelLocator])


class KernelCache(FunctionCache):
    """The compiled forms of one kernel: those of the image first, then our own."""

    _impl_class = _Kernel

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._own, image = Path(self.cache_path), shipped()
        self.folders = [self._own] if image is None else [image / self._own.name, self._own]
        name, stamp = self._impl.filename_base, self._impl.locator.get_source_stamp()
        self._shipped = [
            IndexDataCacheFile(str(folder), name, stamp) for folder in self.folders[:-1]
        ]

    def _load_overload(self, sig: Any, target_context: Any) -> Any:
        key = self._index_key(sig, target_context.codegen())
        for file in self._shipped:
            if (found := file.load(key)) is not None:
                return self._impl.rebuild(target_context, found)
        try:
            return super()._load_overload(sig, target_context)
        except OSError:  # numba expects that a cache can be read, and not only that it may be empty
            return None

    def _save_overload(self, sig: Any, data: Any) -> None:
        if _is_writable(self._own):
            super()._save_overload(sig, data)


_kernels: Final[list[Callable[..., Any]]] = []
"""Every kernel that this process has defined."""


def kernel(function: F) -> F:
    """Compile `function` without the interpreter lock; division by zero gives inf or nan.

    No fast-math: results must be the same bit for bit, however a loop was vectorised.
    No reference counting either (`_nrt`): kernels allocate nothing, they work on arrays they
    are given, and counting references to those made small kernels several times slower.
    """
    shipped()  # sets the target, which the first decoration fixes for the process
    options = {"error_model": "numpy", "nogil": True, "_nrt": False}
    # Untyped: numba's stubs know neither these options nor the cache.
    made = cast(Any, numba).njit(**options)(function)
    made._cache = KernelCache(function)  # noqa: SLF001  as its `cache=True` does, with our cache
    _kernels.append(made)
    return cast(F, made)


def is_compiled(function: Callable[..., Any]) -> bool:
    """Whether a kernel is in the cache, so that its first call will not take long."""
    # numba has no public way to ask.
    folders = cast(Any, function)._cache.folders  # noqa: SLF001
    return any(any(one.glob(f"*.{function.__name__}-*.nbc")) for one in folders)


def count_compiled() -> tuple[int, int]:
    """How many of the kernels defined so far are in the cache, and how many there are."""
    return sum(map(is_compiled, _kernels)), len(_kernels)


@kernel
def copy_row(source: NDArray[Any], target: NDArray[Any]) -> None:
    """`target[:] = source`, which would allocate."""
    for index in range(target.size):
        target[index] = source[index]
