"""The breaker: frames and applied changes in, whether changes may pass out.

Every frame is answered, by a change of state or a heartbeat, so heartbeats follow event time.
When frames stop, the wall clock opens the breaker.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from models.cluster.arrays import F64, I32
from models.control.breaker import (
    AppSamples,
    BreakerMemory,
    Cause,
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

Applied = Mapping[str, tuple[tuple[int, int], ...]]
"""By app: ticks of changes and the replicas they applied, in order."""
SETTLE_TICKS: Final = 3
"""From the tick of a change to the frame that has to show it: frames can be this late."""
WATCH_TICKS: Final = 12
"""For this long the frames have to go on showing it: another owner may change the app later."""
_NO_REPLICAS: Final = -1
_STATES: Final[dict[int, State]] = {
    Phase.CLOSED: "closed",
    Phase.OPEN: "open",
    Phase.HALF_OPEN: "half-open",
}


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
    received_at: Transient[float | None] = None
    """When the last frame arrived, by `Clock.now`; None after a restart, which waits anew."""


class BreakerHandler(Handler[BreakerState]):
    """Watches its domains."""

    name = "breaker"
    inputs = (DomainObserved, ScaleApplied)

    def __init__(self, limits: Thresholds, stale_s: float | None) -> None:
        """Open after `stale_s` seconds without a frame; None: never, in lock-step."""
        self._limits, self._stale = limits, stale_s

    def start(self, key: str) -> BreakerState:
        """Closed, no frame yet."""
        return BreakerState(key, start(0, 1, 1, self._limits))

    def handle(self, event: Event, state: BreakerState, clock: Clock) -> Step[BreakerState]:
        """Judge a frame, or remember applied changes."""
        match event:
            case DomainObserved() if event.tick > state.tick:
                received = replace(state, received_at=clock.now(), frames_stopped=False)
                return self._judge(event, received)
            case ScaleApplied():
                applied = with_applied(state.applied, event, state.tick)
                return Step(state if applied is state.applied else replace(state, applied=applied))
            case _:
                return Step(state)

    def due(self, state: BreakerState) -> float | None:
        """When frames have been missing for too long; at once after a restart."""
        if self._stale is None or state.frames_stopped or state.tick < 0:
            return None
        return 0.0 if state.received_at is None else state.received_at + self._stale

    def wake(self, state: BreakerState, clock: Clock) -> Step[BreakerState]:
        """Open when frames have stopped."""
        due, now = self.due(state), clock.now()
        if due is None or now < due:
            return Step(state)
        if state.received_at is None:
            # `Clock.now` of the process before means nothing here: measure the silence anew.
            return Step(replace(state, received_at=now))
        reason = f"stale: no frame for {now - state.received_at:.0f} s"
        before = replace(state, frames_stopped=True)
        state, readings, changed = self._advance(unknown(1, 1), before, reason)
        # No heartbeat if it was open already: heartbeats mean that a frame was judged.
        return Step(state, [_event(state, readings, False, "")] if changed else [])

    def accept(self, key: str, state: BreakerState) -> BreakerState:
        """Fit the windows to the configured length: refusing them would close an open breaker."""
        length = start(0, 1, 1, self._limits).risk.shape[-1]
        memory = state.memory._replace(risk=_fit_window(state.memory.risk, length))
        return super().accept(key, replace(state, memory=memory))

    def _judge(self, frame: DomainObserved, state: BreakerState) -> Step[BreakerState]:
        first = state.tick < 0
        # Ticks that were skipped: frames can be lost or late.
        age = 0 if first else frame.tick - state.tick - 1
        samples = app_samples(frame, state.applied)
        readings = read(samples, np.full((1, 1), age, np.float64), self._limits)
        before = replace(
            state,
            tick=frame.tick,
            time=frame.time,
            applied=without_expired(state.applied, frame.tick),
            # From the first frame on: `since_tick` names it, and ticks may count from 1970.
            memory=start(frame.tick, 1, 1, self._limits) if first else state.memory,
        )
        state, named, changed = self._advance(readings, before)
        return Step(state, [_event(state, named, not (first or changed), frame.trace_id)])

    def _advance(
        self, readings: Readings, state: BreakerState, stale_reason: str = ""
    ) -> tuple[BreakerState, dict[str, float], bool]:
        """The state after some readings, the readings by name, and whether the phase changed."""
        before = state.memory
        after = advance(np.array([state.tick], np.int32), readings, before, self._limits)
        changed = bool(after.phase[0, 0] != before.phase[0, 0])
        named = _named_readings(readings, after, self._limits)
        reason = state.reason
        # A trial keeps the reason for which the breaker opened.
        trial = before.phase[0, 0] == Phase.OPEN and after.phase[0, 0] == Phase.HALF_OPEN
        if changed and not trial:
            reason = stale_reason or _reason(after, named)
        return replace(state, memory=after, reason=reason), named, changed


def app_samples(frame: DomainObserved, applied: Applied) -> AppSamples:
    """A frame as input of the rules: one environment, one domain."""
    count = len(frame.apps)
    missing = set(frame.missing)
    return AppSamples(
        domain=np.zeros((1, count), np.int32),
        missing=np.array([[app in missing for app in frame.apps]], np.bool_).reshape(1, count),
        rps=_column(frame.measured.get("rps"), count),
        errors=_column(frame.measured.get("errors"), count),
        headroom=_column(frame.features.get("headroom"), count),
        replicas=np.array([frame.pods.replicas], np.int32),
        accepted=accepted_replicas(applied, frame.apps, frame.tick),
    )


def _column(values: Sequence[float | None] | None, count: int) -> F64:
    """[1, A]; NaN where nothing arrived, and everywhere without the column."""
    if not values:
        return np.full((1, count), np.nan)
    return np.array([values], np.float64)


def _fit_window(window: F64, length: int) -> F64:
    """The newest values; zeros before them where the window was shorter."""
    kept = window[..., -length:]
    fill = np.zeros((*window.shape[:-1], length - kept.shape[-1]))
    return np.concatenate([fill, kept], axis=-1)


def _named_readings(
    readings: Readings, memory: BreakerMemory, limits: Thresholds
) -> dict[str, float]:
    """Readings and their thresholds by name; unknown readings are left out."""
    found = {
        "stale": (float(readings.age[0, 0]), limits.stale_ticks),
        "missing": (float(readings.missing[0, 0]), limits.missing_share),
        "mismatch": (float(readings.mismatch[0, 0]), limits.mismatch_share),
        "errors": (float(readings.errors[0, 0]), limits.error_share),
        "burn": (float(burn(memory, limits)[0, 0]), limits.burn_share),
    }
    named: dict[str, float] = {}
    for name, (value, threshold) in found.items():
        if np.isfinite(value):
            named[name] = round(value, 6)
        named[f"{name}_threshold"] = threshold
    return named


def _reason(memory: BreakerMemory, readings: Mapping[str, float]) -> str:
    """Why it opened; empty when it closed."""
    cause = Cause(memory.cause[0, 0])
    if cause == Cause.NONE:
        return ""
    name = cause.name.lower()
    value = f"{readings[name]:.3g}" if name in readings else "unknown"
    return f"{name}: {value}, threshold {readings[f'{name}_threshold']:g}"


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


# Applied changes, which the next frames have to show.
#
# A lost write is requested again in the next tick, often with another number. So a newer change
# does not replace an older one: the observed replicas have to be a number that was in force at
# some time since the settling time began.


def with_applied(applied: Applied, event: ScaleApplied, newest_tick: int) -> Applied:
    """Add applied changes; the same mapping if there are none."""
    # Delivered late or again: no frame to come is compared with it.
    if event.tick < newest_tick - SETTLE_TICKS - WATCH_TICKS:
        return applied
    added = {}
    for index, app in enumerate(event.apps):
        before = applied.get(app, ())
        if event.outcomes[index] != "applied" or (before and before[-1][0] >= event.tick):
            continue
        replicas = event.replicas[index]
        # A mere resize says nothing about replicas, unless a change of them is still watched.
        if before or replicas != event.replicas_before[index]:
            added[app] = (*before, (event.tick, replicas))
    return {**applied, **added} if added else applied


def without_expired(applied: Applied, tick: int) -> Applied:
    """Drop the changes that no frame after this tick is compared with."""
    last = tick - SETTLE_TICKS - WATCH_TICKS
    return {
        app: _in_force(changes, tick) for app, changes in applied.items() if changes[-1][0] > last
    }


def accepted_replicas(applied: Applied, apps: Sequence[str], tick: int) -> I32:
    """[1, A, K] replicas that a frame may show; -1 pads, and marks apps that are not judged."""
    # Few apps change within two minutes: look only those up.
    changed = [(index, applied[app]) for index, app in enumerate(apps) if app in applied]
    rows = {index: _accepted(changes, tick) for index, changes in changed}
    width = max(map(len, rows.values()), default=0)
    table = np.full((1, len(apps), width), _NO_REPLICAS, np.int32)
    for index, row in rows.items():
        table[0, index, : len(row)] = row
    return table


def _accepted(changes: tuple[tuple[int, int], ...], tick: int) -> list[int]:
    if changes[0][0] > tick - SETTLE_TICKS:
        return []
    return [replicas for _, replicas in _in_force(changes, tick)]


def _in_force(changes: tuple[tuple[int, int], ...], tick: int) -> tuple[tuple[int, int], ...]:
    """From the change on that was in force when the settling time began."""
    settled = sum(at <= tick - SETTLE_TICKS for at, _ in changes)
    return changes[max(settled - 1, 0) :]
