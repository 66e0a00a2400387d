"""The actuator: plans in, the outcome of each change out; the writes in between are values.

A plan waits for the frame of its tick and the budget it was made under. Then the target is asked
what it has, the plan is ruled on (`ruling.py`), and the permitted changes are written to the
target. Read and write are saved in the state before they are requested: a restart requests them
again, and the target, which knows the decision, changes nothing twice.

Frames may be ahead of plans. They wait in memory until something else is saved, because nearly
always the plan comes next.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

import msgspec
import numpy as np

from models.cluster import rows
from models.cluster.arrays import I32
from models.cluster.description import PRIORITIES, Cluster
from models.cluster.plan import empty_plan
from models.control.change_history import ChangeHistory
from models.control.contradiction import UNREAD
from models.control.safety import SafetyRules
from models.forecaster.port import ticks_per_minute
from schemas.app_declared import AppDeclared
from schemas.breaker_changed import BreakerChanged
from schemas.budget_granted import BudgetGranted
from schemas.domain_observed import DomainObserved
from schemas.fields import Event
from schemas.override_issued import OverrideIssued
from schemas.scale_applied import Outcome, ScaleApplied
from schemas.scale_planned import ScalePlanned
from services._kit.arrays import Budgets, abridged, binding_budget, directive_of, with_budget
from services._kit.clock import Clock
from services._kit.handler import Handler, Step
from services._kit.inventory import DeclaredApps, InventoryCache
from services._kit.plausible import Pace, Timeline
from services._kit.state_codec import Transient, copied, fit_apps, refit
from services.actuator.permissions import Permissions
from services.actuator.ruling import (
    COLUMNS,
    Basis,
    Ruling,
    applied_of,
    case_of,
    hold_all,
    rule,
)
from services.actuator.settings import STALE_TICKS, Modes
from services.actuator.target import Change, Numbers, Read, Reading, Write, Written

_RULED_BY: Final = ("missing",)
"""Features that the rules need."""
_FRAMES: Final = "frames"
_PLANS: Final = "plans"
_MOST_FRAMES: Final = 6
"""Plans may be this far behind: after a minute, what a plan was made from is outdated."""
_OUTCOMES: Final[dict[str, Outcome]] = {
    "applied": "applied",
    "repeat": "applied",
    "superseded": "superseded",
    "conflict": "held",
    "unknown": "held",
    "refused": "held",
}
"""By answer of the target. A repeat was applied by the process before a restart."""

_REFUSALS: Final = {"conflict": "target-changed"}
"""Reasons of refused changes that the answer alone explains."""


def _nothing_read(apps: int = 0) -> I32:
    return np.full((len(COLUMNS), apps), UNREAD, np.int32)


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """A requested write, and the event to publish once it is answered."""

    write: Write
    applied: ScaleApplied


@dataclass(frozen=True)
class ActuatorState:
    """What the actuator remembers of one domain."""

    domain: str
    history: ChangeHistory
    """Memory of the safety rules; its axis of apps has the `names`."""
    closed: int = -1
    """The last tick whose write was requested."""
    names: tuple[str, ...] = ()
    last_read: I32 = field(default_factory=_nothing_read)
    """[3, A] what the target had of the `names` when it was read last."""
    budgets: Budgets = ()
    plan: ScalePlanned | None = None
    """A plan that waits for its frame or its budget."""
    saved_frames: tuple[DomainObserved, ...] = ()
    new_frames: Transient[tuple[DomainObserved, ...]] = ()
    """Frames that are not saved yet; delivered again after a restart."""
    since: Transient[float | None] = None
    """When the plan arrived, by `Clock.now`; None after a restart."""
    reading: bool = False
    """Whether the plan waits for what the target has."""
    pending: Pending | None = None
    timeline: Timeline = field(default_factory=Timeline)

    @property
    def frames(self) -> dict[int, DomainObserved]:
        """Frames of open ticks, by tick."""
        return {frame.tick: frame for frame in (*self.saved_frames, *self.new_frames)}

    @property
    def newest_tick(self) -> int:
        """The newest tick of a plan or a frame; -1 before the first."""
        plan = -1 if self.plan is None else self.plan.tick
        return max(self.closed, plan, *self.frames)

    def with_frames(self, frames: Mapping[int, DomainObserved]) -> Self:
        """Replace the frames; from now on all of them are saved."""
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
        speed: float = 1.0,
    ) -> None:
        self._apps, self._grace = DeclaredApps(cluster), grace_s
        self._per_minute = ticks_per_minute(cluster.tick_seconds)
        self._pace = Pace(cluster.tick_seconds, None if grace_s is None else speed)
        self._permissions = Permissions(modes, breaker_stale_s, breaker_stale_ticks)
        self._priorities = {d.name: PRIORITIES.index(d.priority) for d in cluster.domains}
        self._rules = InventoryCache(self._apps, SafetyRules)

    def learn(self, event: Event, clock: Clock) -> None:
        """Take in apps and heartbeats."""
        if isinstance(event, AppDeclared):
            self._apps.learn(event)
        elif isinstance(event, BreakerChanged):
            self._permissions.learn(event, clock.now())

    def learn_recorded(self, event: Event, recorded_at: float, clock: Clock) -> None:
        """Take in orders by the time of their records, everything else as it is."""
        if isinstance(event, OverrideIssued):
            self._permissions.orders.learn(event, recorded_at)
        else:
            self.learn(event, clock)

    def forget(self, kind: type[Event], key: str, clock: Clock) -> None:
        """Remove apps, orders and breakers."""
        if kind is AppDeclared:
            self._apps.forget(key)
        elif kind is OverrideIssued:
            self._permissions.orders.forget(key, clock.date())
        else:
            self._permissions.forget(kind, key)

    def prepare(self) -> None:
        """Compile the kernels: no apps are needed for that."""
        rules, row = self._rules.without_apps(), np.zeros((1, 0), np.float32)
        budget = directive_of(None, self._apps).budget
        plan = empty_plan(1, 0, len(self._apps.pools))
        status, tick = np.zeros((1, rows.STATUS, 0), np.int32), np.zeros(1, np.int32)
        rules.step(tick, status, row, row, budget, rules.start(1), plan)

    def start(self, key: str) -> ActuatorState:
        """No apps, nothing changed yet."""
        return ActuatorState(key, self._rules.without_apps().start(1))

    def handle(self, event: Event, state: ActuatorState, clock: Clock) -> Step[ActuatorState]:
        """Take in a frame, a budget or a plan; apply the plan when all are there."""
        match event:
            case BudgetGranted():
                budgets = with_budget(state.budgets, event, state.newest_tick, self._per_minute)
                if budgets is state.budgets:
                    return Step(state)
                # A settled step that saves acknowledges the frames that wait in memory, so they
                # have to be in what it saves. The same holds wherever `with_frames` is called.
                state = replace(state.with_frames(state.frames), budgets=budgets)
                return self._proceed(state, clock)
            case DomainObserved() if not state.timeline.is_over(event.tick, state.closed):
                return self._judge_frame(event, state, clock)
            case ScalePlanned() if event.tick > state.closed:
                return self._judge_plan(event, state, clock)
            case _:
                return Step(state)

    def written(self, result: Any, state: ActuatorState, clock: Clock) -> Step[ActuatorState]:
        """Rule on the plan with what was read, or publish the outcomes of a write, once."""
        if isinstance(result, Reading):
            return self._judge(result, state, clock)
        pending = state.pending
        # An answer to an earlier write: its outcomes are published already.
        if not isinstance(result, Written) or pending is None or pending.write.tick != result.tick:
            return Step(state)
        state = replace(state.with_frames(state.frames), pending=None)
        step = self._proceed(state, clock)
        return step._replace(events=[_with_answers(pending.applied, result), *step.events])

    def due(self, state: ActuatorState) -> float | None:
        """At once for an unanswered read or write; else when the plan's grace period ends."""
        if state.pending is not None or state.reading:
            return 0.0
        if state.plan is None or self._grace is None:
            return None
        return 0.0 if state.since is None else state.since + self._grace

    def wake(self, state: ActuatorState, clock: Clock) -> Step[ActuatorState]:
        """Request an unanswered read or write again; apply a plan that is late."""
        if state.pending is not None:
            return Step(state, writes=[state.pending.write])
        if state.reading and state.plan is not None:
            return Step(state, writes=[_read(state.plan)])
        return self._proceed(state, clock)

    def _judge_frame(
        self, frame: DomainObserved, state: ActuatorState, clock: Clock
    ) -> Step[ActuatorState]:
        judged = state.timeline.judge(_FRAMES, frame, clock.date(), self._pace)
        if judged.anew:
            # The first frames of the domain were wrong. A write that was requested stays so.
            fresh = replace(self.start(state.domain), budgets=state.budgets)
            state = replace(fresh, pending=state.pending)
        state = replace(state, timeline=judged.timeline)
        if judged.refused is not None or frame.tick <= state.closed:
            return Step(state, refused=judged.refused)
        return self._take_frame(frame, state, clock)

    def _judge_plan(
        self, plan: ScalePlanned, state: ActuatorState, clock: Clock
    ) -> Step[ActuatorState]:
        # Frames set the time: a plan of a tick that they cannot have reached would close all
        # ticks before it.
        voters = frozenset({_FRAMES})
        judged = state.timeline.judge(_PLANS, plan, clock.date(), self._pace, voters)
        if judged.refused is not None:
            return Step(state, refused=judged.refused)
        return self._take_plan(plan, state, clock)

    def _take_frame(
        self, frame: DomainObserved, state: ActuatorState, clock: Clock
    ) -> Step[ActuatorState]:
        frames = state.frames
        if frame.tick in frames:
            # A duplicate. Unless the first one is saved, both have to be delivered again.
            return Step(state, settled=all(frame.tick != new.tick for new in state.new_frames))
        frame = abridged(frame, _RULED_BY)
        if state.plan is None and len(frames) < _MOST_FRAMES:
            return Step(replace(state, new_frames=(*state.new_frames, frame)), settled=False)
        # A plan waits for it; or plans are missing, and the frames have to be acknowledged.
        return self._proceed(state.with_frames(_with_frame(frame, state)), clock)

    def _take_plan(
        self, plan: ScalePlanned, state: ActuatorState, clock: Clock
    ) -> Step[ActuatorState]:
        self._apps.check_domain(plan.domain)
        waiting = state.plan
        if waiting is not None and waiting.tick >= plan.tick:  # older, or a duplicate
            return Step(state)
        arrived = replace(
            state.with_frames(state.frames), plan=plan, since=clock.now(), reading=False
        )
        step = self._proceed(arrived, clock)
        if waiting is None:
            return step
        # Each planned change has one outcome, those of a plan that is never applied too.
        ruling = hold_all(waiting, None, "newer-plan")
        superseded = self._applied(waiting, ruling, "unknown", state, "superseded")
        return step._replace(events=[superseded, *step.events])

    def _proceed(self, state: ActuatorState, clock: Clock) -> Step[ActuatorState]:
        """Read the target when the waiting plan's frame, its budget and a heartbeat are there.

        A late plan is ruled on without budget or heartbeat, and held without its frame.
        """
        plan = state.plan
        # One read or write at a time: the next plan waits for the answer to the last.
        if plan is None or state.pending is not None or state.reading:
            return Step(state)
        if state.since is None:
            # Loaded from a save: wait anew, as the frame may be delivered again.
            state = replace(state, since=clock.now())
        frame, due = state.frames.get(plan.tick), self.due(state)
        late = due is not None and clock.now() >= due
        if not late and (frame is None or not self._is_ready(plan, state)):
            return Step(state)
        # Doubt holds: without the pods the plan was made for, nothing is changed.
        if frame is None or frame.apps != plan.apps:
            return self._request(plan, hold_all(plan, None, "no-frame"), "unknown", state)
        if not self._apps.all_declared(plan.apps):
            return self._request(plan, hold_all(plan, frame, "not-declared"), "unknown", state)
        return Step(replace(state, reading=True), writes=[_read(plan)])

    def _judge(self, found: Reading, state: ActuatorState, clock: Clock) -> Step[ActuatorState]:
        """Rule on the waiting plan with what the target has."""
        plan = state.plan
        # An answer to an earlier read: its plan is closed or superseded.
        if plan is None or not state.reading or found.tick != plan.tick:
            return Step(state)
        state, frame = replace(state, reading=False), state.frames.get(plan.tick)
        if frame is None:
            return self._proceed(state, clock)
        if found.apps is None:
            ruling = hold_all(plan, frame, "target-unreadable")
            return self._request(plan, ruling, "unknown", state)
        self._permissions.advance(clock.date())
        priority = self._priorities[plan.domain]
        verdict = self._permissions.verdict(plan.domain, priority, clock.now(), plan.tick)
        names = tuple(plan.apps)
        history, domain = self._history(names, state), self._apps.domain_index(plan.domain)
        budget = binding_budget(plan.tick, state.budgets)
        earlier = self._last_read(names, state)
        case = case_of(plan, frame, found.apps, earlier, domain, budget, verdict)
        rules = self._rules.of(plan.domain, names)
        ruling = rule(case, self._apps, self._permissions, rules, history)
        state = replace(state, names=names, history=history, last_read=case.now)
        return self._request(plan, ruling, verdict.state, state)

    def _is_ready(self, plan: ScalePlanned, state: ActuatorState) -> bool:
        """Whether the plan's budget, its apps' declarations and a heartbeat are there."""
        # A plan made without a budget (epoch -1) has none to wait for.
        budgeted = plan.epoch < 0 or any(b.epoch >= plan.epoch for b in state.budgets)
        declared = self._apps.all_declared(plan.apps)
        return budgeted and declared and self._permissions.has_heartbeat(plan.domain)

    def _request(
        self, plan: ScalePlanned, ruling: Ruling, breaker: str, state: ActuatorState
    ) -> Step[ActuatorState]:
        """Close the tick and request its write."""
        applied = self._applied(plan, ruling, breaker, state)
        write = Write(domain=plan.domain, tick=plan.tick, changes=_changes(applied))
        ahead = {tick: frame for tick, frame in state.frames.items() if tick > plan.tick}
        pending = Pending(write=write, applied=applied)
        # Closed by the request, not by its answer: a second plan of this tick is ignored meanwhile.
        state = replace(
            state.with_frames(ahead),
            closed=plan.tick,
            plan=None,
            pending=pending,
            timeline=state.timeline.settled(),
        )
        return Step(state, writes=[write])

    def _applied(
        self,
        plan: ScalePlanned,
        ruling: Ruling,
        breaker: str,
        state: ActuatorState,
        outcome: Outcome = "held",
    ) -> ScaleApplied:
        """The event about a plan; `outcome` is that of the changes that are not made."""
        budget = binding_budget(plan.tick, state.budgets)
        epoch = -1 if budget is None else budget.epoch
        mode = self._permissions.domain_mode(plan.domain, plan.time)
        waiting = len(self._permissions.orders.waiting(plan.domain))
        return applied_of(plan, ruling, Basis(epoch, mode, breaker, waiting), outcome)

    def _history(self, names: tuple[str, ...], state: ActuatorState) -> ChangeHistory:
        """A copy that the kernels may update, for the apps of the plan."""
        if names == state.names:
            return copied(state.history)
        fresh = self._rules.of(state.domain, names).start(1)
        form = self.start(state.domain).history
        return copied(refit(state.history, fresh, form, state.names, names))

    def _last_read(self, names: tuple[str, ...], state: ActuatorState) -> I32:
        if state.last_read.shape[-1] != len(state.names):  # saved by a release that did not read
            return _nothing_read(len(names))
        return fit_apps(state.last_read, _nothing_read(len(names)), state.names, names)


def _read(plan: ScalePlanned) -> Read:
    return Read(domain=plan.domain, tick=plan.tick)


def _with_frame(frame: DomainObserved, state: ActuatorState) -> dict[int, DomainObserved]:
    """Add a frame; of too many, keep the newest and the one that the plan waits for."""
    frames = {**state.frames, frame.tick: frame}
    if len(frames) <= _MOST_FRAMES:
        return frames
    needed = {max(frames), -1 if state.plan is None else state.plan.tick}
    return {tick: kept for tick, kept in frames.items() if tick in needed}


def _changes(applied: ScaleApplied) -> list[Change]:
    return [
        Change(
            app=app,
            replicas=applied.replicas[index],
            cpu_request=applied.cpu_request[index],
            memory_request=applied.memory_request[index],
            before=Numbers(*(getattr(applied, f"{name}_before")[index] for name in COLUMNS)),
            decision_id=applied.decision_id,
        )
        for index, app in enumerate(applied.apps)
        if applied.outcomes[index] == "applied"
    ]


def _with_answers(applied: ScaleApplied, result: Written) -> ScaleApplied:
    """The decided outcomes, corrected by the target's answers."""
    names = ("outcomes", "reasons", *COLUMNS)
    columns: dict[str, list[Any]] = {name: list(getattr(applied, name)) for name in names}
    for index, app in enumerate(applied.apps):
        # Without an answer nothing counts as done.
        answer = result.answers.get(app, "silent")
        outcome = _OUTCOMES.get(answer, "held")
        if applied.outcomes[index] != "applied" or outcome == "applied":
            continue
        columns["outcomes"][index] = outcome
        columns["reasons"][index] = _REFUSALS.get(answer) or result.detail or f"target-{answer}"
        # Not applied: the event names the numbers that stay in force.
        for name in COLUMNS:
            columns[name][index] = getattr(applied, f"{name}_before")[index]
    return msgspec.structs.replace(applied, **columns)
