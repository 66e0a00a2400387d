"""The actuator: plans in, what was done with each change out; the writes in between are values.

A plan waits for the frame of its tick and the budget it was made under. Then it is ruled on
(`ruling.py`) and the target is asked for what is left. What is asked is remembered first, so that
a restart asks again, and the target, which knows the decision, changes nothing twice.
"""

from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec
import numpy as np

from models.control.actuator import Actuator
from models.control.restraint import Restraint
from models.sim.describe.config import Cluster
from models.sim.plan import empty_plan
from models.sim.state import KNOWN
from schemas.app_declared import AppDeclared
from schemas.breaker_changed import BreakerChanged
from schemas.budget_granted import BudgetGranted
from schemas.domain_observed import DomainObserved
from schemas.fields import Event, Mode
from schemas.override_issued import OverrideIssued
from schemas.scale_applied import Outcome, ScaleApplied
from schemas.scale_planned import ScalePlanned
from services._kit.budgets import briefing_of
from services._kit.clock import Clock
from services._kit.handler import Handler, Step
from services._kit.roster import Roster
from services._kit.snapshot import flatten, pack, rebuild, refit, unpack
from services.actuator.permission import Modes, Permissions
from services.actuator.ruling import COLUMNS, Ruling, applied_of, hold_all, rule
from services.actuator.target import Change, Write, Written

_WHOLE: Final = frozenset({"decreased"})
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


@dataclass
class ActuatorState:
    """Of one domain."""

    domain: str
    closed: int = -1
    """The last tick of which the target was asked."""
    names: tuple[str, ...] = ()
    restraint: Restraint | None = None
    budgets: tuple[BudgetGranted, ...] = ()
    """The newest two: the newest may have been made from this very tick, and bind the next."""
    plan: ScalePlanned | None = None
    """That waits for its frame or its budget."""
    frame: DomainObserved | None = None
    """The newest."""
    since: float = 0.0
    """Wall time since when the plan waits."""
    pending: Pending | None = None


class ActuatorHandler(Handler[ActuatorState]):
    """Applies the plans of its domains."""

    name = "actuator"
    inputs = (ScalePlanned, DomainObserved, BudgetGranted)
    reference = (AppDeclared, BreakerChanged, OverrideIssued)

    def __init__(
        self,
        cluster: Cluster,
        modes: Modes,
        clock: Clock,
        grace_s: float | None,
        breaker_stale_s: float | None,
    ) -> None:
        self._roster, self._grace, self._clock = Roster(cluster), grace_s, clock
        self._permissions = Permissions(modes, breaker_stale_s)
        self._rules: dict[str, tuple[tuple[str, ...], Actuator]] = {}

    def learn(self, event: Event) -> None:
        """Apps, orders and heartbeats."""
        if isinstance(event, AppDeclared):
            self._roster.learn(event)
        elif isinstance(event, BreakerChanged | OverrideIssued):
            self._permissions.learn(event, self._clock.now())

    def prepare(self) -> None:
        """Let the kernels be compiled: without apps it takes as long as with them."""
        rules, row = self._made(self._roster.domains[0], ()), np.zeros((1, 0), np.float32)
        budget = briefing_of(None, self._roster).budget
        plan = empty_plan(1, 0, len(self._roster.pools))
        known, tick = np.zeros((1, KNOWN, 0), np.int32), np.zeros(1, np.int32)
        rules.step(tick, known, row, row, budget, rules.start(1), plan)

    def start(self, key: str) -> ActuatorState:
        """Nothing was changed yet."""
        return ActuatorState(domain=key)

    def handle(self, event: Event, state: ActuatorState, clock: Clock) -> Step[ActuatorState]:
        """Take in a frame, a budget or a plan, and apply the plan when all are there."""
        match event:
            case BudgetGranted():
                budgets = _keep(state.budgets, event)
                return self._proceed(replace(state, budgets=budgets), clock)
            case DomainObserved() if state.frame is None or event.tick > state.frame.tick:
                # In memory only, unless a plan waits for it: then it is part of what is saved.
                state.frame = event
                return self._proceed(state, clock)
            case ScalePlanned() if event.tick > state.closed:
                return self._arrive(event, state, clock)
            case _:
                return Step(state)

    def written(self, result: Any, state: ActuatorState, clock: Clock) -> Step[ActuatorState]:
        """Say what became of the changes, once; then go on with what waits."""
        pending = state.pending
        if not isinstance(result, Written) or pending is None or pending.write.tick != result.tick:
            return Step(state)
        step = self._proceed(replace(state, pending=None), clock)
        return step._replace(events=[_said(pending.applied, result), *step.events])

    def due(self, state: ActuatorState) -> float | None:
        """At once where a write was not answered; else when the plan has waited long enough."""
        if state.pending is not None:
            return 0.0
        if state.plan is None or self._grace is None:
            return None
        return state.since + self._grace

    def wake(self, state: ActuatorState, clock: Clock) -> Step[ActuatorState]:
        """Ask again what was not answered before a restart; apply what has waited long enough."""
        if state.pending is not None:
            return Step(state, writes=[state.pending.write])
        return self._proceed(state, clock)

    def save(self, state: ActuatorState) -> bytes:
        """The frame only where a plan needs it."""
        values: dict[str, Any] = {
            "closed": state.closed,
            "names": state.names,
            "budgets": state.budgets,
            "plan": state.plan,
            "frame": state.frame if state.plan is not None else None,
            "pending": state.pending,
        }
        if state.restraint is not None:
            values["restraint"] = flatten(state.restraint)
        return pack(values)

    def load(self, key: str, data: bytes) -> ActuatorState:
        """What `save` wrote."""
        values = unpack(data)
        restraint = None
        if "restraint" in values:
            # Only the form counts: the inventory is not read yet.
            restraint = rebuild(self._made(key, ()).start(1), values["restraint"])
        return ActuatorState(
            domain=key,
            closed=values["closed"],
            names=tuple(values["names"]),
            restraint=restraint,
            budgets=msgspec.convert(values["budgets"], tuple[BudgetGranted, ...]),
            plan=msgspec.convert(values["plan"], ScalePlanned | None),
            frame=msgspec.convert(values["frame"], DomainObserved | None),
            pending=msgspec.convert(values["pending"], Pending | None),
        )

    def _arrive(
        self, plan: ScalePlanned, state: ActuatorState, clock: Clock
    ) -> Step[ActuatorState]:
        """A plan that still waits is superseded by the next one."""
        self._roster.check(plan.domain)
        waits = state.plan
        if waits is not None and waits.tick >= plan.tick:
            return Step(state)
        step = self._proceed(replace(state, plan=plan, since=clock.now()), clock)
        if waits is None:
            return step
        return step._replace(events=[self._superseded(waits), *step.events])

    def _proceed(self, state: ActuatorState, clock: Clock) -> Step[ActuatorState]:
        """Apply the waiting plan when its frame, its budget and a breaker are there."""
        plan, frame = state.plan, state.frame
        if plan is None or state.pending is not None:
            # A frame that no plan has needed yet is not saved: it is to come again.
            return Step(state, settled=frame is None or frame.tick <= state.closed)
        due, now = self.due(state), clock.now()
        late = due is not None and now >= due
        seen = frame is not None and frame.tick == plan.tick
        budgeted = plan.epoch < 0 or any(b.epoch >= plan.epoch for b in state.budgets)
        if not late and not (seen and budgeted and self._permissions.heard(plan.domain)):
            return Step(state)
        if frame is None or frame.tick != plan.tick or frame.apps != plan.apps:
            return self._ask(plan, None, hold_all(plan, "no-frame"), "unknown", state)
        breaker = self._permissions.breaker(plan.domain, now)
        names = tuple(plan.apps)
        restraint = self._restraint(names, state)
        ruling = rule(
            plan, frame, _binding(plan.tick, state.budgets), self._roster, self._permissions,
            breaker, self._made(plan.domain, names), restraint,
        )  # fmt: skip
        held = replace(state, names=names, restraint=restraint)
        return self._ask(plan, frame, ruling, breaker, held)

    def _ask(
        self,
        plan: ScalePlanned,
        frame: DomainObserved | None,
        ruling: Ruling,
        breaker: str,
        state: ActuatorState,
    ) -> Step[ActuatorState]:
        """Remember what will be asked, and ask."""
        applied = applied_of(plan, _before(plan, frame), ruling, self._mode(plan.domain), breaker)
        write = Write(domain=plan.domain, tick=plan.tick, changes=_changes(applied))
        pending = Pending(write=write, applied=applied)
        asked = replace(state, closed=plan.tick, plan=None, pending=pending)
        return Step(asked, writes=[write])

    def _superseded(self, plan: ScalePlanned) -> ScaleApplied:
        ruling = hold_all(plan, "newer-plan")
        mode = self._mode(plan.domain)
        return applied_of(plan, _before(plan, None), ruling, mode, "unknown", "superseded")

    def _mode(self, domain: str) -> Mode:
        return self._permissions.modes.domains.get(domain, self._permissions.modes.cluster)

    def _restraint(self, names: tuple[str, ...], state: ActuatorState) -> Restraint:
        if state.restraint is None:
            return self._made(state.domain, names).start(1)
        if names == state.names:
            return state.restraint
        fresh = self._made(state.domain, names).start(1)
        return refit(state.restraint, fresh, state.names, names, _WHOLE)

    def _made(self, domain: str, names: tuple[str, ...]) -> Actuator:
        made = self._rules.get(domain)
        if made is None or made[0] != names:
            made = names, Actuator(self._roster.inventory_of(names))
            self._rules[domain] = made
        return made[1]


def _keep(budgets: tuple[BudgetGranted, ...], granted: BudgetGranted) -> tuple[BudgetGranted, ...]:
    """The newest two, oldest first; an older epoch is ignored."""
    if budgets and granted.epoch <= budgets[-1].epoch:
        return budgets
    return (*budgets[-1:], granted)


def _binding(tick: int, budgets: tuple[BudgetGranted, ...]) -> BudgetGranted | None:
    """The newest that was made before the tick."""
    found = [budget for budget in budgets if budget.tick < tick]
    return found[-1] if found else None


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
    outcomes, reasons = list(applied.outcomes), list(applied.reasons)
    for place, app in enumerate(applied.apps):
        answer = result.answers.get(app)
        if outcomes[place] != "applied" or answer is None:
            continue
        outcomes[place] = _OUTCOMES[answer]
        if outcomes[place] != "applied":
            reasons[place] = result.detail or f"target-{answer}"
    return msgspec.structs.replace(applied, outcomes=outcomes, reasons=reasons)
