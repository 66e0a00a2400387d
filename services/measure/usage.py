"""What processes take of a machine, as Linux counts it: CPU time and resident memory."""

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from models.inputs.errors import InputError

_PROC: Final = Path("/proc")
_USER, _SYSTEM = 11, 12
"""Fields of /proc/PID/stat, counted after the name, which is in brackets."""
_MIB: Final = 1 << 20


class Use(msgspec.Struct, frozen=True):
    """Of one process over a while."""

    cores: float
    """CPU seconds per second."""
    rss_mb: float
    """Resident at the end."""


class Reading(NamedTuple):
    """CPU seconds of some processes since they began."""

    at: float
    cpu_s: dict[str, float]


def read_cpu(pids: Mapping[str, int]) -> Reading:
    """Now."""
    return Reading(time.monotonic(), {name: _cpu_seconds(pid) for name, pid in pids.items()})


def use_since(before: Reading, pids: Mapping[str, int]) -> dict[str, Use]:
    """What each process took since then."""
    now = read_cpu(pids)
    seconds = now.at - before.at
    return {
        name: Use((now.cpu_s[name] - before.cpu_s[name]) / seconds, _resident_mb(pid))
        for name, pid in pids.items()
    }


def available_mb() -> float:
    """Memory that new processes can have."""
    for line in _text(_PROC / "meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            return float(line.split()[1]) / 1024
    raise InputError("/proc/meminfo does not say what is available")


def _cpu_seconds(pid: int) -> float:
    fields = _text(_PROC / str(pid) / "stat").rpartition(")")[2].split()
    return (int(fields[_USER]) + int(fields[_SYSTEM])) / os.sysconf("SC_CLK_TCK")


def _resident_mb(pid: int) -> float:
    pages = int(_text(_PROC / str(pid) / "statm").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / _MIB


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; it takes Linux to measure this") from None
