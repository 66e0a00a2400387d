"""The breaker: frames, forecasts and applied changes in, whether changes may pass out.

Every frame is answered, by a change of state or a heartbeat, so heartbeats follow event time.
When frames stop, the wall clock opens the breaker.
"""

from dataclasses import replace
from datetime import timedelta
from typing import Final

import numpy as np

from models.cluster.description import PRIORITIES, Cluster
from models.control.breaker.actions import Cause, Phase
from models.control.breaker.changes import follow, rollback_targets, start_changes
from models.control.breaker.cluster import ClusterThresholds
from models.control.breaker.fallback import advance_levels, start_fallback
from models.control.breaker.forecasts import forecast_readings, observe_tick
from models.control.breaker.limits import Thresholds
from models.control.breaker.phases import advance, burn, closed, lost, opened, start
from models.control.breaker.readings import AppSamples, Readings, read, unknown
from models.control.fallback import Level
from models.forecaster.port import ticks_per_minute
from schemas.breaker_changed import BreakerChanged, Rollback
from schemas.budget_granted import BudgetGranted
from schemas.demand_forecast import DemandForecast
from schemas.domain_observed import DomainObserved
from schemas.fields import Event
from schemas.override_issued import OverrideIssued
from schemas.pool_observed import PoolObserved
from schemas.scale_applied import ScaleApplied
from services._kit.arrays import blank_observation
from services._kit.clock import Clock
from services._kit.errors import Refused
from services._kit.handler import CLUSTER, Step
from services._kit.levels import LEVELS
from services._kit.orders import BreakerCommand, OrderBook, OrderedHandler
from services._kit.plausible import FUTURE, Pace
from services._kit.state_codec import copied
from services._kit.ticks import parse
from services.breaker.applied import with_applied, without_expired
from services.breaker.cluster import AHEAD_TICKS, ClusterWatch
from services.breaker.events import (
    MOST_WORDS,
    action_for,
    changed_event,
    level_of,
    named_readings,
    reason_of,
    reset_reason,
    rollback_of,
)
from services.breaker.frames import (
    app_samples,
    fresh_record,
    no_samples,
    with_forecast,
    with_frame,
)
from services.breaker.rules import DomainRules, rules_of
from services.breaker.state import BreakerState, fitted_to, with_apps, with_outcomes

_FRAMES: Final = "frames"
_OUTCOMES: Final = "outcomes"
_MOST_AHEAD_TICKS: Final = 360
"""Outcomes and other domains may be this far ahead of a breaker that catches up, in lock-step, and
it may lose as many frames in a row."""


class BreakerHandler(OrderedHandler[BreakerState]):
    """Watches its domains, and with the other processes the cluster."""

    name = "breaker"
    inputs = (DomainObserved, ScaleApplied, DemandForecast)
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
        self.orders, self._tick_s = OrderBook(), cluster.tick_seconds
        # In lock-step the cluster waits for outcomes, not for breakers.
        pace = None if stale_s is None else speed
        self._pace = Pace(cluster.tick_seconds, pace, most_lost=_MOST_AHEAD_TICKS)
        self._per_minute = ticks_per_minute(cluster.tick_seconds)
        self._priorities = {d.name: PRIORITIES.index(d.priority) for d in cluster.domains}

    def learn(self, event: Event, clock: Clock) -> None:  # noqa: ARG002  needs no time
        """Take in the breakers, budgets and pools of the cluster."""
        self._watch.learn(event)

    def forget(self, kind: type[Event], key: str, clock: Clock) -> None:
        """Remove what a tombstone names."""
        super().forget(kind, key, clock)
        self._watch.forget(kind, key)

    def prepare(self) -> None:
        """Compile the kernels: no apps are needed for that."""
        record = observe_tick(blank_observation(0), fresh_record(0), self._per_minute)
        rules, tick, samples = rules_of(self._limits, 0), np.zeros(1, np.int32), no_samples()
        readings = read(samples, np.zeros((1, 1)), rules.mismatch_apps)
        changes = start_changes(1, 1, apps=0)
        readings = follow(tick, samples, readings, np.zeros((1, 1, 2)), changes)
        memory = start(0, 1, rules.table, rules.windows.longest)
        burn(advance(tick, readings, memory, rules.table, rules.windows), rules.windows)
        advance_levels(forecast_readings(record), start_fallback(1, rules.fallback), rules.fallback)

    def start(self, key: str) -> BreakerState:
        """Closed, no frame yet."""
        # An event is published together with its state. So a domain that has one is not new: its
        # state is gone, for example because the topic's partitions or its records were changed.
        return self.lost(key) if key in self._watch.breakers else self._fresh(key)

    def lost(self, key: str) -> BreakerState:
        """Open, because it may have been open. The level is the last that was published."""
        fresh, last = self._fresh(key), self._watch.breakers.last_received(key)
        level = LEVELS["policy" if last is None else last.level]
        return replace(
            fresh,
            memory=lost(fresh.memory),
            reason=Cause.STATE_LOST.label,
            fallback=start_fallback(1, self._rules(key).fallback, level),
        )

    def handle(self, event: Event, state: BreakerState, clock: Clock) -> Step[BreakerState]:
        """Judge a frame, or remember applied changes and forecasts."""
        match event:
            case DomainObserved() if not state.timeline.is_over(event.tick, state.tick):
                return self._take_frame(event, state, clock)
            case ScaleApplied():
                return self._take_outcomes(event, state, clock)
            case DemandForecast() if state.tick >= 0:
                per_minute = self._per_minute
                record = with_forecast(state.forecasts, event, state.tick, per_minute)
                if record is state.forecasts:
                    return Step(state)
                return Step(replace(state, forecasts=record))
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
            # `Clock.now` of the earlier process means nothing here: measure from now on.
            return Step(replace(state, received_at=now))
        reason = f"stale: no frame for {now - state.received_at:.0f} s"
        before = replace(state, frames_stopped=True)
        state, readings, changed = self._advance(unknown(1, 1), before, reason)
        # No heartbeat if it was open already: heartbeats mean that a frame was judged.
        return Step(state, [_event(state, readings, heartbeat=False)] if changed else [])

    def accept(self, key: str, state: BreakerState) -> BreakerState:
        """Fit what other rules saved: refusing it would lose whether the breaker was open."""
        fitted = fitted_to(self._fresh(key), state)
        if fitted.cluster is not None and not self._watch.fits(fitted.cluster):
            return replace(fitted, cluster=None)
        return fitted

    def _take_frame(
        self, frame: DomainObserved, state: BreakerState, clock: Clock
    ) -> Step[BreakerState]:
        judged = state.timeline.judge(_FRAMES, frame, clock.date(), self._pace)
        if judged.starts_over:
            # The first frames were wrong, so it is unknown whether it would have been open.
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

    def _take_outcomes(
        self, event: ScaleApplied, state: BreakerState, clock: Clock
    ) -> Step[BreakerState]:
        """Remember applied changes, if frames can have reached their tick."""
        if self._pace.speed is None:
            # In lock-step frames may lag by any number of ticks, and no clock shows by how many.
            most = state.tick + _MOST_AHEAD_TICKS
            if state.tick >= 0 and event.tick > most:
                raise Refused(FUTURE, f"expected a tick up to {most}, got {event.tick}")
        elif state.timeline.line is None:
            return Step(state)
        else:
            voters, date = frozenset({_FRAMES}), clock.date()
            judged = state.timeline.judge(_OUTCOMES, event, date, self._pace, voters)
            if judged.refused is not None:
                return Step(state, refused=judged.refused)
        applied = with_applied(state.applied, event, state.tick)
        if applied is not state.applied:
            state = replace(state, applied=applied)
        return Step(with_outcomes(state, event))

    def _judge(
        self, frame: DomainObserved, state: BreakerState, clock: Clock
    ) -> Step[BreakerState]:
        first = state.tick < 0
        # Ticks that were skipped: frames can be lost or late.
        age = 0 if first else frame.tick - state.tick - 1
        state, samples = with_apps(state, frame), app_samples(frame, state.applied)
        rules, tick = self._rules(state.domain), np.array([frame.tick], np.int32)
        readings = read(samples, np.full((1, 1), age, np.float64), rules.mismatch_apps)
        outcomes = np.array([[state.outcomes]], np.float64)
        # Updated in place; the input must stay as it is.
        changes = copied(state.changes)
        readings = follow(tick, samples, readings, outcomes, changes)
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
            forecasts=with_frame(state.forecasts, frame, self._per_minute),
        )
        state, named, changed = self._advance(readings, before)
        state, doubts, moved = self._advance_level(state)
        named, changed = named | doubts, changed or moved
        now = clock.date()
        state, ordered, reset = self._obey(frame, state, now)
        changed |= ordered
        events: list[Event] = [
            _event(
                state, named, heartbeat=not (first or changed), trace_id=frame.trace_id,
                rollback=_rollback(frame, samples, state), reason=reset,
            )
        ]  # fmt: skip
        reach = self._reach(state, clock)
        if self._watch.leads(state.domain, frame.tick, reach):
            cluster, event = self._watch.judge(
                frame, state.memory, state.cluster, reach,
                lambda since: self._command(CLUSTER, since, frame, now),
            )  # fmt: skip
            state = replace(state, cluster=cluster)
            events.append(event)
        return Step(state, events)

    def _reach(self, state: BreakerState, clock: Clock) -> int:
        """The last tick to believe of other domains: they may be ahead of one that catches up."""
        line = state.timeline.line
        if self._pace.speed is None or line is None:
            return state.tick + _MOST_AHEAD_TICKS
        due = int(line.due(clock.date(), self._pace))
        return max(state.tick, due) + AHEAD_TICKS

    def _command(
        self, scope: str, since_tick: int, frame: DomainObserved, now: float
    ) -> BreakerCommand | None:
        """What an operator orders a breaker whose phase began at a tick."""
        self.orders.advance(now)
        if not self.orders:
            return None
        time = parse(frame.time)
        since = time - timedelta(seconds=(frame.tick - since_tick) * self._tick_s)
        return self.orders.breaker_command(scope, since, time, now)

    def _obey(
        self, frame: DomainObserved, state: BreakerState, now: float
    ) -> tuple[BreakerState, bool, str]:
        """Obey an operator's order; whether that changed anything, and the reason of a reset."""
        memory = state.memory
        command = self._command(state.domain, int(memory.since[0, 0]), frame, now)
        if command is None:
            return state, False, ""
        phase, order = memory.phase[0, 0], command.order
        if command.action == "open":
            reason = state.reason if phase == Phase.OPEN else f"order: {order.reason:.{MOST_WORDS}}"
            ordered = replace(state, memory=opened(frame.tick, memory), reason=reason)
            return ordered, bool(phase != Phase.OPEN), ""
        if phase == Phase.CLOSED and level_of(state.fallback) == Level.POLICY:
            return state, False, ""
        trusted = start_fallback(1, self._rules(state.domain).fallback)
        closed_again = closed(frame.tick, memory)
        state = replace(state, memory=closed_again, reason="", fallback=trusted)
        return state, True, reset_reason(order)

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

    def _advance_level(self, state: BreakerState) -> tuple[BreakerState, dict[str, float], bool]:
        """The state after a tick, the readings of its forecasts, and whether the level changed."""
        table, values = self._rules(state.domain).fallback, forecast_readings(state.forecasts)
        after = advance_levels(values, state.fallback, table)
        moved = level_of(after) != level_of(state.fallback)
        return replace(state, fallback=after), named_readings(values[0, 0].tolist(), table), moved

    def _fresh(self, domain: str) -> BreakerState:
        rules = self._rules(domain)
        return BreakerState(domain, start(0, 1, rules.table, rules.windows.longest))

    def _rules(self, domain: str) -> DomainRules:
        # A domain that the cluster file does not have counts as P0, the most careful choice.
        return rules_of(self._limits, self._priorities.get(domain, 0))


def _rollback(frame: DomainObserved, samples: AppSamples, state: BreakerState) -> Rollback | None:
    if action_for(state.memory, state.fallback) != "rollback":
        return None
    # The actuator keeps the budget; only the rate is limited here.
    room = np.full((1, 1), np.inf)
    targets = rollback_targets(samples, state.changes, room)
    return rollback_of(frame, targets)


def _event(
    state: BreakerState,
    readings: dict[str, float],
    *,
    heartbeat: bool,
    trace_id: str = "",
    rollback: Rollback | None = None,
    reason: str = "",
) -> BreakerChanged:
    return changed_event(
        state.domain,
        state.memory,
        state.fallback,
        tick=state.tick,
        time=state.time,
        reason=reason or state.reason,
        heartbeat=heartbeat,
        readings=readings,
        trace_id=trace_id,
        rollback=rollback,
    )
