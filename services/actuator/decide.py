"""The actuator: plans in, what was done with each change out; the writes in between are values.

A plan waits for the frame of its tick and the budget it was made under. Then it is ruled on
(`ruling.py`) and the target is asked for what is left. What is asked is remembered first, so that
a restart asks again, and the target, which knows the decision, changes nothing twice.

Frames may be ahead of plans: they wait for their plan, in memory until something else is saved,
because nearly always the plan comes next.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Self

import msgspec
import numpy as np

from models.cluster.description import Cluster
from models.cluster.observation import STATUS
from models.cluster.plan import empty_plan
from models.control.change_history import ChangeHistory
from models.control.safety import SafetyRules
from schemas.app_declared import AppDeclared
from schemas.breaker_changed import BreakerChanged
from schemas.budget_granted import BudgetGranted
from schemas.domain_observed import DomainObserved
from schemas.fields import Event
from schemas.override_issued import OverrideIssued
from schemas.scale_applied import Outcome, ScaleApplied
from schemas.scale_planned import ScalePlanned
from services._kit.budgets import Budgets, binding, briefing_of, keep
from services._kit.clock import Clock
from services._kit.frames import abridged
from services._kit.handler import Handler, Step
from services._kit.roster import PerDomain, Roster
from services._kit.state_codec import Transient, copied, refit
from services.actuator.permission import STALE_TICKS, Modes, Permissions
from services.actuator.ruling import COLUMNS, Grounds, Ruling, applied_of, hold_all, rule
from services.actuator.target import Change, Write, Written

_RULED_BY: Final = ("missing",)
"""Features that the rules look at."""
_FRAMES: Final = 6
"""So far may plans be behind; what they were made from a minute ago is not to be acted on."""
_OUTCOMES: Final[dict[str, Outcome]] = {
    "applied": "applied",
    "repeat": "applied",
    "superseded": "superseded",
    "unknown": "held",
    "refused": "held",
}


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """A tick whose write is under way, and what will be said when it is answered."""

    write: Write
    applied: ScaleApplied


@dataclass(frozen=True)
class ActuatorState:
    """Of one domain."""

    domain: str
    restraint: ChangeHistory
    closed: int = -1
    """The last tick of which the target was asked."""
    names: tuple[str, ...] = ()
    budgets: Budgets = ()
    plan: ScalePlanned | None = None
    """That waits for its frame or its budget."""
    saved_frames: tuple[DomainObserved, ...] = ()
    new_frames: Transient[tuple[DomainObserved, ...]] = ()
    """Frames that are not saved yet; delivered again after a restart."""
    since: Transient[float | None] = None
    """Since when the plan waits, by `Clock.now`; None until this process has looked at it."""
    pending: Pending | None = None

    @property
    def frames(self) -> dict[int, DomainObserved]:
        """By tick: those that are not closed."""
        return {frame.tick: frame for frame in (*self.saved_frames, *self.new_frames)}

    def with_frames(self, frames: Mapping[int, DomainObserved]) -> Self:
        """Keep these frames, and save them."""
        return replace(self, saved_frames=tuple(frames.values()), new_frames=())


class ActuatorHandler(Handler[ActuatorState]):
    """Applies the plans of its domains."""

    name = "actuator"
    inputs = (ScalePlanned, DomainObserved, BudgetGranted)
    reference = (AppDeclared, BreakerChanged, OverrideIssued)

    def __init__(
        self,
        cluster: Cluster,
        modes: Modes,
        grace_s: float | None,
        breaker_stale_s: float | None,
        breaker_stale_ticks: int = STALE_TICKS,
    ) -> None:
        self._roster, self._grace = Roster(cluster), grace_s
        self._permissions = Permissions(modes, breaker_stale_s, breaker_stale_ticks)
        self._rules = PerDomain(self._roster, SafetyRules)

    def learn(self, event: Event, clock: Clock) -> None:
        """Apps, orders and heartbeats."""
        if isinstance(event, AppDeclared):
            self._roster.learn(event)
        elif isinstance(event, BreakerChanged | OverrideIssued):
            self._permissions.learn(event, clock.now())

    def forget(self, kind: type[Event], key: str, clock: Clock) -> None:  # noqa: ARG002  needs no time
        """An app, an order or a heartbeat that was removed."""
        if kind is AppDeclared:
            self._roster.forget(key)
        else:
            self._permissions.forget(kind, key)

    def prepare(self) -> None:
        """Let the kernels be compiled: without apps it takes as long as with them."""
        rules, row = self._rules.without_apps(), np.zeros((1, 0), np.float32)
        budget = briefing_of(None, self._roster).budget
        plan = empty_plan(1, 0, len(self._roster.pools))
        status, tick = np.zeros((1, STATUS, 0), np.int32), np.zeros(1, np.int32)
        rules.step(tick, status, row, row, budget, rules.start(1), plan)

    def start(self, key: str) -> ActuatorState:
        """Nothing was changed yet."""
        return ActuatorState(key, self._rules.without_apps().start(1))

    def handle(self, event: Event, state: ActuatorState, clock: Clock) -> Step[ActuatorState]:
        """Take in a frame, a budget or a plan, and apply the plan when all are there."""
        match event:
            case BudgetGranted():
                budgets = keep(state.budgets, event)
                if budgets is state.budgets:
                    return Step(state)
                state = state.with_frames(state.frames)
                return self._proceed(replace(state, budgets=budgets), clock)
            case DomainObserved() if event.tick > state.closed:
                return self._see(event, state, clock)
            case ScalePlanned() if event.tick > state.closed:
                return self._arrive(event, state, clock)
            case _:
                return Step(state)

    def written(self, result: Any, state: ActuatorState, clock: Clock) -> Step[ActuatorState]:
        """Say what became of the changes, once; then go on with what waits."""
        pending = state.pending
        if not isinstance(result, Written) or pending is None or pending.write.tick != result.tick:
            return Step(state)
        state = state.with_frames(state.frames)
        step = self._proceed(replace(state, pending=None), clock)
        return step._replace(events=[_said(pending.applied, result), *step.events])

    def due(self, state: ActuatorState) -> float | None:
        """At once where a write was not answered; else when the plan has waited long enough."""
        if state.pending is not None:
            return 0.0
        if state.plan is None or self._grace is None:
            return None
        return 0.0 if state.since is None else state.since + self._grace

    def wake(self, state: ActuatorState, clock: Clock) -> Step[ActuatorState]:
        """Ask again what was not answered before a restart; apply what has waited long enough."""
        if state.pending is not None:
            return Step(state, writes=[state.pending.write])
        return self._proceed(state, clock)

    def _see(
        self, frame: DomainObserved, state: ActuatorState, clock: Clock
    ) -> Step[ActuatorState]:
        """Keep a frame for its plan."""
        if frame.tick in state.frames:
            return Step(state, settled=frame.tick not in {one.tick for one in state.new_frames})
        frame = abridged(frame, _RULED_BY)
        if state.plan is None and len(state.frames) < _FRAMES:
            return Step(replace(state, new_frames=(*state.new_frames, frame)), settled=False)
        # A plan waits for it; or there are no plans, and frames must not wait for them for ever.
        return self._proceed(state.with_frames(_with_frame(frame, state)), clock)

    def _arrive(
        self, plan: ScalePlanned, state: ActuatorState, clock: Clock
    ) -> Step[ActuatorState]:
        """A plan that still waits is superseded by the next one."""
        self._roster.check(plan.domain)
        waits = state.plan
        if waits is not None and waits.tick >= plan.tick:
            return Step(state)
        arrived = replace(state.with_frames(state.frames), plan=plan, since=clock.now())
        step = self._proceed(arrived, clock)
        if waits is None:
            return step
        ruling = hold_all(waits, "newer-plan")
        gone = self._answer(waits, None, ruling, "unknown", state, "superseded")
        return step._replace(events=[gone, *step.events])

    def _proceed(self, state: ActuatorState, clock: Clock) -> Step[ActuatorState]:
        """Apply the waiting plan when its frame, its budget and a breaker are there.

        When it has waited long enough it is ruled on without the last two, and held without the
        first.
        """
        plan = state.plan
        if plan is None or state.pending is not None:
            return Step(state)
        if state.since is None:
            # Loaded from a save: the clock of the process before means nothing here.
            state = replace(state, since=clock.now())
        frame, late = state.frames.get(plan.tick), self._is_late(state, clock)
        if not late and (frame is None or not self._is_ready(plan, state)):
            return Step(state)
        if frame is None or frame.apps != plan.apps:
            return self._ask(plan, None, hold_all(plan, "no-frame"), "unknown", state)
        if not self._roster.knows(plan.apps):
            return self._ask(plan, frame, hold_all(plan, "not-declared"), "unknown", state)
        breaker = self._permissions.breaker(plan.domain, clock.now(), plan.tick)
        names = tuple(plan.apps)
        restraint = self._restraint(names, state)
        ruling = rule(
            plan, frame, binding(plan.tick, state.budgets), self._roster, self._permissions,
            breaker, self._rules.of(plan.domain, names), restraint,
        )  # fmt: skip
        held = replace(state, names=names, restraint=restraint)
        return self._ask(plan, frame, ruling, breaker, held)

    def _is_late(self, state: ActuatorState, clock: Clock) -> bool:
        """Whether the plan has waited long enough."""
        due = self.due(state)
        return due is not None and clock.now() >= due

    def _is_ready(self, plan: ScalePlanned, state: ActuatorState) -> bool:
        """Whether its apps and the budget it was made under are here, and a breaker was heard."""
        budgeted = plan.epoch < 0 or any(b.epoch >= plan.epoch for b in state.budgets)
        declared = self._roster.knows(plan.apps)
        return budgeted and declared and self._permissions.heard(plan.domain)

    def _ask(
        self,
        plan: ScalePlanned,
        frame: DomainObserved | None,
        ruling: Ruling,
        breaker: str,
        state: ActuatorState,
    ) -> Step[ActuatorState]:
        """Remember what will be asked, and ask."""
        applied = self._answer(plan, frame, ruling, breaker, state)
        write = Write(domain=plan.domain, tick=plan.tick, changes=_changes(applied))
        ahead = {tick: seen for tick, seen in state.frames.items() if tick > plan.tick}
        pending = Pending(write=write, applied=applied)
        asked = replace(state.with_frames(ahead), closed=plan.tick, plan=None, pending=pending)
        return Step(asked, writes=[write])

    def _answer(
        self,
        plan: ScalePlanned,
        frame: DomainObserved | None,
        ruling: Ruling,
        breaker: str,
        state: ActuatorState,
        outcome: Outcome = "held",
    ) -> ScaleApplied:
        """What will be said of a plan; `outcome` is of the changes that are not made."""
        budget = binding(plan.tick, state.budgets)
        epoch = -1 if budget is None else budget.epoch
        mode = self._permissions.mode_of(plan.domain, plan.time)
        grounds = Grounds(epoch, mode, breaker)
        return applied_of(plan, _before(plan, frame), ruling, grounds, outcome)

    def _restraint(self, names: tuple[str, ...], state: ActuatorState) -> ChangeHistory:
        """A copy for the kernels to update, with the apps of the plan."""
        if names == state.names:
            return copied(state.restraint)
        fresh = self._rules.of(state.domain, names).start(1)
        form = self.start(state.domain).restraint
        return copied(refit(state.restraint, fresh, form, state.names, names))


def _with_frame(frame: DomainObserved, state: ActuatorState) -> dict[int, DomainObserved]:
    """The frames with one more; of too many the newest stays, and what the plan waits for."""
    frames = {**state.frames, frame.tick: frame}
    if len(frames) <= _FRAMES:
        return frames
    wanted = {max(frames), -1 if state.plan is None else state.plan.tick}
    return {tick: seen for tick, seen in frames.items() if tick in wanted}


def _before(plan: ScalePlanned, frame: DomainObserved | None) -> dict[str, list[int]]:
    """The numbers as they are, by what was observed or, without a frame, by what was planned on."""
    if frame is None:
        return {name: getattr(plan, f"{name}_before") for name in COLUMNS}
    return {name: getattr(frame.pods, name) for name in COLUMNS}


def _changes(applied: ScaleApplied) -> list[Change]:
    return [
        Change(
            app=app,
            replicas=applied.replicas[place],
            cpu_request=applied.cpu_request[place],
            memory_request=applied.memory_request[place],
            decision_id=applied.decision_id,
        )
        for place, app in enumerate(applied.apps)
        if applied.outcomes[place] == "applied"
    ]


def _said(applied: ScaleApplied, result: Written) -> ScaleApplied:
    """What was decided, corrected by what the target answered."""
    names = ("outcomes", "reasons", *COLUMNS)
    said: dict[str, list[Any]] = {name: list(getattr(applied, name)) for name in names}
    for place, app in enumerate(applied.apps):
        # Where nothing is answered, nothing is known to be done.
        answer = result.answers.get(app, "silent")
        outcome = _OUTCOMES.get(answer, "held")
        if applied.outcomes[place] != "applied" or outcome == "applied":
            continue
        said["outcomes"][place] = outcome
        said["reasons"][place] = result.detail or f"target-{answer}"
        for name in COLUMNS:
            said[name][place] = getattr(applied, f"{name}_before")[place]
    return msgspec.structs.replace(applied, **said)
