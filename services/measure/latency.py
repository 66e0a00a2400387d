"""The way from a sample to a change in real time, and what it costs: one run of all services."""

from pathlib import Path
from typing import Any, Final, NamedTuple

from schemas.budget_granted import BudgetGranted
from schemas.capacity_requested import CapacityRequested
from schemas.demand_forecast import DemandForecast
from schemas.fields import Event
from schemas.pool_observed import PoolObserved
from schemas.scale_applied import ScaleApplied
from schemas.topics import topic_of
from services.admin.reader import Onlooker
from services.devcluster.record import SIMCLUSTER
from services.devcluster.request import Request
from services.measure.stamps import WAY, Closing, Stamp, by_hop, moments, quantiles, stamps
from services.measure.testbed import BROKER, Stage, load, staged
from services.measure.usage import Use, read_cpu, use_since

WARM_UP_TICKS: Final = 7
"""Left out: kernels are compiled or loaded in them, once per process. They begin two minutes, so
that the forecaster and the Commander have compiled, too."""
_TICKS_PER_MINUTE: Final = 6
_START_S: Final = 900.0
_OTHERS: Final[tuple[type[Event], ...]] = (
    PoolObserved,
    DemandForecast,
    BudgetGranted,
    CapacityRequested,
)
_NOT_OURS: Final = frozenset({BROKER, SIMCLUSTER})
"""Kafka would be there anyway, and the simulated cluster stands for the real one."""


class Measured(NamedTuple):
    """One run with one adapter."""

    figures: dict[str, Any]
    tick: list[Event]
    """All events of a tick that begins a minute, for the codec to be measured with."""


def measure(request: Request, adapter: str, minutes: int, folder: Path) -> Measured:
    """Run in real time and look at the ticks after the warm-up."""
    ticks = minutes * _TICKS_PER_MINUTE
    last = WARM_UP_TICKS + ticks - 1
    with staged(request, folder, environment={"HIRL_ADAPTER": adapter}) as stage:
        use, loads = _used(stage, ticks)
        stage.stop()
        found = stamps(stage.options, (*WAY, *_OTHERS))
    begun = [tick for tick in range(WARM_UP_TICKS, last + 1) if tick % _TICKS_PER_MINUTE == 0]
    return Measured(
        _figures(adapter, stage, found, last) | _costs(use) | {"load": loads},
        [one.event for one in found if one.event.tick == begun[-1]],
    )


def _used(stage: Stage, ticks: int) -> tuple[dict[str, Use], list[float]]:
    """What everybody took in the window, and the machine's load when it began and ended."""
    tick_s = stage.run.scene.tick_seconds
    with Onlooker(stage.options) as onlooker:
        closing = Closing(onlooker, stage.run.scene.domains, stage.check)
        closing.wait(WARM_UP_TICKS - 1, _START_S)
        pids, began = stage.pids, load()
        before = read_cpu(pids)
        closing.wait(WARM_UP_TICKS + ticks - 1, 3 * ticks * tick_s)
        return use_since(before, pids), [began, load()]


def _figures(adapter: str, stage: Stage, found: list[Stamp], last: int) -> dict[str, Any]:
    whole = moments(found, len(stage.run.scene.domains))
    window = {tick: one for tick, one in whole.items() if WARM_UP_TICKS <= tick <= last}
    applied = [one.event for one in found if isinstance(one.event, ScaleApplied)]
    changes = sum(event.outcomes.count("applied") for event in applied if event.tick in window)
    return {
        "adapter": adapter,
        "ticks": len(window),
        "warm_up_ticks": WARM_UP_TICKS,
        "changes_applied": changes,
        "sample_to_applied_ms": quantiles([one.whole_ms for one in window.values()]),
        "by_hop_ms": by_hop(window),
        "ms_by_tick": {str(tick): one.whole_ms for tick, one in window.items()},
        "until": f"broker's time of the last {topic_of(ScaleApplied).name} record",
    }


def _costs(use: dict[str, Use]) -> dict[str, Any]:
    ours = [one for name, one in use.items() if name not in _NOT_OURS]
    return {
        "services": use,
        "control_plane_cores": sum(one.cores for one in ours),
        "control_plane_rss_mb": sum(one.rss_mb for one in ours),
    }
