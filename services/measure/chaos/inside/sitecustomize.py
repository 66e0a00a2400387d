"""Moves the wall clock of a service while it runs, and lets it run the code of another release.

Both are files in the folder that CHAOS_FOLDER names: `clock-SERVICE` has the seconds by which the
clock is wrong, `code-SERVICE` the folder of the code to run. The monotonic clock stays as it is, as
on a machine whose time is set.
"""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

FOLDER: Final = "CHAOS_FOLDER"
_READ_EVERY_S: Final = 0.1


def service_of(words: list[str]) -> str:
    """SERVICE of `python -m services.SERVICE`; empty for other processes."""
    name = words[words.index("-m") + 1] if "-m" in words[:-1] else ""
    return name.removeprefix("services.") if name.startswith("services.") else ""


def wrong_clock(clock: Callable[[], float], file: Path) -> Callable[[], float]:
    """The clock plus the seconds in the file; right while there is none."""
    read_at, seconds = -_READ_EVERY_S, 0.0

    def now() -> float:
        nonlocal read_at, seconds
        if time.monotonic() - read_at >= _READ_EVERY_S:
            read_at, seconds = time.monotonic(), _seconds_in(file)
        return clock() + seconds

    return now


def _seconds_in(file: Path) -> float:
    try:
        return float(file.read_text())
    except (OSError, ValueError):
        return 0.0


def _prepare(folder: Path, service: str) -> None:
    time.time = wrong_clock(time.time, folder / f"clock-{service}")
    code = folder / f"code-{service}"
    if code.is_file():
        sys.path.insert(0, code.read_text())


if FOLDER in os.environ and service_of(sys.orig_argv):
    _prepare(Path(os.environ[FOLDER]), service_of(sys.orig_argv))
