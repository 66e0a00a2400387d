"""Latency from sample to change over a real Kafka, by adapter and by cluster size."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from models.inputs.errors import InputError
from schemas.budget_granted import BudgetGranted
from schemas.capacity_requested import CapacityRequested
from schemas.demand_forecast import DemandForecast
from schemas.fields import Event
from schemas.model_promoted import ModelPromoted
from schemas.pool_observed import PoolObserved
from schemas.scale_applied import ScaleApplied
from schemas.topics import topic_of
from services.admin.orders import publish
from services.admin.promotions import SOURCE
from services.admin.reader import TopicReader
from services.devcluster.record import SIMCLUSTER
from services.devcluster.request import Request
from services.measure.stamps import (
    PATH,
    Stamp,
    TickWatcher,
    by_hop,
    quantiles,
    read_stamps,
    stream_stamps,
    tick_times,
)
from services.measure.testbed import (
    BROKER,
    MeasuredSystem,
    Usage,
    available_mb,
    load_average,
    measured_system,
    read_cpu,
    usage_since,
)

WARM_UP_TICKS: Final = 7
"""Left out of the figures: processes compile or load their kernels. Seven ticks include two first
ticks of a minute, so the forecaster and the Commander have compiled, too."""
FIRST_SIZE: Final = 1_550
SECOND_SIZE: Final = 15_500
LIMIT_S: Final = 10.0
"""A tick must close before the next one begins."""
_TICKS_PER_MINUTE: Final = 6
_TICKS_PER_SIZE: Final = 6
_START_S: Final = 900.0
_MEMORY_GROWTH: Final = 2.5
"""Memory at twice the size, over memory now, with a margin."""
_OTHERS: Final[tuple[type[Event], ...]] = (
    PoolObserved,
    DemandForecast,
    BudgetGranted,
    CapacityRequested,
)
_NOT_OURS: Final = frozenset({BROKER, SIMCLUSTER})
"""Left out of the control plane: a user has a Kafka anyway, and a real cluster."""


class Measurement(NamedTuple):
    """One run with one adapter."""

    figures: dict[str, Any]
    tick: list[Event]
    """All events of a tick that begins a minute, to measure the codec with."""


class Deciding(NamedTuple):
    """Promoted models that take part in a run, from its first ticks on."""

    orders: Sequence[ModelPromoted] = ()
    environment: Mapping[str, str] = {}
    """Where services find them, and whom they trust."""


NO_MODELS: Final = Deciding()


def measure(
    request: Request, adapter: str, minutes: int, folder: Path, models: Deciding = NO_MODELS
) -> Measurement:
    """Run in real time and measure the ticks after the warm-up."""
    ticks = minutes * _TICKS_PER_MINUTE
    last = WARM_UP_TICKS + ticks - 1
    environment = {"HIRL_ADAPTER": adapter, **models.environment}
    with measured_system(request, folder, environment=environment) as system:
        if models.orders:
            publish(system.options, models.orders, SOURCE)
        usage, loads = _usage(system, ticks)
        # Read all topics at rest: doing it beside the services would change what is measured.
        system.stop()
        stamps = read_stamps(system.options, (*PATH, *_OTHERS))
    minute_starts = [t for t in range(WARM_UP_TICKS, last + 1) if t % _TICKS_PER_MINUTE == 0]
    return Measurement(
        _figures(adapter, system, stamps, last) | _costs(usage) | {"load": loads},
        [stamp.event for stamp in stamps if stamp.event.tick == minute_starts[-1]],
    )


def measure_sizes(request: Request, folder: Path) -> list[dict[str, Any]]:
    """Run in lock-step at growing sizes; a row per size, the last one too large or too slow."""
    rows: list[dict[str, Any]] = []
    size, used_mb = FIRST_SIZE, 0.0
    while True:
        # Swapping would slow every process on the machine, and the kernel might kill others.
        if available_mb() < used_mb * _MEMORY_GROWTH:
            rows.append({"apps": size, "ok": False, "why": "not enough memory to try"})
            return rows
        row = _size_row(request, size, folder / str(size))
        rows.append(row)
        if not row["ok"]:
            return rows
        used_mb = row["rss_mb"]
        # The example cluster, ten times as much, then doubled.
        size = SECOND_SIZE if size == FIRST_SIZE else 2 * size


def largest(rows: list[dict[str, Any]]) -> int:
    """The most apps with which every tick closed in time."""
    return max((row["apps"] for row in rows if row["ok"]), default=0)


def _usage(system: MeasuredSystem, ticks: int) -> tuple[dict[str, Usage], list[float]]:
    """Usage by process over the measured ticks, and the machine's load before and after."""
    simulation = system.run.simulation
    with TopicReader(system.options) as reader:
        watcher = TickWatcher(reader, simulation.domains, system.check)
        watcher.wait(WARM_UP_TICKS - 1, _START_S)
        pids, load_before = system.pids, load_average()
        before = read_cpu(pids)
        # Three times real time: only a system that is stuck takes longer.
        watcher.wait(WARM_UP_TICKS + ticks - 1, 3 * ticks * simulation.tick_seconds)
        return usage_since(before, pids), [load_before, load_average()]


def _figures(
    adapter: str, system: MeasuredSystem, stamps: list[Stamp], last: int
) -> dict[str, Any]:
    complete = tick_times(stamps, len(system.run.simulation.domains))
    window = {tick: times for tick, times in complete.items() if WARM_UP_TICKS <= tick <= last}
    applied = [stamp.event for stamp in stamps if isinstance(stamp.event, ScaleApplied)]
    changes = sum(event.outcomes.count("applied") for event in applied if event.tick in window)
    return {
        "adapter": adapter,
        "ticks": len(window),
        "warm_up_ticks": WARM_UP_TICKS,
        "changes_applied": changes,
        "sample_to_applied_ms": quantiles([times.total_ms for times in window.values()]),
        "by_hop_ms": by_hop(window),
        "ms_by_tick": {str(tick): times.total_ms for tick, times in window.items()},
        "until": f"broker's time of the last {topic_of(ScaleApplied).name} record",
    }


def _costs(usage: dict[str, Usage]) -> dict[str, Any]:
    ours = [one for name, one in usage.items() if name not in _NOT_OURS]
    return {
        "services": usage,
        "control_plane_cores": sum(one.cores for one in ours),
        "control_plane_rss_mb": sum(one.rss_mb for one in ours),
    }


def _size_row(request: Request, apps: int, folder: Path) -> dict[str, Any]:
    load_before = load_average()
    try:
        with measured_system(replace(request, apps=apps, lock_step=True), folder) as system:
            return {"apps": apps, "load": load_before} | _lock_step_figures(system)
    # Too large is a result, not an error: the row says why.
    except InputError as error:
        return {"apps": apps, "load": load_before, "ok": False, "why": str(error)}


def _lock_step_figures(system: MeasuredSystem) -> dict[str, Any]:
    domains = system.run.simulation.domains
    last = WARM_UP_TICKS + _TICKS_PER_SIZE - 1
    with TopicReader(system.options) as reader:
        watcher = TickWatcher(reader, domains, system.check)
        watcher.wait(WARM_UP_TICKS - 1, _START_S)
        pids = system.pids
        before = read_cpu(pids)
        watcher.wait(last, 3 * _TICKS_PER_SIZE * LIMIT_S)
        usage = usage_since(before, pids)
    system.stop()
    times = tick_times(stream_stamps(system.options, PATH), len(domains))
    ticks = range(WARM_UP_TICKS, last + 1)
    # The first measured tick begins when the one before it closes, so that one is needed, too.
    if not times.keys() >= {*ticks, WARM_UP_TICKS - 1}:
        raise InputError("not every tick completed the path")
    # In lock-step a tick lasts from one closing to the next: the simulated step counts, too.
    seconds = [times[tick].applied - times[tick - 1].applied for tick in ticks]
    path_s = [times[tick].total_ms / 1e3 for tick in ticks]
    return {
        "ok": max(seconds) <= LIMIT_S,
        "why": "" if max(seconds) <= LIMIT_S else f"a tick took {max(seconds):.1f} s",
        "tick_s": quantiles(seconds),
        "sample_to_applied_s": quantiles(path_s),
        "rss_mb": sum(one.rss_mb for one in usage.values()),
        "services": usage,
    }
