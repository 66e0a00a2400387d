"""What the breaker remembers of a domain, and how that follows its apps and other releases."""

from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from models.cluster.arrays import F64
from models.control.breaker.actions import Cause, Phase
from models.control.breaker.changes import ChangeMemory, start_changes
from models.control.breaker.fallback import FallbackMemory, start_fallback
from models.control.breaker.forecasts import ForecastRecord
from models.control.breaker.limits import Thresholds, fallback_table
from models.control.breaker.phases import BreakerMemory
from models.control.fallback import Level
from schemas.domain_observed import DomainObserved
from schemas.scale_applied import ScaleApplied
from services._kit.errors import Refused
from services._kit.plausible import Timeline
from services._kit.state_codec import Transient, check_form, refit
from services.breaker.applied import Applied, held_changes
from services.breaker.cluster import ClusterBreaker
from services.breaker.frames import fresh_record

_FRESH_CHANGES: Final = start_changes(1, 1, 0)
_FRESH_RECORD: Final = fresh_record(0)
_NO_FALLBACK: Final = start_fallback(1, fallback_table([Thresholds()]))


@dataclass(frozen=True)
class BreakerState:
    """What the breaker remembers of one domain."""

    domain: str
    memory: BreakerMemory
    tick: int = -1
    """Tick of the last frame; -1 before the first."""
    time: str = ""
    """Event time of the last frame."""
    reason: str = ""
    """Why it is not closed."""
    applied: Applied = field(default_factory=dict)
    """Recent changes, which the next frames have to show."""
    frames_stopped: bool = False
    """Whether it opened because frames stopped."""
    names: tuple[str, ...] = ()
    """Apps of the last frame, in the order of `changes`."""
    changes: ChangeMemory = field(default_factory=lambda: _FRESH_CHANGES)
    outcomes: tuple[int, int] = (0, 0)
    """Changes planned since the last frame, and those of them that could not be made."""
    counted_tick: int = -1
    """Tick of the last changes among them."""
    cluster: ClusterBreaker | None = None
    """The cluster's breaker, where this domain led last."""
    forecasts: ForecastRecord = field(default_factory=lambda: _FRESH_RECORD)
    """Its means have a column per name."""
    fallback: FallbackMemory = field(default_factory=lambda: _NO_FALLBACK)
    timeline: Timeline = field(default_factory=Timeline)
    received_at: Transient[float | None] = None
    """When the last frame arrived, by `Clock.now`; None after a restart, which waits again."""


def fitted_to(fresh: BreakerState, state: BreakerState) -> BreakerState:
    """A loaded state with the windows and conditions of a fresh one.

    Raises Refused where it does not say whether the breaker was open.
    """
    memory, fallback, forecasts = state.memory, state.fallback, state.forecasts
    codes = (
        (memory.phase, Phase), (memory.cause, Cause), (fallback.level, Level),
        (fallback.cause, Cause),
    )  # fmt: skip
    for found, kind in codes:
        if not {*found.flat} <= {*map(int, kind)}:
            raise Refused("form", f"expected a known {kind.__name__.lower()}")
    memory = memory._replace(risk=_fit_window(memory.risk, fresh.memory.risk.shape[-1]))
    # Other conditions: each has to hold for its whole time again.
    if memory.held.shape != fresh.memory.held.shape:
        memory = memory._replace(held=fresh.memory.held)
    if fallback.held.shape != fresh.fallback.held.shape:
        fallback = fallback._replace(held=fresh.fallback.held)
    if state.changes.replicas.shape[-1] != len(state.names):
        raise Refused("form", "expected a column of `changes` per name")
    check_form(memory, fresh.memory)
    check_form(fallback, fresh.fallback)
    # Every column: kernels do not check their indices.
    check_form(state.changes, start_changes(1, 1, len(state.names)))
    if not _is_record_of(len(state.names), forecasts):
        # Of a release that judged forecasts otherwise, or not at all: their outcomes come again.
        forecasts = fresh_record(len(state.names))
    return replace(state, memory=memory, fallback=fallback, forecasts=forecasts)


def _is_record_of(apps: int, record: ForecastRecord) -> bool:
    try:
        check_form(record, _FRESH_RECORD, apps=apps)
    except Refused:
        return False
    return True


def with_apps(state: BreakerState, frame: DomainObserved) -> BreakerState:
    """Follow a changed inventory."""
    old, names = state.names, tuple(frame.apps)
    if names == old:
        return state
    changes = start_changes(1, 1, len(names))
    return replace(
        state,
        names=names,
        changes=refit(state.changes, changes, _FRESH_CHANGES, old, names),
        forecasts=refit(state.forecasts, fresh_record(len(names)), _FRESH_RECORD, old, names),
    )


def with_outcomes(state: BreakerState, event: ScaleApplied) -> BreakerState:
    """Add the changes of a tick to those since the last frame."""
    if event.tick <= state.counted_tick or not event.apps:  # delivered again, or nothing to count
        return state
    planned, held = (a + b for a, b in zip(state.outcomes, held_changes(event), strict=True))
    return replace(state, outcomes=(planned, held), counted_tick=event.tick)


def _fit_window(window: F64, length: int) -> F64:
    """The newest values; zeros before them where the window was shorter."""
    kept = window[..., -length:]
    fill = np.zeros((*window.shape[:-1], length - kept.shape[-1]))
    return np.concatenate([fill, kept], axis=-1)
