"""What must never be, whatever happens to the actuator."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import msgspec

from schemas.breaker_changed import BreakerChanged
from schemas.fields import Event
from schemas.override_issued import OverrideIssued
from schemas.scale_applied import ScaleApplied
from services._kit.clock import Clock
from services._kit.handler import Step
from services.actuator.decide import ActuatorHandler
from services.actuator.settings import STALE_TICKS
from services.actuator.state import ActuatorState
from services.actuator.target import Write
from services.simcluster.target import Entry
from tests.behaviour.protocol.actuator_events import BEGIN, STALE_S
from tests.behaviour.protocol.turns import Forbidden
from tests.service_helpers import heartbeat

Learned = tuple[BreakerChanged | OverrideIssued, float]
"""A heartbeat or an order, and when a process learned it."""


class Saved(NamedTuple):
    """What a saved state says."""

    closed: int
    epoch: int
    """Of the newest budget."""


def saved_of(state: ActuatorState) -> Saved:
    epoch = max((budget.epoch for budget in state.budgets), default=-1)
    return Saved(state.closed, epoch)


def older(before: Saved, after: Saved) -> str:
    """What goes back when a state replaces another one."""
    if after.closed < before.closed:
        return f"a state of tick {before.closed} is replaced by one of {after.closed}"
    if after.epoch < before.epoch:
        return f"a state of epoch {before.epoch} is replaced by one of {after.epoch}"
    return ""


@cache
def outcome_of(value: bytes) -> ScaleApplied:
    """A published event."""
    return msgspec.json.decode(value, type=ScaleApplied)


def disagreement(journal: Sequence[Entry], outcomes: Sequence[bytes]) -> str:
    """What the target's journal and the published outcomes say differently about a change."""
    made: dict[tuple[str, str], Entry] = {}
    newest: dict[str, int] = {}
    for entry in journal:
        if entry.outcome != "applied":
            continue
        if (entry.decision_id, entry.app) in made:
            return f"{entry.app} is changed twice by {entry.decision_id}"
        if newest.get(entry.app, -1) > entry.tick:
            return f"tick {entry.tick} of {entry.app} overwrites tick {newest[entry.app]}"
        made[entry.decision_id, entry.app], newest[entry.app] = entry, entry.tick
    ticks = [outcome_of(value).tick for value in outcomes]
    if len(set(ticks)) < len(ticks):
        return f"tick {max(ticks, key=ticks.count)} has two outcomes"
    return next(filter(None, (_untrue(outcome_of(value), made) for value in outcomes)), "")


def _untrue(event: ScaleApplied, made: dict[tuple[str, str], Entry]) -> str:
    for index, app in enumerate(event.apps):
        entry, outcome = made.get((event.decision_id, app)), event.outcomes[index]
        if (outcome == "applied") != (entry is not None):
            journal = "nothing" if entry is None else "a change"
            return f"tick {event.tick} of {app} is {outcome}, and the journal has {journal}"
        if entry is None or entry.before is None or entry.after is None:
            continue
        found = entry.before.replicas, entry.after.replicas
        if found != (event.replicas_before[index], event.replicas[index]):
            return f"tick {event.tick} of {app} is applied from and to other numbers"
    return ""


def forbidden(learned: Sequence[Learned], tick: int, now: float, *, lock_step: bool) -> str:
    """Why a process that learned this must not request changes; empty if it may."""
    beats = [(heartbeat(0), BEGIN)]
    for event, at in learned:
        if isinstance(event, OverrideIssued):
            return "although the domain is off"
        beats.append((event, at))
    newest, at = max(beats, key=lambda one: (one[0].tick, one[0].state == "open"))
    if newest.state == "open":
        return "although the breaker is open"
    # In lock-step the cluster waits, so that wall time means nothing.
    late = now - at > STALE_S and not lock_step
    return "although the breaker is stale" if late or tick - newest.tick > STALE_TICKS else ""


class _Watching(ActuatorHandler):
    """Checks each step for changes that the process should know better than to request."""

    objection: Callable[[int, float], str]
    """Why a tick must not be changed at a time, by what the process knows."""

    def handle(self, event: Event, state: ActuatorState, clock: Clock) -> Step[ActuatorState]:
        return self._checked(super().handle(event, state, clock), clock)

    def written(self, result: Any, state: ActuatorState, clock: Clock) -> Step[ActuatorState]:
        return self._checked(super().written(result, state, clock), clock)

    def wake(self, state: ActuatorState, clock: Clock) -> Step[ActuatorState]:
        return self._checked(super().wake(state, clock), clock)

    def _checked(self, step: Step[ActuatorState], clock: Clock) -> Step[ActuatorState]:
        for write in step.writes:
            if isinstance(write, Write) and write.changes:
                objection = self.objection(write.tick, clock.now())
                if objection:
                    raise Forbidden(f"a change of tick {write.tick} is requested {objection}")
        return step


def watching(kind: type[ActuatorHandler]) -> type[_Watching]:
    """The same handler, watched."""
    return type("Watching", (_Watching, kind), {})
