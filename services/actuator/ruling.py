"""What becomes of each change of a plan: applied, or held with a reason.

A change is a difference to what the target has now, not to what samples said it has. First the
permissions: a change that breakers, modes or pauses object to is held. Then the rules that every
plan obeys, for what is left; everything else stays as it is. An operator's floors and ceilings
bound what is planned and go through the same rules; exact replicas come after them. Then all are
cut to what the target takes in one step: the next ticks plan the rest. Last the permissions again,
on the result: whatever a rule, a bound or an order made of it, what they object to is not changed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np

from models.cluster import rows
from models.cluster.arrays import I32, Mask
from models.cluster.plan import Plan, empty_plan
from models.control.budget import allowed
from models.control.change_history import ChangeHistory, FirstSizes
from models.control.contradiction import UNREAD, contradicted
from models.control.safety import SafetyRules
from schemas.budget_granted import BudgetGranted
from schemas.domain_observed import DomainObserved
from schemas.fields import Mode
from schemas.scale_applied import Outcome, ScaleApplied
from schemas.scale_planned import ScalePlanned
from services._kit.arrays import REASONS, directive_of, load_row, status_rows
from services._kit.inventory import DeclaredApps
from services._kit.orders import NO_EFFECT, Effect
from services.actuator.permissions import Permissions, Verdict
from services.actuator.target import Present, StepLimits

COLUMNS: Final = ("replicas", "cpu_request", "memory_request")
_STATUS: Final = {
    "replicas": rows.REPLICAS,
    "cpu_request": rows.CPU_REQUEST,
    "memory_request": rows.MEMORY_REQUEST,
    "ready": rows.READY,
    "starting": rows.STARTING,
    "pending": rows.PENDING,
}
"""Rows of the status that the target knows best, by field of `Present`."""
_CODES: Final = {name: code for code, name in REASONS.items()}
_OVERRIDE: Final = "override"
_CONTRADICTION: Final = "sample-contradicts-target"
_PREVIEW: Final = "preview"


@dataclass(frozen=True)
class Case:
    """A plan, and what it is judged by."""

    plan: ScalePlanned
    frame: DomainObserved
    """What the plan was made from; its apps are those of the plan."""
    now: I32
    """[3, A] what the target has; UNREAD for an app that it does not have."""
    status: I32
    """[1, STATUS, A] the frame's pods, corrected by the target."""
    reported: Mask
    """[A] apps whose pods the frame has."""
    contradicted: Mask
    """[A] apps whose pods in the frame the target contradicts."""
    target_holds: Mapping[int, str]
    """Why the target would not change an app, by index."""
    budget: BudgetGranted | None
    verdict: Verdict

    # Cached: converting the columns of a large domain is slow, and some are read for each app.

    @cached_property
    def observed(self) -> I32:
        """[3, A] as the plan assumed it."""
        return _table(self.frame.pods)

    @cached_property
    def wanted(self) -> I32:
        """[3, A] as planned."""
        return _table(self.plan)

    @cached_property
    def present(self) -> I32:
        """[3, A] as `now`, with zeros for an app that the target does not have."""
        present: I32 = np.maximum(self.now, 0)
        return present


@dataclass(frozen=True)
class Ruling:
    """Numbers before and after, one per app of the plan."""

    before: I32
    """[3, A] rows as COLUMNS."""
    after: I32
    """[3, A]."""
    reasons: list[str]
    """The plan's reason, that of the rule that cut it, or that of the hold."""
    subjects: list[int]
    """Indices of the apps that the plan or an override was to change."""
    contradictions: int = 0
    orders: Mapping[int, str] = field(default_factory=dict)
    """By index: id of the operator's order that changed or held the app."""
    trials: Mapping[int, list[int]] = field(default_factory=dict)
    """By index: numbers that would be written if it were not for preview."""


@dataclass(frozen=True)
class Basis:
    """What the actuator decided on, besides the plan."""

    epoch: int
    """Epoch of the budget; -1 without one."""
    mode: Mode
    """Mode of the domain."""
    breaker: str
    orders_waiting: int = 0


def case_of(
    plan: ScalePlanned,
    frame: DomainObserved,
    target: Mapping[str, Present],
    earlier: I32,
    domain: int,
    budget: BudgetGranted | None,
    verdict: Verdict,
) -> Case:
    """Combine a plan with what the target has now, and had [3, A] when it was read before."""
    status = status_rows(frame.pods, domain)
    found = [target.get(app) for app in plan.apps]
    for name, row in _STATUS.items():
        status[0, row] = [0 if one is None else getattr(one, name) for one in found]
    absent = [one is None for one in found]
    now: I32 = np.where(absent, UNREAD, status[0, [_STATUS[name] for name in COLUMNS]])
    claimed = _table(frame.pods)
    reported: Mask = np.all(claimed[:2] > 0, axis=0)
    # Pods that were never reported contradict nothing; no plan changes such an app.
    claims = contradicted(claimed, now, earlier) & reported
    holds = {index: one.hold for index, one in enumerate(found) if one is not None and one.hold}
    now = now.astype(np.int32)
    return Case(plan, frame, now, status, reported, claims, holds, budget, verdict)


def rule(
    case: Case,
    apps: DeclaredApps,
    permissions: Permissions,
    rules: SafetyRules,
    history: ChangeHistory,
    first: I32,
    limits: StepLimits | None = None,
) -> Ruling:
    """Decide on every change. Updates `history` in place: pass a copy.

    `first` [2, A] are the sizes that the apps had first; `limits` are those of the target.
    """
    plan, present = case.plan, case.present
    planned = (case.wanted != case.observed).any(axis=0)
    # 1. Wishes: the plan's changes, then rollbacks, ordered floors and ceilings. What the plan
    # leaves as it is stays so: its numbers may be older than the target's.
    wishes: I32 = np.where(case.wanted != case.observed, case.wanted, present).astype(np.int32)
    effects = _effects(case, apps, permissions)
    bounded = _raise_to_rollback(wishes, case) | _bound_by_orders(wishes, effects, case, apps)
    planned[list(bounded)] = True
    # 2. Hold what the data or the permissions forbid, before it takes room from others.
    object_to = _Objections(case, effects, apps, permissions)
    holds = _holds(case, wishes, planned, bounded, object_to, rules)
    exact = _exact_replicas(case, effects, apps)
    held = ~planned
    held[[*holds, *exact]] = True
    # 3. The safety rules cut the rest.
    sizes = FirstSizes(*first[:, None])
    numbers = _enforced(case, wishes, held, apps, rules, history, sizes, limits)
    after: I32 = np.stack([numbers.replicas[0], numbers.cpu[0], numbers.memory[0]])
    reasons = _reasons(plan, numbers, bounded)
    for index, reason in holds.items():
        reasons[index] = reason
    # 4. After the rules: neither budget nor blast radius cuts an operator's number.
    for index, replicas in exact.items():
        after[0, index], reasons[index] = replicas, _OVERRIDE
    if limits is not None:
        after = limits.part(present, after)
    wanted = after.copy()
    # 5. The permissions have the last word, on the final numbers.
    _undo_forbidden(case, after, reasons, object_to)
    subjects = sorted({*np.flatnonzero(planned).tolist(), *exact})
    steps = np.where(wanted != present, wanted, wishes) - present
    behind = {
        index: effects[index].order_behind(reasons[index], steps[:, index].tolist())
        for index in subjects
        if index in effects
    }
    trials = _trials(present + steps, case, subjects, reasons, rules, limits)
    return Ruling(present, after, reasons, subjects, int(case.contradicted.sum()), behind, trials)


def hold_all(plan: ScalePlanned, frame: DomainObserved | None, reason: str) -> Ruling:
    """Change nothing, for one reason."""
    wanted = _table(plan)
    if frame is not None:
        before = _table(frame.pods)
    else:
        # The columns are optional: without them nothing is known to change.
        columns = [getattr(plan, f"{name}_before") or getattr(plan, name) for name in COLUMNS]
        before = np.array(columns, np.int32)
    subjects = np.flatnonzero((wanted != before).any(axis=0)).tolist()
    return Ruling(before, before, [reason] * len(plan.apps), subjects)


def applied_of(
    plan: ScalePlanned, ruling: Ruling, basis: Basis, outcome: Outcome = "held"
) -> ScaleApplied:
    """The event about a plan: one entry per app that it changes, or that is overridden.

    `outcome` is that of the changes that are not made.
    """
    made = (ruling.after != ruling.before).any(axis=0)
    columns: dict[str, Any] = {}
    for row, name in enumerate(COLUMNS):
        columns[name] = ruling.after[row, ruling.subjects].tolist()
        columns[f"{name}_before"] = ruling.before[row, ruling.subjects].tolist()
    return ScaleApplied(
        tick=plan.tick,
        time=plan.time,
        trace_id=plan.trace_id,
        domain=plan.domain,
        decision_id=plan.decision_id,
        epoch=basis.epoch,
        mode=basis.mode,
        apps=[plan.apps[i] for i in ruling.subjects],
        outcomes=["applied" if made[i] else outcome for i in ruling.subjects],
        reasons=[ruling.reasons[i] for i in ruling.subjects],
        breaker=basis.breaker,
        versions=plan.versions,
        contradictions=ruling.contradictions,
        # No column where no order had a part in it: most ticks have none.
        orders=[ruling.orders.get(i, "") for i in ruling.subjects] if ruling.orders else [],
        orders_waiting=basis.orders_waiting,
        **columns,
    )


def _holds(
    case: Case,
    wishes: I32,
    planned: Mask,
    bounded: Mapping[int, str],
    object_to: "_Objections",
    rules: SafetyRules,
) -> dict[int, str]:
    """Reasons of the planned changes that are not permitted, by index."""
    steps = wishes - case.present
    # Bounds that changed after the plan may turn an increase into a decrease. The rules let
    # nothing through that goes further than the plan or its bounds.
    declared = rules.within_bounds(wishes[0]) - case.present[0]
    planned_signs = np.sign(case.wanted - case.observed)
    against: Mask = np.any(planned_signs * np.sign(steps) < 0, axis=0)
    found: dict[int, str] = {}
    for index in np.flatnonzero(planned).tolist():
        step = [*steps[:, index].tolist(), int(declared[index])]
        reason = _data_problem(case, index)
        if not reason and index in bounded:
            # The order stands whatever the target did; it holds what it leaves as it is.
            reason = "" if any(step[:3]) else bounded[index]
        elif not reason and (against[index] or not any(step[:3])):
            reason = "target-changed"
        why = bounded.get(index, case.plan.reasons[index])
        found[index] = reason or object_to(index, step, why)
    return {index: reason for index, reason in found.items() if reason}


def _data_problem(case: Case, index: int) -> str:
    """Why what is known of an app is not enough to change it by a plan."""
    if case.now[0, index] == UNREAD:
        return "target-unknown"
    if case.contradicted[index]:
        return _CONTRADICTION
    # Zeros stand for pods that were never reported. An app at 0 replicas was stopped by its owner,
    # and only its owner may start it.
    known = case.reported[index] and case.now[:2, index].all()
    return "" if known else "pods-unknown"


@dataclass(frozen=True)
class _Objections:
    """Checks whether an app may be changed."""

    case: Case
    effects: Mapping[int, Effect]
    """Operators' orders, by index."""
    apps: DeclaredApps
    permissions: Permissions

    def __call__(self, index: int, steps: list[int], why: str) -> str:
        """Why an app may not be changed by these steps; empty if it may."""
        plan = self.case.plan
        if self.case.now[0, index] == UNREAD:
            return "target-unknown"
        if index in self.case.target_holds:
            return self.case.target_holds[index]
        app, ordered = self.apps.find(plan.apps[index]), self.effects.get(index, NO_EFFECT)
        return self.permissions.objection(plan.domain, app, steps, ordered, self.case.verdict, why)


def _effects(case: Case, apps: DeclaredApps, permissions: Permissions) -> dict[int, Effect]:
    """What operators' orders mean for the apps that have any, by index."""
    found = {}
    for index, name in enumerate(case.plan.apps if permissions.orders else ()):
        app = apps.find(name)
        effect = NO_EFFECT if app is None else permissions.effect(app, case.plan.time)
        if effect != NO_EFFECT:
            found[index] = effect
    return found


def _raise_to_rollback(wishes: I32, case: Case) -> dict[int, str]:
    """Raise wished replicas to those of a rollback, in place; reasons of what it changed."""
    found = {}
    for index, name in enumerate(case.plan.apps if case.verdict.rollback else ()):
        replicas = case.verdict.rollback.get(name, 0)
        if replicas > wishes[0, index]:
            wishes[0, index], found[index] = replicas, "rollback"
    return found


def _bound_by_orders(
    wishes: I32, effects: Mapping[int, Effect], case: Case, apps: DeclaredApps
) -> dict[int, str]:
    """Keep wished replicas within floors and ceilings, in place; reasons of what they changed."""
    found = {}
    for index, effect in effects.items():
        app = apps.find(case.plan.apps[index])
        if app is None or effect.replicas is not None:
            continue
        before = int(wishes[0, index])
        after = effect.bounded(before, app.min_replicas, app.max_replicas)
        if (effect.floor, effect.ceiling) != (None, None) and after != before:
            wishes[0, index] = after
            found[index] = "order-floor" if after > before else "order-ceiling"
    return found


def _exact_replicas(
    case: Case, effects: Mapping[int, Effect], apps: DeclaredApps
) -> dict[int, int]:
    """An operator's replicas by index, within the declared bounds."""
    found = {}
    for index, effect in effects.items():
        app = apps.find(case.plan.apps[index])
        if app is not None and effect.replicas is not None:
            found[index] = effect.bounded(effect.replicas, app.min_replicas, app.max_replicas)
    return found


def _enforced(
    case: Case,
    wishes: I32,
    held: Mask,
    apps: DeclaredApps,
    rules: SafetyRules,
    history: ChangeHistory,
    first: FirstSizes,
    limits: StepLimits | None,
) -> Plan:
    """What the rules, and the target in one step, leave of the wishes."""
    plan, frame = case.plan, case.frame
    numbers = empty_plan(1, len(plan.apps), len(apps.pools))
    numbers.replicas[0], numbers.cpu[0], numbers.memory[0] = wishes
    numbers.reason[0] = _codes(plan)
    # Whatever is not zero counts as missing: doubt holds.
    missing = (np.array([frame.features["missing"]]) != 0.0).astype(np.float32)
    missing[0, case.contradicted] = 1.0
    tick, load = np.array([plan.tick], np.int32), load_row(frame.load_pods)
    budget, resizing = directive_of(case.budget, apps).budget, history.sizing.copy()
    still = held[None].astype(np.int8)
    rules.step(tick, case.status, missing, load, budget, history, numbers, still, first)
    if limits is not None:
        whole = np.stack([numbers.replicas[0], numbers.cpu[0], numbers.memory[0]])
        part = limits.part(case.present, whole)
        if (part != whole).any():
            # The history has the whole step. That allows other decreases less, never more. But
            # smaller decreases free less than the increases of the plan need.
            numbers.replicas[0], numbers.cpu[0], numbers.memory[0] = part
            rules.fit_again(tick, case.status, load, allowed(budget, tick), numbers, resizing)
    return numbers


def _codes(plan: ScalePlanned) -> list[int]:
    # A reason of a newer release means nothing to the rules, so they treat it like a hold's.
    return [_CODES.get(name, 0) for name in plan.reasons]


def _reasons(plan: ScalePlanned, numbers: Plan, bounded: Mapping[int, str]) -> list[str]:
    """The reason of the plan or the order, except where a rule gave another one."""
    texts = [bounded.get(index, text) for index, text in enumerate(plan.reasons)]
    found = zip(texts, _codes(plan), numbers.reason[0].tolist(), strict=True)
    return [text if before == after else REASONS[after] for text, before, after in found]


def _undo_forbidden(case: Case, after: I32, reasons: list[str], object_to: _Objections) -> None:
    """Undo, in place, every change that is not permitted in its final form."""
    steps = after - case.present
    for index in np.flatnonzero(steps.any(axis=0)).tolist():
        reason = object_to(index, steps[:, index].tolist(), reasons[index])
        if reason:
            after[:, index], reasons[index] = case.present[:, index], reason


def _trials(
    numbers: I32,
    case: Case,
    subjects: list[int],
    reasons: list[str],
    rules: SafetyRules,
    limits: StepLimits | None,
) -> dict[int, list[int]]:
    """What of the numbers [3, A] only preview holds, by index.

    It took no part in the rules, which are about what is changed; its bounds and steps are kept.
    """
    tried: I32 = np.stack([rules.within_bounds(numbers[0]), *numbers[1:]])
    if limits is not None:
        tried = limits.part(case.present, tried)
    found = {index: tried[:, index].tolist() for index in subjects if reasons[index] == _PREVIEW}
    return {i: new for i, new in found.items() if new != case.present[:, i].tolist()}


def _table(source: Any) -> I32:
    """[3, A] the columns of a plan or of pods."""
    return np.array([getattr(source, name) for name in COLUMNS], np.int32)
