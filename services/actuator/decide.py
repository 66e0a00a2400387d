"""The actuator: plans in, the outcome of each change out; the writes in between are values.

A plan waits for the frame of its tick and the budget it was made under. Then the target is asked
what it has, the plan is ruled on (`ruling.py`), and the permitted changes are written to the
target. A write is saved in the state before it is requested: it is requested again until it is
answered (`answers.py`), and the target, which knows the decision, changes nothing twice.

Frames may be ahead of plans. They wait in memory until something else is saved, because nearly
always the plan comes next.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from msgspec import structs

from models.cluster import rows
from models.cluster.arrays import I32
from models.cluster.description import PRIORITIES, Cluster
from models.cluster.plan import empty_plan
from models.control.change_history import ChangeHistory
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
from services._kit.arrays import (
    abridged,
    binding_budget,
    directive_of,
    in_own_column,
    with_budget,
)
from services._kit.clock import Clock
from services._kit.errors import Refused
from services._kit.handler import CLUSTER, Step
from services._kit.inventory import DeclaredApps, InventoryCache
from services._kit.orders import OrderedHandler
from services._kit.plausible import Judged, Pace
from services._kit.state_codec import check_form, copied, fit_apps, refit
from services.actuator.answers import Pending, again, trials_of, with_answers
from services.actuator.permissions import Permissions, Verdict
from services.actuator.ruling import Basis, Ruling, applied_of, case_of, hold_all, rule
from services.actuator.settings import STALE_TICKS, Modes
from services.actuator.state import (
    MOST_FRAMES,
    ActuatorState,
    no_sizes,
    nothing_read,
    with_frame,
)
from services.actuator.target import Read, Reading, StepLimits, Written

_RULED_BY: Final = ("missing",)
"""Features that the rules need."""
_MOST_UNKNOWN: Final = 1000
"""Apps of a frame or a plan that are not declared: it may be earlier than their declarations. Both
wait in the state, and names that cost a forger nothing could make it too large to be saved."""
_FRAMES: Final = "frames"
_PLANS: Final = "plans"


class ActuatorHandler(OrderedHandler[ActuatorState]):
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
        limits: StepLimits | None = None,
    ) -> None:
        self._apps, self._grace, self._limits = DeclaredApps(cluster), grace_s, limits
        self._per_minute = ticks_per_minute(cluster.tick_seconds)
        self._pace = Pace(cluster.tick_seconds, None if grace_s is None else speed)
        self._permissions = Permissions(modes, breaker_stale_s, breaker_stale_ticks)
        self.orders = self._permissions.orders
        self._priorities = {d.name: PRIORITIES.index(d.priority) for d in cluster.domains}
        self._rules = InventoryCache(self._apps, SafetyRules)

    def learn(self, event: Event, clock: Clock) -> None:
        """Take in apps and heartbeats."""
        if isinstance(event, AppDeclared):
            self._apps.learn(event)
        # Of other scopes nothing is kept: invented names must not fill the memory.
        elif isinstance(event, BreakerChanged) and event.scope in (CLUSTER, *self._apps.domains):
            self._permissions.learn(event, clock.now())

    def forget(self, kind: type[Event], key: str, clock: Clock) -> None:
        """Remove apps, orders and breakers."""
        super().forget(kind, key, clock)
        if kind is AppDeclared:
            self._apps.forget(key)
        elif kind is BreakerChanged:
            self._permissions.forget(key)

    def prepare(self) -> None:
        """Compile the kernels: no apps are needed for that."""
        rules, row = self._rules.without_apps(), np.zeros((1, 0), np.float32)
        budget = directive_of(None, self._apps).budget
        plan = empty_plan(1, 0, len(self._apps.pools))
        status, tick = np.zeros((1, rows.STATUS, 0), np.int32), np.zeros(1, np.int32)
        rules.step(tick, status, row, row, budget, rules.start(1), plan)

    def key(self, event: Event) -> str:
        """Domain of the event; one that the cluster file lacks gets no state."""
        domain = super().key(event)
        self._apps.check_domain(domain)
        return domain

    def start(self, key: str) -> ActuatorState:
        """No apps, nothing changed yet."""
        return ActuatorState(key, self._rules.without_apps().start(1))

    def accept(self, key: str, state: ActuatorState) -> ActuatorState:
        """Refuse a history of other apps: kernels do not check their indices."""
        decreased = in_own_column(state.history.decreased, key, self._apps.domains)
        history = state.history._replace(decreased=decreased)
        state = super().accept(key, replace(state, history=history))
        check_form(state.history, self.start(key).history, "history", len(state.names))
        return state

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
                self._check_apps(event.apps)
                return self._judge_frame(event, state, clock)
            case ScalePlanned() if (
                event.tick > state.closed and event.decision_id not in state.replaced
            ):
                self._check_apps(event.apps)
                return self._judge_plan(event, state, clock)
            case _:
                return Step(state)

    def written(self, result: Any, state: ActuatorState, clock: Clock) -> Step[ActuatorState]:
        """Rule on the plan with what was read, or publish the outcomes of a write, once."""
        if isinstance(result, Reading):
            return self._judge(result, state, clock)
        pending = state.pending
        # An answer to an earlier write: its outcomes are published already.
        if not isinstance(result, Written) or pending is None or pending.tick != result.tick:
            return Step(state)
        # In lock-step the cluster waits for this write, even if it changes nothing.
        if not result.answered and (pending.write.changes or self._grace is None):
            return Step(state)
        state = replace(state.with_frames(state.frames), pending=None)
        step = self._proceed(state, clock)
        return step._replace(events=[with_answers(pending.applied, result), *step.events])

    def due(self, state: ActuatorState) -> float | None:
        """At once for an unanswered write; else when the plan's grace period ends."""
        if state.pending is not None:
            return 0.0
        if state.plan is None or self._grace is None or not state.is_confirmed:
            return None
        return 0.0 if state.since is None else state.since + self._grace

    def wake(self, state: ActuatorState, clock: Clock) -> Step[ActuatorState]:
        """Request an unanswered write again; apply a plan that is late."""
        if state.pending is not None:
            verdict = self._verdict(state.domain, state.pending.tick, clock)
            write = again(state.pending, verdict, self._apps, self._permissions)
            return Step(state, writes=[write])
        return self._proceed(state, clock)

    def _check_apps(self, apps: Sequence[str]) -> None:
        # In lock-step the cluster waits for the tick, and declarations come soon.
        if self._grace is None:
            return
        unknown = self._apps.count_unknown(apps)
        if unknown > _MOST_UNKNOWN:
            detail = f"expected at most {_MOST_UNKNOWN:,} apps without a declaration, got {unknown}"
            raise Refused("unknown-apps", detail)

    def _judge_frame(
        self, frame: DomainObserved, state: ActuatorState, clock: Clock
    ) -> Step[ActuatorState]:
        judged = state.timeline.judge(_FRAMES, frame, clock.date(), self._pace)
        if judged.starts_over:
            # The first frames of the domain were wrong. A write that was requested stays so.
            fresh = replace(self.start(state.domain), budgets=state.budgets)
            state = replace(fresh, pending=state.pending)
        is_first = state.timeline.line is None
        state = replace(state, timeline=judged.timeline)
        if judged.refused is not None or frame.tick <= state.closed:
            return Step(state, refused=judged.refused)
        events = list[Event]()
        if is_first:
            state, events = self._confirm_plan(state, clock)
        step = self._take_frame(frame, state, clock)
        return step._replace(events=[*events, *step.events])

    def _confirm_plan(
        self, state: ActuatorState, clock: Clock
    ) -> tuple[ActuatorState, list[Event]]:
        """Hold the plan that arrived before the first frame, if that contradicts its tick."""
        plan = state.plan
        if plan is None or self._judged_plan(plan, state, clock).refused is None:
            return state, []
        # Nothing is written: that would close the tick at the target.
        held = self._applied(plan, hold_all(plan, None, "no-frame"), "unknown", state)
        return replace(state.with_frames(state.frames), plan=None, since=None), [held]

    def _judge_plan(
        self, plan: ScalePlanned, state: ActuatorState, clock: Clock
    ) -> Step[ActuatorState]:
        refused = self._judged_plan(plan, state, clock).refused
        if refused is not None:
            return Step(state, refused=refused)
        return self._take_plan(plan, state, clock)

    def _judged_plan(self, plan: ScalePlanned, state: ActuatorState, clock: Clock) -> Judged:
        # Frames set the time: a plan of a tick that they cannot have reached would close all
        # ticks before it.
        voters = frozenset({_FRAMES})
        return state.timeline.judge(_PLANS, plan, clock.date(), self._pace, voters)

    def _take_frame(
        self, frame: DomainObserved, state: ActuatorState, clock: Clock
    ) -> Step[ActuatorState]:
        frames = state.frames
        if frame.tick in frames:
            # A duplicate. Unless the first one is saved, both have to be delivered again.
            return Step(state, settled=all(frame.tick != new.tick for new in state.new_frames))
        frame = abridged(frame, _RULED_BY)
        if state.plan is None and len(frames) < MOST_FRAMES:
            return Step(replace(state, new_frames=(*state.new_frames, frame)), settled=False)
        # A plan waits for it; or plans are missing, and the frames have to be acknowledged.
        return self._proceed(state.with_frames(with_frame(frame, state)), clock)

    def _take_plan(
        self, plan: ScalePlanned, state: ActuatorState, clock: Clock
    ) -> Step[ActuatorState]:
        _check_decision(plan)
        waiting = state.plan
        if waiting is not None and not self._replaces(plan, waiting, state):
            return Step(state)
        step = self._proceed(state.with_plan(plan, clock.now()), clock)
        if waiting is None:
            return step
        # Each planned change has one outcome, those of a plan that is never applied too.
        ruling = hold_all(waiting, None, "newer-plan")
        superseded = self._applied(waiting, ruling, "unknown", state, "superseded")
        return step._replace(events=[superseded, *step.events])

    def _replaces(self, plan: ScalePlanned, waiting: ScalePlanned, state: ActuatorState) -> bool:
        """Whether a plan takes the place of the one that waits."""
        if state.is_confirmed:
            return plan.tick > waiting.tick
        # Before the first frame a forged tick must not keep the true plan out. In lock-step, where
        # no tick is lost, the first one is the lowest.
        return plan.tick < waiting.tick if self._grace is None else plan.tick != waiting.tick

    def _proceed(self, state: ActuatorState, clock: Clock) -> Step[ActuatorState]:
        """Read the target when the waiting plan's frame, its budget and a heartbeat are there.

        A late plan is ruled on without budget or heartbeat, and held without its frame.
        """
        plan = state.plan
        # One write at a time: the next plan waits for the answer to the last.
        if plan is None or state.pending is not None:
            return Step(state)
        if state.since is None:
            # Loaded from a save: wait again, because the frame may still be delivered.
            state = replace(state, since=clock.now())
        frame, due = state.frames.get(plan.tick), self.due(state)
        late = due is not None and clock.now() >= due
        if not late and (frame is None or not self._is_ready(plan, state)):
            return Step(state)
        # Without the pods that the plan was made for, nothing is changed.
        if frame is None or frame.apps != plan.apps:
            return self._request(plan, hold_all(plan, None, "no-frame"), "unknown", state)
        # Apps may be declared in another domain by now, and the plan's own be gone.
        known = plan.domain in self._apps.domains and self._apps.all_declared(plan.apps)
        if not known:
            return self._request(plan, hold_all(plan, frame, "not-declared"), "unknown", state)
        return Step(state, read=Read(domain=plan.domain, tick=plan.tick))

    def _judge(self, found: Reading, state: ActuatorState, clock: Clock) -> Step[ActuatorState]:
        """Rule on the waiting plan with what the target has."""
        plan = state.plan
        frame = None if plan is None else state.frames.get(plan.tick)
        # Nothing is handled between a read and its result, so this result is of another read.
        if plan is None or frame is None or found.tick != plan.tick:
            return Step(state)
        if found.apps is None:
            ruling = hold_all(plan, frame, "target-unreadable")
            return self._request(plan, ruling, "unknown", state)
        # A saved frame was believed by the process before, whose timeline may not have been saved.
        # Without its tick the next plan would seem too far ahead.
        judged = state.timeline.judge(_FRAMES, frame, clock.date(), self._pace)
        if judged.refused is None:
            state = replace(state, timeline=judged.timeline)
        verdict = self._verdict(plan.domain, plan.tick, clock)
        names = tuple(plan.apps)
        history, domain = self._history(names, state), self._apps.domain_index(plan.domain)
        budget = binding_budget(plan.tick, state.budgets)
        earlier = self._last_read(names, state)
        case = case_of(plan, frame, found.apps, earlier, domain, budget, verdict)
        rules, first = self._rules.of(plan.domain, names), _first_sizes(case.present, names, state)
        ruling = rule(case, self._apps, self._permissions, rules, history, first, self._limits)
        resting, left = _resting(state, names, plan.tick), _left(state, names)
        state = replace(
            state,
            names=names,
            history=history,
            last_read=case.now,
            first=first,
            left=left,
            resting=resting,
        )
        return self._request(plan, ruling, verdict.state, state)

    def _verdict(self, domain: str, tick: int, clock: Clock) -> Verdict:
        """Which changes of a tick the breakers permit now."""
        self._permissions.advance(clock.date())
        # A state may be of a domain that the cluster file no longer has.
        priority = self._priorities.get(domain, 0)
        return self._permissions.verdict(domain, priority, clock.now(), tick)

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
        ahead = {tick: frame for tick, frame in state.frames.items() if tick > plan.tick}
        pending = Pending(applied=applied)
        # Closed by the request, not by its answer: a second plan of this tick is ignored meanwhile.
        state = replace(
            state.with_frames(ahead),
            closed=plan.tick,
            plan=None,
            replaced=(),
            pending=pending,
            timeline=state.timeline.settled(),
        )
        # Not saved: a trial that is lost is tried again with the next plan.
        write = structs.replace(pending.write, trials=trials_of(applied, ruling))
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
        waiting = len(self.orders.waiting(plan.domain))
        return applied_of(plan, ruling, Basis(epoch, mode, breaker, waiting), outcome)

    def _history(self, names: tuple[str, ...], state: ActuatorState) -> ChangeHistory:
        """A copy that the kernels may update, for the apps of the plan."""
        if names == state.names:
            return copied(state.history)
        fresh = self._rules.of(state.domain, names).start(1)
        form = self.start(state.domain).history
        history = copied(refit(state.history, fresh, form, state.names, names))
        for index, name in enumerate(names):
            if name in state.resting:
                history.rested[0, index] = state.resting[name]
        return history

    def _last_read(self, names: tuple[str, ...], state: ActuatorState) -> I32:
        if state.last_read.shape[-1] != len(state.names):  # saved by a release that did not read
            return nothing_read(len(names))
        return fit_apps(state.last_read, nothing_read(len(names)), state.names, names)


def _first_sizes(present: I32, names: tuple[str, ...], state: ActuatorState) -> I32:
    """[2, A] sizes when the target was read first."""
    known = no_sizes(len(names))
    if state.first.shape[-1] == len(state.names):  # else saved by a release without first sizes
        known = fit_apps(state.first, known, state.names, names).copy()
    for index, name in enumerate(names if state.left else ()):
        known[:, index] = state.left.get(name, known[:, index])
    first: I32 = np.where(known > 0, known, present[1:]).astype(np.int32)
    return first


def _resting(state: ActuatorState, names: tuple[str, ...], tick: int) -> Mapping[str, int]:
    """Apps that are not among the names now, and until when they rest."""
    if names == state.names and not state.resting:
        return state.resting
    known = zip(state.names, state.history.rested[0].tolist(), strict=True)
    before, present = {**state.resting, **dict(known)}, frozenset(names)
    return {name: end for name, end in before.items() if end > tick and name not in present}


def _left(state: ActuatorState, names: tuple[str, ...]) -> Mapping[str, tuple[int, int]]:
    """First sizes of resized apps that are not among the names now."""
    if names == state.names and not state.left:
        return state.left
    before = dict(state.left)
    if state.first.shape[-1] == len(state.names):
        # Decided or read: a resize takes ticks, and others may resize as well. Of an app that has
        # its first size nothing is kept, or the state would grow with every app that ever was.
        read = state.last_read[1:] if state.last_read.shape[-1] == len(state.names) else state.first
        resized = ((state.history.sizing[0] != state.first) | (read != state.first)).any(axis=0)
        for index in np.flatnonzero(resized).tolist():
            cpu, memory = state.first[:, index].tolist()
            before[state.names[index]] = (cpu, memory)
    present = frozenset(names)
    return {name: sizes for name, sizes in before.items() if name not in present}


def _check_decision(plan: ScalePlanned) -> None:
    """Refuse the id of another decision.

    A target recognises by the id which decisions it has carried out. With the id of an old one it
    would answer "repeat", and the audit would list changes that were never made.
    """
    expected = f"{plan.domain}/{plan.tick}"
    if not f"{plan.decision_id}/".startswith(f"{expected}/"):
        detail = f"expected an id that begins with {expected}/, got {plan.decision_id:.80}"
        raise Refused("wrong-decision", detail)
