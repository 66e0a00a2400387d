"""Budgets between the wire and the models: one message per domain, one column per domain."""

from typing import Any

from models.cluster.arrays import F64
from models.control.budget import Directive, no_directive
from schemas.budget_granted import BudgetGranted
from services._kit.roster import Roster

Budgets = tuple[BudgetGranted, ...]
"""The newest two of a domain: the newest may be made from the very tick that is decided, or
decided again after a restart, and then the one before it binds."""


def briefing_of(granted: BudgetGranted | None, roster: Roster) -> Directive:
    """What a Soldier goes by: its own domain's column; without a budget nothing may grow."""
    briefing = no_directive(1, len(roster.domains), len(roster.pools))
    if granted is None:
        return briefing
    place, budget = roster.place(granted.domain), briefing.budget
    budget.epoch[0], budget.valid_until_tick[0] = granted.epoch, granted.valid_until_tick
    own: dict[str, float] = {
        "share": granted.share,
        "cores": granted.cores,
        "memory": granted.memory_gib,
        "overdraft": granted.overdraft_cores,
        "floor": granted.floor_cores,
        "urgency": granted.urgency,
        "headroom": granted.headroom,
    }
    columns: dict[str, Any] = {
        name: _column(getattr(budget, name), place, value) for name, value in own.items()
    }
    return Directive(
        budget._replace(**columns),
        _column(briefing.growth, place, granted.growth),
        _column(briefing.release, place, granted.release_cores),
    )


def keep(budgets: Budgets, granted: BudgetGranted) -> Budgets:
    """The newest two, oldest first; an older epoch is ignored, however late it comes."""
    if budgets and granted.epoch <= budgets[-1].epoch:
        return budgets
    return (*budgets[-1:], granted)


def binding(tick: int, budgets: Budgets) -> BudgetGranted | None:
    """The newest that was made before the tick."""
    found = [budget for budget in budgets if budget.tick < tick]
    return found[-1] if found else None


def _column(values: F64, place: int, value: float) -> F64:
    changed = values.copy()
    changed[0, place] = value
    return changed
