"""The Soldier: each tick a frame of its domain in, a plan out, under the last budget it has.

The budget of a minute is made from the plans of the minute's first tick and binds from the next
tick on. A frame waits for its budget only as long as the grace period: a Soldier goes on planning
when the Commander does not answer.
"""

from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec
import numpy as np

from models.cluster import rows
from models.cluster.arrays import I32
from models.cluster.description import Cluster
from models.cluster.plan import Plan, empty_plan
from models.control.demand import AppSignals
from models.control.fallback import Level, usable_directive
from models.control.parameters import Parameters, Parts
from models.control.report import Report
from models.control.soldiers import Soldiers, SoldiersState
from models.features.table import APP
from models.features.table import DOMAIN as DOMAIN_LEVEL
from models.forecaster.port import ticks_per_minute
from schemas.app_declared import AppDeclared
from schemas.breaker_changed import BreakerChanged
from schemas.budget_granted import BudgetGranted
from schemas.domain_observed import DomainObserved
from schemas.fields import Event
from schemas.scale_planned import ScalePlanned, Sums
from schemas.transition_recorded import TransitionRecorded
from services._kit.arrays import (
    REASONS,
    Budgets,
    abridged,
    binding_budget,
    directive_of,
    feature_rows,
    load_row,
    status_rows,
    with_budget,
)
from services._kit.clock import Clock
from services._kit.handler import Handler, Step
from services._kit.inventory import DeclaredApps, InventoryCache
from services._kit.levels import Levels, versions_at
from services._kit.plausible import Pace, Timeline
from services._kit.state_codec import Transient, check_form, copied, refit
from services._kit.ticks import POLICY, decision_id

_PLANNED: Final = {
    "replicas": rows.REPLICAS,
    "cpu_request": rows.CPU_REQUEST,
    "memory_request": rows.MEMORY_REQUEST,
}
"""Columns of a plan, with their rows in the status."""
_SOURCE: Final = "frames"
"""Name of a domain's only source of ticks."""
_RECORDED: Final = ("work", "essential", "wanted", "held", "pending", "distress", "rps", "at_risk")
"""Sums of a domain that are part of a recorded transition's state."""


class SoldierSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """State and action of a Soldier at a minute's first tick, for the next transition."""

    tick: int
    state: dict[str, float]
    action: dict[str, float]


@dataclass(frozen=True)
class SoldierState:
    """What a Soldier remembers of its domain."""

    domain: str
    memory: SoldiersState
    """Memory of the models; its axis of apps has the `names`."""
    closed: int = -1
    """The last planned tick."""
    names: tuple[str, ...] = ()
    budgets: Budgets = ()
    waiting: DomainObserved | None = None
    """A frame that waits for its budget. Saved, so that waiting holds no offsets back."""
    since: Transient[float | None] = None
    """When the frame arrived, by `Clock.now`; None after a restart."""
    timeline: Timeline = field(default_factory=Timeline)
    snapshot: SoldierSnapshot | None = None

    @property
    def newest_tick(self) -> int:
        """The newest believed tick; -1 before the first."""
        return max(self.closed, self.timeline.tick)


_ALL_PARTS: Final = Parts()


class SoldierHandler(Handler[SoldierState]):
    """Spends the budgets of its domains."""

    name = "soldier"
    inputs = (DomainObserved, BudgetGranted)
    reference = (AppDeclared, BreakerChanged)

    def __init__(
        self,
        cluster: Cluster,
        parameters: Parameters,
        grace_s: float | None,
        speed: float = 1.0,
        parts: Parts = _ALL_PARTS,
    ) -> None:
        self._apps, self._grace = DeclaredApps(cluster), grace_s
        self._levels = Levels(cluster.domain_names)
        # Without a grace period the system runs in lock-step, where wall time means nothing.
        self._pace = Pace(cluster.tick_seconds, None if grace_s is None else speed)
        self._per_minute = ticks_per_minute(cluster.tick_seconds)
        self._soldiers = InventoryCache(
            self._apps, lambda inventory: Soldiers(inventory, parameters, parts)
        )

    def learn(self, event: Event, clock: Clock) -> None:  # noqa: ARG002  needs no time
        """Take in apps, and the breakers' levels."""
        if isinstance(event, AppDeclared):
            self._apps.learn(event)
        elif isinstance(event, BreakerChanged):
            self._levels.learn(event)

    def forget(self, kind: type[Event], key: str, clock: Clock) -> None:  # noqa: ARG002  as above
        """Remove apps and breakers."""
        if kind is AppDeclared:
            self._apps.forget(key)
        else:
            self._levels.forget(key)

    def prepare(self) -> None:
        """Compile the kernels: no apps are needed for that."""
        soldiers, tick = self._soldiers.without_apps(), np.zeros(1, np.int32)
        status, row = np.zeros((1, rows.STATUS, 0), np.int32), np.zeros((1, 0), np.float32)
        signals = AppSignals(np.zeros((1, APP.width, 0), np.float32), row, row)
        plan = empty_plan(1, 0, len(self._apps.pools))
        directive = directive_of(None, self._apps)
        soldiers.step(tick, status, signals, directive, soldiers.start(status), plan)

    def key(self, event: Event) -> str:
        """Domain of the event; one that the cluster file lacks gets no state."""
        domain = super().key(event)
        self._apps.check_domain(domain)
        return domain

    def start(self, key: str) -> SoldierState:
        """No apps, no budget yet."""
        no_apps = np.zeros((1, rows.STATUS, 0), np.int32)
        return SoldierState(key, self._soldiers.without_apps().start(no_apps))

    def handle(self, event: Event, state: SoldierState, clock: Clock) -> Step[SoldierState]:
        """Take in a frame or a budget; plan when both are there."""
        match event:
            case BudgetGranted():
                budgets = with_budget(state.budgets, event, state.newest_tick, self._per_minute)
                # The same object: the budget is not newer, and nothing has to be saved.
                if budgets is state.budgets:
                    return Step(state)
                return self._proceed(replace(state, budgets=budgets), clock)
            case DomainObserved() if not state.timeline.is_over(event.tick, state.closed):
                return self._judge_frame(event, state, clock)
            case _:
                return Step(state)

    def due(self, state: SoldierState) -> float | None:
        """When the grace period of the waiting frame ends; at once after a restart."""
        if state.waiting is None or self._grace is None:
            return None
        return 0.0 if state.since is None else state.since + self._grace

    def wake(self, state: SoldierState, clock: Clock) -> Step[SoldierState]:
        """Plan the waiting frame if it is late, or if its apps are declared by now."""
        return self._proceed(state, clock)

    def accept(self, key: str, state: SoldierState) -> SoldierState:
        """Take back an epoch that is newer than every budget, and refuse a memory of other apps.

        A release before this one saved validities as epochs, and no budget would be new to them.
        """
        state = super().accept(key, state)
        # Kernels do not check their indices.
        check_form(state.memory, self.start(key).memory, "memory", len(state.names))
        newest = max((budget.epoch for budget in state.budgets), default=-1)
        if int(state.memory.epoch[0]) <= newest:
            return state
        binding = binding_budget(state.closed, state.budgets)
        epoch = np.full_like(state.memory.epoch, -1 if binding is None else binding.epoch)
        return replace(state, memory=state.memory._replace(epoch=epoch))

    def _judge_frame(
        self, frame: DomainObserved, state: SoldierState, clock: Clock
    ) -> Step[SoldierState]:
        judged = state.timeline.judge(_SOURCE, frame, clock.date(), self._pace)
        if judged.starts_over:
            # The first frames of the domain were wrong, and so is all that was learned from them.
            state = replace(self.start(state.domain), budgets=state.budgets)
        # Kept even if the frame is refused: several such frames may show that the time has moved.
        state = replace(state, timeline=judged.timeline)
        if judged.refused is not None or frame.tick <= state.closed:
            return Step(state, refused=judged.refused)
        return self._take_frame(frame, state, clock)

    def _take_frame(
        self, frame: DomainObserved, state: SoldierState, clock: Clock
    ) -> Step[SoldierState]:
        # Without samples, which no rule of a plan needs: a waiting frame is part of the state.
        frame, waiting, events = abridged(frame, APP.names), state.waiting, list[Event]()
        if waiting is not None and waiting.tick < frame.tick:
            # The next tick is here: plan the one before under the budget there is.
            state, events = self._plan(waiting, state)
        step = self._proceed(replace(state, waiting=frame, since=clock.now()), clock)
        return step._replace(events=[*events, *step.events])

    def _proceed(self, state: SoldierState, clock: Clock) -> Step[SoldierState]:
        """Plan the waiting frame if its budget is there, or if it is late."""
        frame = state.waiting
        if frame is None:
            return Step(state)
        if state.since is None:
            # Loaded from a save: wait again, because the budget may still be delivered.
            state = replace(state, since=clock.now())
        complete = self._has_budget(frame, state) and self._apps.all_declared(frame.apps)
        due = self.due(state)
        late = due is not None and clock.now() >= due
        if not complete and not late:
            return Step(state)
        state, events = self._plan(frame, state)
        return Step(state, events)

    def _has_budget(self, frame: DomainObserved, state: SoldierState) -> bool:
        """Whether the budget of a frame has arrived, or need not be waited for.

        If the minute before has no budget either, the Commander is absent or waits for this
        plan: waiting for it would block both. In lock-step its budget always comes.
        """
        # The first tick of minute n is planned under the budget of minute n-1: that of minute n is
        # made from its plan.
        minute = (frame.tick - 1) // self._per_minute
        newest = max((budget.epoch for budget in state.budgets), default=-1)
        # A budget's epoch is its minute or, after the cluster's clock was set back, more.
        absent = self._grace is not None and newest < minute - 1
        return frame.tick == 0 or newest >= minute or absent

    def _plan(self, frame: DomainObserved, state: SoldierState) -> tuple[SoldierState, list[Event]]:
        """The plan of a frame and, once a minute, the transition from the minute before."""
        names = tuple(frame.apps)
        if not self._apps.all_declared(names):
            # The declaration is late or missing: without bounds there is no plan. The tick is
            # closed all the same, as the next frame is here or the grace period is over.
            return _closed(frame.tick, state), []
        domain = self._apps.domain_index(frame.domain)
        status = status_rows(frame.pods, domain)
        memory = self._memory(names, status, state)
        plan = empty_plan(1, len(names), len(self._apps.pools))
        signals = AppSignals(
            feature_rows(frame), load_row(frame.load_pods), load_row(frame.usual_load_pods)
        )
        # A budget that was made from this tick binds only later ticks, even in a replay.
        budget = binding_budget(frame.tick, state.budgets)
        level = self._levels.before(frame.tick, frame.domain)
        directive = usable_directive(
            directive_of(budget, self._apps), np.full((1, len(self._apps.domains)), level, np.int8)
        )
        report = self._soldiers.of(frame.domain, names).step(
            np.array([frame.tick], np.int32), status, signals, directive, memory, plan
        )
        planned = _planned(frame, status, plan, report, memory, domain, budget, level)
        # The kernels have updated `memory` in place; it is the copy that the next tick starts from.
        state = _closed(frame.tick, replace(state, names=names, memory=memory))
        if frame.tick % self._per_minute:
            return state, [planned]
        before, after = state.snapshot, _snapshot(planned, frame)
        recorded = [] if before is None else [_transition(before, after, planned)]
        return replace(state, snapshot=after), [planned, *recorded]

    def _memory(self, names: tuple[str, ...], status: I32, state: SoldierState) -> SoldiersState:
        """A copy that the kernels may update, for the apps of the frame."""
        if names == state.names:
            return copied(state.memory)
        fresh = self._soldiers.of(state.domain, names).start(status)
        form = self.start(state.domain).memory
        return copied(refit(state.memory, fresh, form, state.names, names))


def _closed(tick: int, state: SoldierState) -> SoldierState:
    """The state after a tick that was planned, or that cannot be planned."""
    timeline = state.timeline.settled()
    return replace(state, closed=tick, waiting=None, since=None, timeline=timeline)


def _planned(
    frame: DomainObserved,
    status: I32,
    plan: Plan,
    report: Report,
    after_tick: SoldiersState,
    domain: int,
    budget: BudgetGranted | None,
    level: Level,
) -> ScalePlanned:
    before = {name: status[0, row] for name, row in _PLANNED.items()}
    after = dict(zip(_PLANNED, (plan.replicas[0], plan.cpu[0], plan.memory[0]), strict=True))
    changed = np.any([after[name] != before[name] for name in _PLANNED], axis=0)
    epoch = -1 if budget is None else budget.epoch
    # No sum is below zero, whatever a frame says of single apps: nobody could read the plan.
    sums: dict[str, Any] = {
        name: max(0.0, float(values[0, domain])) for name, values in report._asdict().items()
    }
    # The models sum in floats; the event counts apps in integers.
    counts = {name: int(sums[name]) for name in ("apps", "at_risk")}
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
        need=after_tick.memory.need[0].tolist(),
        changes=int(changed.sum()),
        sums=Sums(**sums | counts),
        overruns=int(after_tick.overruns[0]),
        versions=versions_at(level),
        **{name: values.tolist() for name, values in after.items()},
        **{f"{name}_before": values.tolist() for name, values in before.items()},
    )


# Transitions, for retraining.


def _snapshot(planned: ScalePlanned, frame: DomainObserved) -> SoldierSnapshot:
    """State: sums and aggregates of the domain. Action: pods planned more and less."""
    sums = planned.sums
    state = {} if sums is None else {name: float(getattr(sums, name)) for name in _RECORDED}
    change = [now - was for now, was in zip(planned.replicas, planned.replicas_before, strict=True)]
    return SoldierSnapshot(
        tick=frame.tick,
        # Known ones only: a transition has them twice, and must fit into a record.
        state=state
        | {
            f"domain.{name}": value
            for name, value in frame.aggregates.items()
            if name in DOMAIN_LEVEL.names
        },
        action={
            "pods_more": float(sum(step for step in change if step > 0)),
            "pods_less": float(-sum(step for step in change if step < 0)),
        },
    )


def _transition(
    before: SoldierSnapshot, after: SoldierSnapshot, planned: ScalePlanned
) -> TransitionRecorded:
    """The transition between two minutes.

    The reward is the observable part of the objective: apps at risk in the minute and core-hours
    held. The trainer applies the domain's weight.
    """
    # Cores held for the minute, in core-hours.
    held_hours = after.state.get("held", 0.0) / 60.0
    return TransitionRecorded(
        tick=before.tick,
        time=planned.time,
        trace_id=planned.trace_id,
        agent=f"soldier/{planned.domain}",
        kind="soldier",
        next_tick=after.tick,
        state=before.state,
        action=before.action,
        reward=-(after.state.get("at_risk", 0.0) + held_hours),
        next_state=after.state,
        policy=planned.policy,
    )
