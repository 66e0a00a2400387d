"""The Soldier: each tick a frame of its domain in, a plan out, under the last budget it has.

The budget of a minute is made from the plans of the minute's first tick and binds from the next
tick on. A frame waits for its budget only as long as the grace period: a Soldier goes on planning
when the Commander does not answer.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import msgspec
import numpy as np

from models.cluster import rows
from models.cluster.arrays import I32
from models.cluster.description import Cluster
from models.cluster.plan import Plan, empty_plan
from models.control.budget import Directive
from models.control.demand import AppSignals
from models.control.fallback import Level, usable_directive
from models.control.parameters import Parameters, Parts
from models.control.report import Report
from models.control.residual import AppFactors
from models.control.soldiers import Soldiers, SoldiersState
from models.features.table import APP
from models.forecaster.port import ticks_per_minute
from models.policies.advisers import SoldierPolicy
from models.policies.features import soldier_features
from models.policies.soldier_inputs import at_risk, soldier_inputs
from models.registry.drift import NO_DRIFTS
from models.registry.drift import problem as drift_problem
from models.registry.rollout import Rules
from schemas.app_declared import AppDeclared
from schemas.breaker_changed import BreakerChanged
from schemas.budget_granted import BudgetGranted
from schemas.domain_observed import DomainObserved
from schemas.fields import Event
from schemas.model_judged import ModelJudged
from schemas.model_promoted import ModelPromoted
from services._kit.arrays import (
    abridged,
    binding_budget,
    directive_of,
    feature_rows,
    in_own_column,
    load_row,
    status_rows,
    with_budget,
)
from services._kit.clock import Clock
from services._kit.following import Follower, watch
from services._kit.handler import Handler, Step
from services._kit.inventory import DeclaredApps, InventoryCache
from services._kit.levels import Levels, versions_at
from services._kit.models import LoadedModel
from services._kit.plausible import Pace
from services._kit.state_codec import check_form, copied, refit
from services.soldier.advice import (
    MODEL,
    Advice,
    Policy,
    advise,
    beside_heuristic,
    sample_of,
)
from services.soldier.events import planned_event
from services.soldier.state import SoldierState
from services.soldier.transition import snapshot_of, transition

_SOURCE: Final = "frames"
"""Name of a domain's only source of ticks."""
_ALL_PARTS: Final = Parts()
_RULES: Final = Rules()


class SoldierHandler(Handler[SoldierState]):
    """Spends the budgets of its domains."""

    name = "soldier"
    inputs = (DomainObserved, BudgetGranted)
    reference = (AppDeclared, BreakerChanged, ModelPromoted, ModelJudged)

    def __init__(
        self,
        cluster: Cluster,
        parameters: Parameters,
        grace_s: float | None,
        speed: float = 1.0,
        parts: Parts = _ALL_PARTS,
        rules: Rules = _RULES,
    ) -> None:
        self._apps, self._grace = DeclaredApps(cluster), grace_s
        self._levels = Levels(cluster.domain_names)
        # Without a grace period the system runs in lock-step, where wall time means nothing.
        self._pace = Pace(cluster.tick_seconds, None if grace_s is None else speed)
        self._per_minute = ticks_per_minute(cluster.tick_seconds)
        self._soldiers = InventoryCache(
            self._apps, lambda inventory: Soldiers(inventory, parameters, parts)
        )
        self._inventories = InventoryCache(self._apps, lambda inventory: inventory)
        self._priorities = {d.name: d.priority for d in cluster.domains}
        self._cluster_weights = cluster.priority_weights
        # Each domain has a rollout of its own; they agree by the events of the others.
        self._followers: dict[str, Follower[Policy]] = {
            domain: Follower(MODEL, domain, rules) for domain in cluster.domain_names
        }

    def learn(self, event: Event, clock: Clock) -> None:  # noqa: ARG002  needs no time
        """Take in apps, the breakers' levels, promoted policies, and what came of them."""
        match event:
            case AppDeclared():
                self._apps.learn(event)
            case BreakerChanged():
                self._levels.learn(event)
            case ModelPromoted():
                for follower in self._followers.values():
                    follower.learn(event)
            case ModelJudged():
                for follower in self._followers.values():
                    follower.learn_judged(event)
            case _:
                pass

    def forget(self, kind: type[Event], key: str, clock: Clock) -> None:  # noqa: ARG002  as above
        """Remove apps and breakers. A promotion without a record stays in force."""
        if kind is AppDeclared:
            self._apps.forget(key)
        elif kind is BreakerChanged:
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
        """Follow promotions, then take in a frame or a budget; plan when both are there."""
        return self._following(state, event, lambda led: self._handle(event, led, clock))

    def wake(self, state: SoldierState, clock: Clock) -> Step[SoldierState]:
        """Plan the waiting frame if it is late, or if its apps are declared by now."""
        return self._following(state, None, lambda led: self._proceed(led, clock))

    def written(self, result: LoadedModel, state: SoldierState, clock: Clock) -> Step[SoldierState]:
        """Take in a policy that was opened, or why it could not be, and go on."""
        follower = self._followers[state.domain]
        rollout, events = follower.opened(result, state.rollout, state.closed)
        pending, state = state.pending, replace(state, rollout=rollout, pending=None)
        step = self.wake(state, clock) if pending is None else self.handle(pending, state, clock)
        return step._replace(events=[*events, *step.events])

    def _following(
        self,
        state: SoldierState,
        event: Event | None,
        go_on: Callable[[SoldierState], Step[SoldierState]],
    ) -> Step[SoldierState]:
        """Obey the newest promotion; a policy that has to be opened comes before the event."""
        follower = self._followers.get(state.domain)
        if follower is None:
            return Step(state)  # saved before its domain was removed: it rests until that is back
        rollout, judged, missing = follower.follow(state.rollout, state.closed)
        # The same object where nothing changed: then nothing has to be saved.
        led = state if rollout is state.rollout else replace(state, rollout=rollout)
        if missing is not None:
            # Ticks wait for it: after a restart none may be planned by another version.
            return Step(replace(led, pending=event), judged, read=missing)
        step = go_on(led)
        return step._replace(events=[*judged, *step.events]) if judged else step

    def _handle(self, event: Event, state: SoldierState, clock: Clock) -> Step[SoldierState]:
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
        if state.waiting is None or self._grace is None or state.domain not in self._followers:
            return None
        return 0.0 if state.since is None else state.since + self._grace

    def accept(self, key: str, state: SoldierState) -> SoldierState:
        """Take back an epoch that is newer than every budget, and refuse a memory of other apps.

        A release before this one saved validities as epochs, and no budget would be new to them.
        """
        memory, domains = state.memory, self._apps.domains
        decreased = in_own_column(memory.history.decreased, key, domains)
        memory = memory._replace(
            history=memory.history._replace(decreased=decreased),
            release=in_own_column(memory.release, key, domains),
        )
        state = super().accept(key, replace(state, memory=memory))
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
            fresh = self.start(state.domain)
            state = replace(fresh, budgets=state.budgets, rollout=state.rollout)
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
            state, events = self._plan(waiting, state, clock)
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
        state, events = self._plan(frame, state, clock)
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

    def _plan(
        self, frame: DomainObserved, state: SoldierState, clock: Clock
    ) -> tuple[SoldierState, list[Event]]:
        """The plan of a frame and, once a minute, the transition from the minute before."""
        names = tuple(frame.apps)
        if not self._apps.all_declared(names):
            # The declaration is late or missing: without bounds there is no plan. The tick is
            # closed all the same, as the next frame is here or the grace period is over.
            return _closed(frame.tick, state), []
        domain = self._apps.domain_index(frame.domain)
        status = status_rows(frame.pods, domain)
        memory = self._memory(names, status, state)
        signals = AppSignals(
            feature_rows(frame), load_row(frame.load_pods), load_row(frame.usual_load_pods)
        )
        # A budget that was made from this tick binds only later ticks, even in a replay.
        budget = binding_budget(frame.tick, state.budgets)
        level = self._levels.before(frame.tick, frame.domain)
        soldiers, tick = self._soldiers.of(frame.domain, names), np.array([frame.tick], np.int32)
        levels = np.full((1, len(self._apps.domains)), level, np.int8)
        directive = usable_directive(directive_of(budget, self._apps), levels, soldiers.cushion)

        def planned_with(factors: AppFactors | None, memory: SoldiersState) -> tuple[Plan, Report]:
            plan = empty_plan(1, len(names), len(self._apps.pools))
            return plan, soldiers.step(tick, status, signals, directive, memory, plan, factors)

        def imagined(factors: AppFactors | None) -> Plan:
            return planned_with(factors, copied(memory))[0]

        judged, factors, versions = list[Event](), None, versions_at(level)
        begins, beside = frame.tick % self._per_minute == 0, dict[str, float]()
        drift = dict[str, float]()
        # A domain that the breaker has set back to the heuristic gets no advice.
        if level == Level.POLICY and state.rollout.needed():
            asked = (status, signals, directive)
            state, advice, judged = self._advised(frame, asked, imagined, state, clock)
            factors, versions = advice.factors, versions | advice.versions
            drift = dict(advice.drift)
            if begins and advice.versions:
                ours, weight = imagined(factors), self._weight(frame.domain)
                beside = beside_heuristic(ours, imagined(None), status, signals.load, weight)
        plan, report = planned_with(factors, memory)
        planned = planned_event(frame, status, plan, report, memory, domain, budget, versions)
        planned = msgspec.structs.replace(planned, fallback_reason=state.rollout.unavailable)
        # The kernels have updated `memory` in place; it is the copy that the next tick starts from.
        state = _closed(frame.tick, replace(state, names=names, memory=memory))
        if not begins:
            return state, [*judged, planned]
        last, now = state.snapshot, snapshot_of(planned, frame, beside, drift)
        recorded = [] if last is None else [transition(last, now, planned)]
        return replace(state, snapshot=now), [*judged, planned, *recorded]

    def _advised(
        self,
        frame: DomainObserved,
        asked: tuple[I32, AppSignals, Directive],
        plan: Callable[[AppFactors], Plan],
        state: SoldierState,
        clock: Clock,
    ) -> tuple[SoldierState, Advice, list[Event]]:
        """What promoted policies advise, and how they did."""
        names, follower = tuple(frame.apps), self._followers[frame.domain]
        inventory, (status, signals, _) = self._inventories.of(frame.domain, names), asked

        def ask(policy: Policy) -> AppFactors:
            return SoldierPolicy(inventory, policy.network)(*asked)

        deciding = follower.deciding(state.rollout, names)
        rules, drifts, sample = follower.rules, NO_DRIFTS, None
        advice = advise(deciding, ask, clock.now, rules.most_answer_seconds)
        if frame.tick % self._per_minute == 0:
            domain = self._apps.domain_index(frame.domain)
            watched, drifts = watch(
                deciding,
                state.watched,
                lambda: soldier_features(soldier_inputs(*asked, inventory)[0], domain),
                rules.drift_minutes,
            )
            state, advice = replace(state, watched=watched), advice._replace(drift=drifts.worst)
        if deciding.candidate is not None:
            weight = self._weight(frame.domain)
            sample = sample_of(advice, plan, status, signals.load, weight)
            risk = at_risk(signals.features)[0].tolist()
            drifted = drift_problem(drifts.candidate, rules.most_drift)
            sample = sample._replace(ids=names, risk=risk, fault=sample.fault or drifted)
        problem = advice.problem or drift_problem(drifts.incumbent, rules.most_drift)
        rollout, judged = follower.judge(state.rollout, sample, problem, frame.tick, frame.time)
        return replace(state, rollout=rollout), advice, list[Event](judged)

    def _weight(self, domain: str) -> float:
        """Of the domain's violations in the objective, now."""
        priority = self._priorities[domain]
        own = self._followers[domain].rules.weights
        return own.get(priority, self._cluster_weights[priority])

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
