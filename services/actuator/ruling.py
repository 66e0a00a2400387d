"""What becomes of each change of a plan: applied, or held with its reason.

First who may be changed at all, then the rules that every plan of ours obeys, run again on the
whole plan; an operator's order of exact replicas comes last, because it wins over both, but not
over the mode: in off and preview nothing is changed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from models.cluster.arrays import I32
from models.cluster.plan import Plan, empty_plan
from models.control.change_history import ChangeHistory
from models.control.safety import SafetyRules
from schemas.budget_granted import BudgetGranted
from schemas.domain_observed import DomainObserved
from schemas.fields import Mode
from schemas.scale_applied import Outcome, ScaleApplied
from schemas.scale_planned import ScalePlanned
from services._kit.budgets import briefing_of
from services._kit.frames import REASONS, row, status_rows
from services._kit.roster import Roster
from services.actuator.permission import Permissions

COLUMNS: Final = ("replicas", "cpu_request", "memory_request")
_CODES: Final = {name: code for code, name in REASONS.items()}
_OVERRIDE: Final = "override"


@dataclass(frozen=True)
class Ruling:
    """Numbers after all rules, and why an app was held or ordered."""

    after: Mapping[str, I32]
    """By column, a place per app."""
    reasons: list[str]
    """A place per app: of the plan, of the rule that cut it, or of the hold."""
    ordered: frozenset[int]
    """Places that an operator decided about."""


@dataclass(frozen=True)
class Grounds:
    """What the actuator went by, beside the plan."""

    epoch: int
    """Of the budget; -1 without one."""
    mode: Mode
    """Of the domain."""
    breaker: str


def rule(
    plan: ScalePlanned,
    frame: DomainObserved,
    budget: BudgetGranted | None,
    roster: Roster,
    permissions: Permissions,
    breaker: str,
    rules: SafetyRules,
    restraint: ChangeHistory,
) -> Ruling:
    """Decide about every change; `restraint` takes in what is decreased or moved."""
    status = status_rows(frame.pods, roster.place(plan.domain))
    objections = _objections(plan, frame, roster, permissions, breaker)
    numbers = _numbers(plan, frame, objections, len(roster.pools))
    rules.step(
        np.array([plan.tick], np.int32), status, row(frame.features["missing"]),
        row(frame.load_pods), briefing_of(budget, roster).budget, restraint, numbers,
    )  # fmt: skip
    reasons = [REASONS[code] for code in numbers.reason[0].tolist()]
    for place, why in objections.items():
        reasons[place] = why
    columns = (numbers.replicas[0], numbers.cpu[0], numbers.memory[0])
    after = dict(zip(COLUMNS, columns, strict=True))
    ordered = _obey(plan, roster, permissions, after, reasons)
    return Ruling(after, reasons, ordered)


def hold_all(plan: ScalePlanned, why: str) -> Ruling:
    """Nothing changes, for one reason."""
    after = {name: np.array(getattr(plan, f"{name}_before"), np.int32) for name in COLUMNS}
    return Ruling(after, [why] * len(plan.apps), frozenset())


def applied_of(
    plan: ScalePlanned,
    before: Mapping[str, list[int]],
    ruling: Ruling,
    grounds: Grounds,
    outcome: Outcome = "held",
) -> ScaleApplied:
    """The answer to a plan: a place per app that it wanted to change, or that was ordered.

    `outcome` is what became of the changes that are not made.
    """
    places = [place for place in range(len(plan.apps)) if _wanted(plan, before, ruling, place)]
    made = [any(_at(ruling, name, p) != before[name][p] for name in COLUMNS) for p in places]
    columns: dict[str, Any] = {
        **{name: [_at(ruling, name, place) for place in places] for name in COLUMNS},
        **{f"{name}_before": [before[name][place] for place in places] for name in COLUMNS},
    }
    return ScaleApplied(
        tick=plan.tick,
        time=plan.time,
        trace_id=plan.trace_id,
        domain=plan.domain,
        decision_id=plan.decision_id,
        epoch=grounds.epoch,
        mode=grounds.mode,
        apps=[plan.apps[place] for place in places],
        outcomes=["applied" if changed else outcome for changed in made],
        reasons=[ruling.reasons[place] for place in places],
        breaker=grounds.breaker,
        versions=plan.versions,
        **columns,
    )


def _wanted(
    plan: ScalePlanned, before: Mapping[str, list[int]], ruling: Ruling, place: int
) -> bool:
    planned = any(getattr(plan, name)[place] != before[name][place] for name in COLUMNS)
    return planned or place in ruling.ordered


def _at(ruling: Ruling, column: str, place: int) -> int:
    return int(ruling.after[column][place])


def _objections(
    plan: ScalePlanned,
    frame: DomainObserved,
    roster: Roster,
    permissions: Permissions,
    breaker: str,
) -> dict[int, str]:
    """Why the changes of some places are not to be made."""
    found: dict[int, str] = {}
    steps = [np.subtract(getattr(plan, name), getattr(frame.pods, name)) for name in COLUMNS]
    for place in np.flatnonzero(np.any(steps, axis=0)).tolist():
        name = plan.apps[place]
        app = roster.find(name)
        if app is None:
            found[place] = "not-declared"
        elif not _pods_known(frame, place):
            found[place] = "pods-unknown"
        else:
            orders = permissions.orders(name, app.domain, plan.time)
            found[place] = permissions.objection(
                app, [int(s[place]) for s in steps], orders, breaker
            )
    return {place: why for place, why in found.items() if why}


def _pods_known(frame: DomainObserved, place: int) -> bool:
    """Zeros are what is filled in where nobody told; an app at rest is its owner's to start."""
    return frame.pods.cpu_request[place] > 0 and frame.pods.replicas[place] > 0


def _numbers(
    plan: ScalePlanned, frame: DomainObserved, objections: dict[int, str], pools: int
) -> Plan:
    """The plan as arrays, with what is held as it is."""
    numbers = empty_plan(1, len(plan.apps), pools)
    columns = (numbers.replicas[0], numbers.cpu[0], numbers.memory[0])
    for name, column in zip(COLUMNS, columns, strict=True):
        column[:] = getattr(plan, name)
        for place in objections:
            column[place] = getattr(frame.pods, name)[place]
    numbers.reason[0] = [_CODES.get(name, 0) for name in plan.reasons]
    return numbers


def _obey(
    plan: ScalePlanned,
    roster: Roster,
    permissions: Permissions,
    after: dict[str, I32],
    reasons: list[str],
) -> frozenset[int]:
    """Set the replicas that operators ordered, within the declared bounds."""
    ordered = set()
    for place, name in enumerate(plan.apps if permissions.overrides else ()):
        app = roster.find(name)
        if app is None:
            continue
        orders = permissions.orders(name, app.domain, plan.time)
        exact = [o.replicas for o in orders if o.kind == "app" and o.replicas is not None]
        if exact and permissions.mode(app, orders) not in ("off", "preview"):
            after["replicas"][place] = min(max(exact[0], app.min_replicas), app.max_replicas)
            reasons[place] = _OVERRIDE
            ordered.add(place)
    return frozenset(ordered)
