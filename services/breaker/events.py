"""What the breaker publishes: its state, what it orders, and the evidence."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from models.cluster.arrays import I32
from models.control.breaker.actions import Cause, Phase, action_of
from models.control.breaker.fallback import FallbackMemory
from models.control.breaker.limits import Table
from models.control.breaker.phases import BreakerMemory
from models.control.fallback import Level
from schemas.breaker_changed import Action, BreakerChanged, Rollback, State
from schemas.breaker_changed import Level as LevelName
from schemas.domain_observed import DomainObserved
from schemas.override_issued import OverrideIssued

_STATES: Final[dict[int, State]] = {
    Phase.CLOSED: "closed",
    Phase.OPEN: "open",
    Phase.HALF_OPEN: "half-open",
}
_LEVELS: Final[dict[Level, LevelName]] = {
    Level.POLICY: "policy",
    Level.HEURISTIC: "heuristic",
    Level.REACTIVE: "reactive",
    Level.HOLD: "hold",
}
PHASES: Final = {state: Phase(code) for code, state in _STATES.items()}
CAUSES: Final = {cause.label: cause for cause in Cause}
MOST_WORDS: Final = 500
"""Characters of an operator's reason that events repeat, some with every heartbeat."""
_MOST_APPS: Final = 2000
"""Apps of one step of a rollback: the event has to stay far below the largest record."""


def named_readings(values: Sequence[float], table: Table) -> dict[str, float]:
    """Readings, in the order of the table, and thresholds by cause; unknown ones are left out."""
    named: dict[str, float] = {}
    limits = zip(table.causes.tolist(), table.threshold[0].tolist(), values, strict=True)
    for code, threshold, value in limits:
        name = Cause(code).label
        if np.isfinite(value):
            named[name] = round(value, 6)
        named[f"{name}_threshold"] = threshold
    return named


def reason_of(memory: BreakerMemory, readings: Mapping[str, float]) -> str:
    """Why it tripped; empty when it closed."""
    cause = Cause(memory.cause[0, 0])
    if cause == Cause.NONE:
        return ""
    name = cause.label
    if f"{name}_threshold" not in readings:
        return name
    value = f"{readings[name]:.3g}" if name in readings else "unknown"
    return f"{name}: {value}, threshold {readings[f'{name}_threshold']:g}"


def reset_reason(order: OverrideIssued) -> str:
    """What the event of an ordered reset says; later ones say nothing, as of any closed breaker."""
    name = f" {order.order_id}" if order.order_id else ""
    return f"reset by order{name}: {order.reason:.{MOST_WORDS}}"


def rollback_of(frame: DomainObserved, targets: I32) -> Rollback | None:
    """The next step back to the last good replicas, [1, A]; None where no app needs one."""
    chosen = np.flatnonzero(targets[0] >= 0)
    if chosen.size > _MOST_APPS:
        added = targets[0, chosen] - np.array(frame.pods.replicas)[chosen]
        # The apps that lack most first; the others follow in later ticks.
        chosen = np.sort(chosen[np.argsort(-added, kind="stable")[:_MOST_APPS]])
    if chosen.size == 0:
        return None
    return Rollback(
        apps=[frame.apps[index] for index in chosen.tolist()],
        replicas=targets[0, chosen].tolist(),
    )


def action_for(memory: BreakerMemory, fallback: FallbackMemory) -> Action:
    """What a breaker does in its present state."""
    return action_of(Phase(memory.phase[0, 0]), Cause(memory.cause[0, 0]), level_of(fallback))


def level_of(fallback: FallbackMemory) -> Level:
    """What may decide at most."""
    return Level(fallback.level[0, 0])


def state_of(memory: BreakerMemory, fallback: FallbackMemory) -> State:
    """The published state."""
    # Readers of an earlier release go by the state alone.
    return "open" if level_of(fallback) == Level.HOLD else _STATES[int(memory.phase[0, 0])]


def changed_event(
    scope: str,
    memory: BreakerMemory,
    fallback: FallbackMemory,
    *,
    tick: int,
    time: str,
    reason: str,
    heartbeat: bool,
    readings: dict[str, float],
    trace_id: str = "",
    rollback: Rollback | None = None,
) -> BreakerChanged:
    """The event about a breaker; cause and reason are those of its phase, or of its level."""
    level, fell = level_of(fallback), Cause(fallback.cause[0, 0])
    cause = Cause(memory.cause[0, 0]) or fell
    if not reason and level != Level.POLICY:
        reason = f"fell back to {level.label}"
        # Not known where the state was lost in between.
        reason += f": {fell.label}" if fell else ""
    return BreakerChanged(
        tick=tick,
        time=time,
        trace_id=trace_id,
        scope=scope,
        state=state_of(memory, fallback),
        since_tick=int(memory.since[0, 0]),
        reason=reason,
        heartbeat=heartbeat,
        readings=readings,
        cause="" if cause == Cause.NONE else cause.label,
        action=action_for(memory, fallback),
        rollback=rollback,
        level=_LEVELS[level],
    )
