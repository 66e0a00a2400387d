"""Compiled kernels, with a cache on disk that notices every change of source.

numba's own cache looks only at the file a kernel stands in: a changed helper in another
file would leave a stale kernel behind. Here the cache folder is named after all sources.
"""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numpy.typing import NDArray

F = TypeVar("F", bound=Callable[..., Any])


def _sources_digest() -> str:
    digest = hashlib.sha256()
    for file in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _cache_folder() -> Path:
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return root / "hirl" / "kernels" / _sources_digest()


numba.config.CACHE_DIR = str(_cache_folder())


def kernel(function: F) -> F:
    """Compile `function` without the interpreter lock; division by zero gives inf or nan.

    No fast-math: results must be the same bit for bit, however a loop was vectorised.
    No reference counting either (`_nrt`): kernels allocate nothing, they work on arrays they
    are given, and counting references to those made small kernels several times slower.
    """
    return cast(F, numba.njit(cache=True, error_model="numpy", nogil=True, _nrt=False)(function))


@kernel
def copy_row(source: NDArray[Any], target: NDArray[Any]) -> None:
    """`target[:] = source`, which would allocate."""
    for index in range(target.size):
        target[index] = source[index]
