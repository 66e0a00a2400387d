"""The breaker: frames and what was applied in, whether changes may pass out.

Every frame is answered, by a change or a heartbeat; so the heartbeat follows event time, and
whoever reads it knows that somebody looked. When frames stop, the wall clock opens the breaker.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from models.cluster.arrays import F64
from models.control.breaker import (
    AppSamples,
    Cause,
    Memory,
    Phase,
    Readings,
    Thresholds,
    advance,
    burn,
    read,
    start,
    unknown,
)
from schemas.breaker_changed import BreakerChanged, State
from schemas.domain_observed import DomainObserved
from schemas.fields import Event
from schemas.scale_applied import ScaleApplied
from services._kit.clock import Clock
from services._kit.handler import Handler, Step
from services._kit.state_codec import Transient
from services.breaker.watch import Asked, accepted, forget, note

_STATES: Final[dict[int, State]] = {
    Phase.CLOSED: "closed",
    Phase.OPEN: "open",
    Phase.HALF_OPEN: "half-open",
}


@dataclass(frozen=True)
class BreakerState:
    """Of one domain."""

    domain: str
    memory: Memory
    tick: int = -1
    """Of the last frame."""
    time: str = ""
    """Of the same."""
    reason: str = ""
    """Why it is not closed."""
    asked: Asked = field(default_factory=dict)
    silent: bool = False
    """Frames have stopped, and it has opened for that."""
    heard: Transient[float | None] = None
    """When the last frame came, by `Clock.now`; not saved: after a restart silence begins anew."""


class BreakerHandler(Handler[BreakerState]):
    """Watches its domains."""

    name = "breaker"
    inputs = (DomainObserved, ScaleApplied)

    def __init__(self, limits: Thresholds, stale_s: float | None) -> None:
        """Open after `stale_s` seconds without a frame; None: never, in lock-step."""
        self._limits, self._stale = limits, stale_s

    def start(self, key: str) -> BreakerState:
        """Closed; nothing seen yet."""
        return BreakerState(key, start(0, 1, 1, self._limits))

    def handle(self, event: Event, state: BreakerState, clock: Clock) -> Step[BreakerState]:
        """Judge a frame, or remember what was applied."""
        match event:
            case DomainObserved() if event.tick > state.tick:
                return self._judge(event, replace(state, heard=clock.now(), silent=False))
            case ScaleApplied():
                asked = note(state.asked, event, state.tick)
                return Step(state if asked is state.asked else replace(state, asked=asked))
            case _:
                return Step(state)

    def due(self, state: BreakerState) -> float | None:
        """When frames have been missing for too long; at once where nobody knows since when."""
        if self._stale is None or state.silent or state.tick < 0:
            return None
        return 0.0 if state.heard is None else state.heard + self._stale

    def wake(self, state: BreakerState, clock: Clock) -> Step[BreakerState]:
        """Open when frames have stopped."""
        due, now = self.due(state), clock.now()
        if due is None or now < due:
            return Step(state)
        if state.heard is None:
            return Step(replace(state, heard=now))
        silence = f"stale: no frame for {now - state.heard:.0f} s"
        opened, said, turned = self._turn(unknown(1, 1), replace(state, silent=True), silence)
        # Where it was open already: a heartbeat without a frame would say that somebody looked.
        return Step(opened, [_event(opened, said, False, "")] if turned else [])

    def accept(self, key: str, state: BreakerState) -> BreakerState:
        """Fit the windows to the configured length: refusing them would close an open breaker."""
        length = start(0, 1, 1, self._limits).risk.shape[-1]
        memory = state.memory._replace(risk=_fit(state.memory.risk, length))
        return super().accept(key, replace(state, memory=memory))

    def _judge(self, frame: DomainObserved, state: BreakerState) -> Step[BreakerState]:
        first = state.tick < 0
        age = 0 if first else frame.tick - state.tick - 1
        sight = sight_of(frame, state.asked)
        readings = read(sight, np.full((1, 1), age, np.float64), self._limits)
        memory = start(frame.tick, 1, 1, self._limits) if first else state.memory
        asked = forget(state.asked, frame.tick)
        seen = replace(state, tick=frame.tick, time=frame.time, asked=asked, memory=memory)
        now, said, turned = self._turn(readings, seen)
        return Step(now, [_event(now, said, not (first or turned), frame.trace_id)])

    def _turn(
        self, readings: Readings, state: BreakerState, silence: str = ""
    ) -> tuple[BreakerState, dict[str, float], bool]:
        """The state after one set of readings, what is said of them, and if its phase changed."""
        before = state.memory
        after = advance(np.array([state.tick], np.int32), readings, before, self._limits)
        turned = bool(after.phase[0, 0] != before.phase[0, 0])
        said = _said(readings, after, self._limits)
        reason = state.reason
        # A trial is for the reason that it was opened for.
        tried = before.phase[0, 0] == Phase.OPEN and after.phase[0, 0] == Phase.HALF_OPEN
        if turned and not tried:
            reason = silence or _reason(after, said)
        return replace(state, memory=after, reason=reason), said, turned


def sight_of(frame: DomainObserved, asked: Asked) -> AppSamples:
    """A frame as the rules take it: one environment, one domain."""
    count = len(frame.apps)
    gone = set(frame.missing)
    return AppSamples(
        domain=np.zeros((1, count), np.int32),
        missing=np.array([[app in gone for app in frame.apps]], np.bool_).reshape(1, count),
        rps=_column(frame.measured.get("rps"), count),
        errors=_column(frame.measured.get("errors"), count),
        headroom=_column(frame.features.get("headroom"), count),
        replicas=np.array([frame.pods.replicas], np.int32),
        accepted=accepted(asked, frame.apps, frame.tick),
    )


def _column(values: Sequence[float | None] | None, count: int) -> F64:
    """[1, A]; NaN where nothing arrived, and everywhere without the column."""
    if not values:
        return np.full((1, count), np.nan)
    return np.array([values], np.float64)


def _fit(window: F64, length: int) -> F64:
    """The newest part, after nothing burned where it is too short."""
    kept = window[..., -length:]
    fill = np.zeros((*window.shape[:-1], length - kept.shape[-1]))
    return np.concatenate([fill, kept], axis=-1)


def _said(readings: Readings, memory: Memory, limits: Thresholds) -> dict[str, float]:
    """Readings beside their thresholds; what is not known is left out."""
    found = {
        "stale": (float(readings.age[0, 0]), limits.stale_ticks),
        "missing": (float(readings.missing[0, 0]), limits.missing_share),
        "mismatch": (float(readings.mismatch[0, 0]), limits.mismatch_share),
        "errors": (float(readings.errors[0, 0]), limits.error_share),
        "burn": (float(burn(memory, limits)[0, 0]), limits.burn_share),
    }
    said: dict[str, float] = {}
    for name, (value, threshold) in found.items():
        if np.isfinite(value):
            said[name] = round(value, 6)
        said[f"{name}_threshold"] = threshold
    return said


def _reason(memory: Memory, said: Mapping[str, float]) -> str:
    """Why it opened; nothing when it closed."""
    cause = Cause(memory.cause[0, 0])
    if cause == Cause.NONE:
        return ""
    name = cause.name.lower()
    value = f"{said[name]:.3g}" if name in said else "unknown"
    return f"{name}: {value}, threshold {said[f'{name}_threshold']:g}"


def _event(
    state: BreakerState, readings: dict[str, float], heartbeat: bool, trace_id: str
) -> BreakerChanged:
    return BreakerChanged(
        tick=state.tick,
        time=state.time,
        trace_id=trace_id,
        scope=state.domain,
        state=_STATES[int(state.memory.phase[0, 0])],
        since_tick=int(state.memory.since[0, 0]),
        reason=state.reason,
        heartbeat=heartbeat,
        readings=readings,
    )
