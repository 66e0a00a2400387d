"""The Soldier: every tick a frame of its domain in, a plan out, by the last budget it has.

The budget of a minute is made from the plans of its first tick and binds from the next tick on.
A frame waits for the budget that belongs to it only as long as the grace period; a Soldier never
stands still because the Commander does.
"""

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from models.cluster.arrays import I32
from models.cluster.description import Cluster
from models.cluster.observation import CPU_REQUEST, MEMORY_REQUEST, REPLICAS, STATUS
from models.cluster.plan import Plan, empty_plan
from models.control.demand import AppSignals
from models.control.parameters import Parameters, Parts
from models.control.report import Report
from models.control.soldiers import Soldiers, SoldiersState
from models.features.table import APP
from schemas.app_declared import AppDeclared
from schemas.budget_granted import BudgetGranted
from schemas.domain_observed import DomainObserved
from schemas.fields import Event
from schemas.scale_planned import ScalePlanned, Sums
from schemas.transition_recorded import TransitionRecorded
from services._kit.budgets import Budgets, binding, briefing_of, keep
from services._kit.clock import Clock
from services._kit.frames import REASONS, abridged, feature_rows, row, status_rows
from services._kit.handler import Handler, Step
from services._kit.roster import PerDomain, Roster
from services._kit.state_codec import Transient, copied, refit
from services._kit.ticks import POLICY, decision_id
from services.soldier.transition import Moment, moment_of, transition


@dataclass(frozen=True)
class SoldierState:
    """Of one domain."""

    domain: str
    memory: SoldiersState
    closed: int = -1
    """The last tick that was planned."""
    names: tuple[str, ...] = ()
    budgets: Budgets = ()
    waiting: DomainObserved | None = None
    """A frame whose budget is not there yet."""
    since: Transient[float | None] = None
    """Since when it waits, by `Clock.now`; None until this process has looked at it."""
    moment: Moment | None = None
    """What it saw and did when the minute began."""


class SoldierHandler(Handler[SoldierState]):
    """Spends the budgets of its domains."""

    name = "soldier"
    inputs = (DomainObserved, BudgetGranted)
    reference = (AppDeclared,)

    def __init__(self, cluster: Cluster, parameters: Parameters, grace_s: float | None) -> None:
        self._roster, self._grace = Roster(cluster), grace_s
        self._every = max(1, 60 // cluster.tick_seconds)
        self._soldiers = PerDomain(self._roster, lambda apps: Soldiers(apps, parameters, Parts()))

    def learn(self, event: Event, clock: Clock) -> None:  # noqa: ARG002  needs no time
        """Apps."""
        if isinstance(event, AppDeclared):
            self._roster.learn(event)

    def forget(self, kind: type[Event], key: str, clock: Clock) -> None:  # noqa: ARG002  as above
        """An app whose declaration was removed."""
        if kind is AppDeclared:
            self._roster.forget(key)

    def prepare(self) -> None:
        """Let the kernels be compiled: without apps it takes as long as with them."""
        soldiers, tick = self._soldiers.without_apps(), np.zeros(1, np.int32)
        status, row = np.zeros((1, STATUS, 0), np.int32), np.zeros((1, 0), np.float32)
        sensed = AppSignals(np.zeros((1, APP.width, 0), np.float32), row, row)
        plan = empty_plan(1, 0, len(self._roster.pools))
        briefing = briefing_of(None, self._roster)
        soldiers.step(tick, status, sensed, briefing, soldiers.start(status), plan)

    def start(self, key: str) -> SoldierState:
        """Nothing seen, nothing granted yet."""
        no_apps = np.zeros((1, STATUS, 0), np.int32)
        return SoldierState(key, self._soldiers.without_apps().start(no_apps))

    def handle(self, event: Event, state: SoldierState, clock: Clock) -> Step[SoldierState]:
        """Take in a frame or a budget, and plan if both are there."""
        if isinstance(event, BudgetGranted):
            budgets = keep(state.budgets, event)
            if budgets is state.budgets:
                return Step(state)
            return self._proceed(replace(state, budgets=budgets), clock)
        if not isinstance(event, DomainObserved) or event.tick <= state.closed:
            return Step(state)
        self._roster.check(event.domain)
        event, waits = abridged(event, APP.names), state.waiting
        if waits is not None and waits.tick < event.tick:
            # The next tick is here: the one before is planned with the budget there is.
            state, events = self._plan(waits, state)
            step = self._proceed(replace(state, waiting=event, since=clock.now()), clock)
            return step._replace(events=[*events, *step.events])
        return self._proceed(replace(state, waiting=event, since=clock.now()), clock)

    def due(self, state: SoldierState) -> float | None:
        """When a waiting frame has waited long enough."""
        if state.waiting is None or self._grace is None:
            return None
        return 0.0 if state.since is None else state.since + self._grace

    def wake(self, state: SoldierState, clock: Clock) -> Step[SoldierState]:
        """Plan what has waited long enough."""
        return self._proceed(state, clock) if state.waiting is not None else Step(state)

    def _proceed(self, state: SoldierState, clock: Clock) -> Step[SoldierState]:
        """Plan the waiting frame if its budget is there, or if it has waited long enough."""
        frame = state.waiting
        if frame is None:
            return Step(state)
        if state.since is None:
            # Loaded from a save: the clock of the process before means nothing here.
            state = replace(state, since=clock.now())
        due = self.due(state)
        there = self._need_not_wait(frame, state) and self._roster.knows(frame.apps)
        if not there and (due is None or clock.now() < due):
            return Step(state)
        planned, events = self._plan(frame, state)
        return Step(planned, events)

    def _need_not_wait(self, frame: DomainObserved, state: SoldierState) -> bool:
        """Whether the budget of a frame is there, or is not to be expected.

        Only a Commander that was there a minute ago is waited for: one that was not may itself be
        waiting for this plan, and both would wait for ever. In lock-step it always comes.
        """
        last = (frame.tick - 1) // self._every
        newest = max((budget.epoch for budget in state.budgets), default=-1)
        absent = self._grace is not None and newest < last - 1
        return frame.tick == 0 or newest >= last or absent

    def _plan(self, frame: DomainObserved, state: SoldierState) -> tuple[SoldierState, list[Event]]:
        place, names = self._roster.place(frame.domain), tuple(frame.apps)
        if not self._roster.knows(names):
            # Declared later than it is measured, or never: without bounds nothing can be planned.
            return replace(state, closed=frame.tick, waiting=None, since=None), []
        status = status_rows(frame.pods, place)
        memory = self._memory(names, status, state)
        plan = empty_plan(1, len(names), len(self._roster.pools))
        sensed = AppSignals(feature_rows(frame), row(frame.load_pods), row(frame.usual_load_pods))
        tick = np.array([frame.tick], np.int32)
        budget = binding(frame.tick, state.budgets)
        report = self._soldiers.of(frame.domain, names).step(
            tick, status, sensed, briefing_of(budget, self._roster), memory, plan
        )
        planned = _planned(frame, status, plan, report, memory, place, budget)
        state = replace(state, closed=frame.tick, names=names, memory=memory, waiting=None)
        return self._record(planned, frame, state)

    def _memory(self, names: tuple[str, ...], status: I32, state: SoldierState) -> SoldiersState:
        """A copy for the kernels to update, with the apps of the frame."""
        if names == state.names:
            return copied(state.memory)
        fresh = self._soldiers.of(state.domain, names).start(status)
        form = self.start(state.domain).memory
        return copied(refit(state.memory, fresh, form, state.names, names))

    def _record(
        self, planned: ScalePlanned, frame: DomainObserved, state: SoldierState
    ) -> tuple[SoldierState, list[Event]]:
        """Beside the plan, once a minute, the step from the minute before."""
        if frame.tick % self._every:
            return state, [planned]
        now = moment_of(planned, frame)
        step: list[TransitionRecorded] = []
        if state.moment is not None:
            step = [transition(state.moment, now, planned)]
        return replace(state, moment=now), [planned, *step]


def _planned(
    frame: DomainObserved,
    status: I32,
    plan: Plan,
    report: Report,
    memory: SoldiersState,
    place: int,
    budget: BudgetGranted | None,
) -> ScalePlanned:
    before = {name: status[0, at] for name, at in _BEFORE.items()}
    after = {"replicas": plan.replicas[0], "cpu_request": plan.cpu[0]}
    after["memory_request"] = plan.memory[0]
    changed = np.any([after[name] != before[name] for name in after], axis=0)
    epoch = -1 if budget is None else budget.epoch
    return ScalePlanned(
        tick=frame.tick,
        time=frame.time,
        trace_id=frame.trace_id,
        domain=frame.domain,
        decision_id=decision_id(frame.domain, frame.tick, epoch),
        epoch=epoch,
        policy=POLICY,
        apps=frame.apps,
        reasons=[REASONS[code] for code in plan.reason[0].tolist()],
        need=memory.memory.need[0].tolist(),
        changes=int(changed.sum()),
        sums=_sums(report, place),
        overruns=int(memory.overruns[0]),
        versions={"policy": POLICY},
        **{name: values.tolist() for name, values in after.items()},
        **{f"{name}_before": values.tolist() for name, values in before.items()},
    )


_BEFORE: Final = {
    "replicas": REPLICAS,
    "cpu_request": CPU_REQUEST,
    "memory_request": MEMORY_REQUEST,
}


def _sums(report: Report, place: int) -> Sums:
    values: dict[str, Any] = {name: float(v[0, place]) for name, v in report._asdict().items()}
    return Sums(**values | {name: int(values[name]) for name in ("apps", "at_risk")})
