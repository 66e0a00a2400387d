"""How many apps a tick can have: lock-step at growing sizes, as long as a tick takes below 10 s."""

from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from models.inputs.errors import InputError
from services.admin.reader import Onlooker
from services.devcluster.request import Request
from services.measure.stamps import WAY, Closing, moments, quantiles, stamps
from services.measure.testbed import Stage, load, staged
from services.measure.usage import available_mb, read_cpu, use_since

FIRST: Final = 1_550
SECOND: Final = 15_500
LIMIT_S: Final = 10.0
"""A tick has to be closed before the next one begins."""
_WARM_UP_TICKS: Final = 7
_TICKS: Final = 6
_START_S: Final = 900.0
_GROWTH: Final = 2.5
"""Of the memory in use when the size doubles, with a margin."""


def measure(request: Request, folder: Path) -> list[dict[str, Any]]:
    """A row per size; the last one is the size that was too large, and why."""
    rows: list[dict[str, Any]] = []
    size, used = FIRST, 0.0
    while True:
        if available_mb() < used * _GROWTH:
            rows.append({"apps": size, "ok": False, "why": "not enough memory to try"})
            return rows
        row = _row(request, size, folder / str(size))
        rows.append(row)
        if not row["ok"]:
            return rows
        used = row["rss_mb"]
        size = SECOND if size == FIRST else 2 * size


def largest(rows: list[dict[str, Any]]) -> int:
    """The most apps of which every tick closed in time."""
    return max((row["apps"] for row in rows if row["ok"]), default=0)


def _row(request: Request, apps: int, folder: Path) -> dict[str, Any]:
    began = load()
    try:
        with staged(replace(request, apps=apps, lock_step=True), folder) as stage:
            return {"apps": apps, "load": began} | _ticks(stage)
    except InputError as error:
        return {"apps": apps, "load": began, "ok": False, "why": str(error)}


def _ticks(stage: Stage) -> dict[str, Any]:
    last = _WARM_UP_TICKS + _TICKS - 1
    with Onlooker(stage.options) as onlooker:
        closing = Closing(onlooker, stage.run.scene.domains, stage.check)
        closing.wait(_WARM_UP_TICKS - 1, _START_S)
        pids = stage.pids
        before = read_cpu(pids)
        closing.wait(last, 3 * _TICKS * LIMIT_S)
        use = use_since(before, pids)
    stage.stop()
    found = moments(stamps(stage.options, WAY), len(stage.run.scene.domains))
    ticks = range(_WARM_UP_TICKS, last + 1)
    if not found.keys() >= {*ticks, _WARM_UP_TICKS - 1}:
        raise InputError("not every tick went the whole way")
    # In lock-step a tick takes from one closing to the next: the simulated cluster's step counts.
    seconds = [found[tick].applied - found[tick - 1].applied for tick in ticks]
    way = [found[tick].whole_ms / 1e3 for tick in ticks]
    return {
        "ok": max(seconds) <= LIMIT_S,
        "why": "" if max(seconds) <= LIMIT_S else f"a tick took {max(seconds):.1f} s",
        "tick_s": quantiles(seconds),
        "sample_to_applied_s": quantiles(way),
        "rss_mb": sum(one.rss_mb for one in use.values()),
        "services": use,
    }
