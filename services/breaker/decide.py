"""The breaker: frames and applied changes in, whether changes may pass out.

Every frame is answered, by a change of state or a heartbeat, so heartbeats follow event time.
When frames stop, the wall clock opens the breaker.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cache
from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64, I32
from models.cluster.description import PRIORITIES, Cluster
from models.control.breaker.changes import (
    ChangeMemory,
    follow,
    rollback_targets,
    start_changes,
)
from models.control.breaker.cluster import ClusterThresholds
from models.control.breaker.limits import GRADES, Table, Thresholds, graded, table_of
from models.control.breaker.orders import Cause, Phase
from models.control.breaker.phases import (
    BreakerMemory,
    BurnWindows,
    advance,
    burn,
    closed,
    lost,
    opened,
    start,
    windows_of,
)
from models.control.breaker.readings import AppSamples, Readings, members, read, unknown
from schemas.breaker_changed import BreakerChanged, Rollback
from schemas.budget_granted import BudgetGranted
from schemas.domain_observed import DomainObserved
from schemas.fields import Event
from schemas.override_issued import OverrideIssued
from schemas.pool_observed import PoolObserved
from schemas.scale_applied import ScaleApplied
from services._kit.clock import Clock
from services._kit.errors import Refused
from services._kit.handler import Handler, Step
from services._kit.orders import OrderBook
from services._kit.plausible import Pace, Timeline
from services._kit.state_codec import Transient, check_form, refit
from services._kit.ticks import parse
from services.breaker.applied import (
    Applied,
    accepted_replicas,
    held_changes,
    with_applied,
    without_expired,
)
from services.breaker.cluster import ClusterBreaker, ClusterWatch
from services.breaker.events import changed_event, named_readings, order_of, reason_of, rollback_of

_FRAMES: Final = "frames"
_FRESH_CHANGES: Final = start_changes(1, 1, 0)


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
    timeline: Timeline = field(default_factory=Timeline)
    received_at: Transient[float | None] = None
    """When the last frame arrived, by `Clock.now`; None after a restart, which waits anew."""


class Rules(NamedTuple):
    """The rules of one domain."""

    table: Table
    windows: BurnWindows
    mismatch_apps: I32
    stale_part: float
    """On the wall time without frames."""


@cache
def _rules_of(limits: Thresholds, priority: int) -> Rules:
    own = graded(limits, priority)
    return Rules(
        table=table_of([own]),
        windows=windows_of((own,)),
        mismatch_apps=np.array([own.mismatch_apps], np.int32),
        stale_part=GRADES[priority].stale,
    )


class BreakerHandler(Handler[BreakerState]):
    """Watches its domains, and with the other processes the cluster."""

    name = "breaker"
    inputs = (DomainObserved, ScaleApplied)
    reference = (BreakerChanged, BudgetGranted, PoolObserved, OverrideIssued)

    def __init__(
        self,
        cluster: Cluster,
        limits: Thresholds,
        stale_s: float | None,
        cluster_limits: ClusterThresholds | None = None,
        speed: float = 1.0,
    ) -> None:
        """Open after `stale_s` seconds without a frame in P2; None: never, in lock-step."""
        self._watch = ClusterWatch(cluster, cluster_limits or ClusterThresholds(), limits)
        self._limits, self._stale = limits, stale_s
        self._orders, self._tick_s = OrderBook(), cluster.tick_seconds
        self._pace = Pace(cluster.tick_seconds, None if stale_s is None else speed)
        self._priorities = {d.name: PRIORITIES.index(d.priority) for d in cluster.domains}

    def learn(self, event: Event, clock: Clock) -> None:  # noqa: ARG002  needs no time
        """Take in the breakers, budgets and pools of the cluster."""
        self._watch.learn(event)

    def learn_recorded(self, event: Event, recorded_at: float, clock: Clock) -> None:
        """Take in orders by the time of their records, everything else as it is."""
        if isinstance(event, OverrideIssued):
            self._orders.learn(event, recorded_at)
        else:
            self.learn(event, clock)

    def forget(self, kind: type[Event], key: str, clock: Clock) -> None:
        """Remove what a tombstone names."""
        if kind is OverrideIssued:
            self._orders.forget(key, clock.date())
        else:
            self._watch.forget(kind, key)

    def start(self, key: str) -> BreakerState:
        """Closed, no frame yet."""
        rules = self._rules(key)
        return BreakerState(key, start(0, 1, rules.table, rules.windows.longest))

    def lost(self, key: str) -> BreakerState:
        """Open: nobody knows whether it was."""
        fresh = self.start(key)
        return replace(fresh, memory=lost(fresh.memory), reason=Cause.STATE_LOST.label)

    def handle(self, event: Event, state: BreakerState, clock: Clock) -> Step[BreakerState]:
        """Judge a frame, or remember applied changes."""
        match event:
            case DomainObserved() if not state.timeline.is_over(event.tick, state.tick):
                return self._take_frame(event, state, clock)
            case ScaleApplied():
                applied = with_applied(state.applied, event, state.tick)
                if applied is not state.applied:
                    state = replace(state, applied=applied)
                return Step(_with_outcomes(state, event))
            case _:
                return Step(state)

    def due(self, state: BreakerState) -> float | None:
        """When frames have been missing for too long; at once after a restart."""
        if self._stale is None or state.frames_stopped or state.tick < 0:
            return None
        if state.received_at is None:
            return 0.0
        return state.received_at + self._stale * self._rules(state.domain).stale_part

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
        return Step(state, [_event(state, readings, heartbeat=False)] if changed else [])

    def accept(self, key: str, state: BreakerState) -> BreakerState:
        """Fit what other rules saved: refusing it would lose whether the breaker was open."""
        memory, form = state.memory, self.start(key).memory
        phases, causes = ({*map(int, kind)} for kind in (Phase, Cause))
        if not ({*memory.phase.flat} <= phases and {*memory.cause.flat} <= causes):
            raise Refused("form", "expected a known phase and cause")
        memory = memory._replace(risk=_fit_window(memory.risk, form.risk.shape[-1]))
        if memory.held.shape != form.held.shape:
            # Other conditions: each has to hold for its whole time again.
            memory = memory._replace(held=form.held)
        fitted = replace(state, memory=memory)
        if state.cluster is not None and not self._watch.fits(state.cluster.memory):
            fitted = replace(fitted, cluster=None)
        if state.changes.replicas.shape[-1] != len(state.names):
            raise Refused("form", "expected a column of `changes` per name")
        check_form(fitted.memory, form)
        check_form(fitted.changes, _FRESH_CHANGES)
        return fitted

    def _take_frame(
        self, frame: DomainObserved, state: BreakerState, clock: Clock
    ) -> Step[BreakerState]:
        # In lock-step ticks pass as fast as they can, and a gap of them opens the breaker.
        if self._stale is not None:
            judged = state.timeline.judge(_FRAMES, frame, clock.date(), self._pace)
            if judged.anew:
                # The first frames were wrong; nobody knows whether it would have been open.
                state = self.lost(state.domain)
            state = replace(state, timeline=judged.timeline)
            if judged.refused is not None:
                return Step(state, refused=judged.refused)
        if frame.tick <= state.tick:
            return Step(state)
        received = replace(
            state,
            received_at=clock.now(),
            frames_stopped=False,
            timeline=state.timeline.settled(),
        )
        return self._judge(frame, received, clock)

    def _judge(
        self, frame: DomainObserved, state: BreakerState, clock: Clock
    ) -> Step[BreakerState]:
        first = state.tick < 0
        # Ticks that were skipped: frames can be lost or late.
        age = 0 if first else frame.tick - state.tick - 1
        state, samples = _with_apps(state, frame), app_samples(frame, state.applied)
        rules, tick = self._rules(state.domain), np.array([frame.tick], np.int32)
        readings = read(samples, np.full((1, 1), age, np.float64), rules.mismatch_apps)
        outcomes = np.array([[state.outcomes]], np.float64)
        readings, changes = follow(tick, samples, readings, outcomes, state.changes)
        memory = state.memory
        if first:
            # From the first frame on: `since_tick` names it, and ticks may count from 1970.
            memory = memory._replace(since=np.full_like(memory.since, frame.tick))
        before = replace(
            state,
            tick=frame.tick,
            time=frame.time,
            applied=without_expired(state.applied, frame.tick),
            changes=changes,
            outcomes=(0, 0),
            memory=memory,
        )
        state, named, changed = self._advance(readings, before)
        state, ordered = self._obey(frame, state, clock.date())
        changed |= ordered
        events: list[Event] = [
            _event(
                state, named, heartbeat=not (first or changed), trace_id=frame.trace_id,
                rollback=_rollback(frame, samples, state),
            )
        ]  # fmt: skip
        if self._watch.leads(state.domain, frame.tick):
            cluster, event = self._watch.judge(frame, state.memory, state.cluster)
            state = replace(state, cluster=cluster)
            events.append(event)
        return Step(state, events)

    def _obey(
        self, frame: DomainObserved, state: BreakerState, now: float
    ) -> tuple[BreakerState, bool]:
        """Open or close by an operator's order, and whether that changed anything."""
        self._orders.advance(now)
        if not self._orders:
            return state, False
        time, memory = parse(frame.time), state.memory
        since = time - timedelta(seconds=(frame.tick - int(memory.since[0, 0])) * self._tick_s)
        command = self._orders.breaker_command(state.domain, since, time, now)
        if command is None:
            return state, False
        phase, order = memory.phase[0, 0], command.order
        if command.action == "open":
            reason = state.reason if phase == Phase.OPEN else f"order: {order.reason}"
            ordered = replace(state, memory=opened(frame.tick, memory), reason=reason)
            return ordered, bool(phase != Phase.OPEN)
        if phase == Phase.CLOSED:
            return state, False
        return replace(state, memory=closed(frame.tick, memory), reason=""), True

    def _advance(
        self, readings: Readings, state: BreakerState, stale_reason: str = ""
    ) -> tuple[BreakerState, dict[str, float], bool]:
        """The state after some readings, the readings by name, and whether the phase changed."""
        before, rules = state.memory, self._rules(state.domain)
        tick = np.array([state.tick], np.int32)
        after = advance(tick, readings, before, rules.table, rules.windows)
        # Also where another cause takes over: it orders something else.
        turned = after.cause[0, 0] != before.cause[0, 0]
        changed = bool(turned or after.phase[0, 0] != before.phase[0, 0])
        values = readings._replace(risk=burn(after, rules.windows))
        named = named_readings([float(one[0, 0]) for one in values], rules.table)
        reason = state.reason
        # A trial keeps the reason for which the breaker opened.
        trial = before.phase[0, 0] == Phase.OPEN and after.phase[0, 0] == Phase.HALF_OPEN
        if changed and not trial:
            reason = stale_reason or reason_of(after, named)
        return replace(state, memory=after, reason=reason), named, changed

    def _rules(self, domain: str) -> Rules:
        # A domain that the cluster file does not have: nobody said that it matters little.
        return _rules_of(self._limits, self._priorities.get(domain, 0))


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
        cpu=np.array([frame.pods.cpu_request], np.int32),
        pending=np.array([frame.pods.pending], np.int32),
        accepted=accepted_replicas(applied, frame.apps, frame.tick),
    )


def _column(values: Sequence[float | None] | None, count: int) -> F64:
    """[1, A]; NaN where nothing arrived, and everywhere without the column."""
    if not values:
        return np.full((1, count), np.nan)
    return np.array([values], np.float64)


def _with_apps(state: BreakerState, frame: DomainObserved) -> BreakerState:
    """Follow a changed inventory."""
    names = tuple(frame.apps)
    if names == state.names:
        return state
    fresh = start_changes(1, 1, len(names))
    changes = refit(state.changes, fresh, _FRESH_CHANGES, state.names, names)
    return replace(state, names=names, changes=changes)


def _with_outcomes(state: BreakerState, event: ScaleApplied) -> BreakerState:
    """Add the changes of a tick to those since the last frame."""
    if event.tick <= state.counted_tick or not event.apps:  # delivered again, or nothing to count
        return state
    planned, held = (a + b for a, b in zip(state.outcomes, held_changes(event), strict=True))
    return replace(state, outcomes=(planned, held), counted_tick=event.tick)


def _rollback(frame: DomainObserved, samples: AppSamples, state: BreakerState) -> Rollback | None:
    if order_of(state.memory) != "rollback":
        return None
    # The actuator keeps the budget; only the rate is limited here.
    room = np.full((1, 1), np.inf)
    targets = rollback_targets(samples, state.changes, room, members(samples.domain, 1))
    return rollback_of(frame, targets)


def _fit_window(window: F64, length: int) -> F64:
    """The newest values; zeros before them where the window was shorter."""
    kept = window[..., -length:]
    fill = np.zeros((*window.shape[:-1], length - kept.shape[-1]))
    return np.concatenate([fill, kept], axis=-1)


def _event(
    state: BreakerState,
    readings: dict[str, float],
    *,
    heartbeat: bool,
    trace_id: str = "",
    rollback: Rollback | None = None,
) -> BreakerChanged:
    return changed_event(
        state.domain,
        state.memory,
        tick=state.tick,
        time=state.time,
        reason=state.reason,
        heartbeat=heartbeat,
        readings=readings,
        trace_id=trace_id,
        rollback=rollback,
    )
