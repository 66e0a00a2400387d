"""The records behind one decision, found near the ends of their topics."""

from difflib import get_close_matches
from typing import Any, NamedTuple

from models.inputs.errors import InputError
from schemas.app_declared import AppDeclared
from schemas.breaker_changed import BreakerChanged
from schemas.budget_granted import BudgetGranted
from schemas.demand_forecast import DemandForecast
from schemas.domain_observed import DomainObserved
from schemas.override_issued import OverrideIssued
from schemas.scale_applied import ScaleApplied
from schemas.scale_planned import ScalePlanned
from services.admin.reader import Onlooker


class Evidence(NamedTuple):
    """What is known of the decision about an app in a tick; None where the record is gone."""

    app: AppDeclared
    plan: ScalePlanned
    frame: DomainObserved | None
    budget: BudgetGranted | None
    forecast: DemandForecast | None
    """That the budget was made with."""
    applied: ScaleApplied | None
    breaker: BreakerChanged | None
    overrides: tuple[OverrideIssued, ...]


def gather(options: dict[str, Any], app: str, tick: int | None) -> Evidence:
    """The newest decision about an app that was carried out, or the one of a tick."""
    with Onlooker(options) as onlooker:
        declared = onlooker.newest(AppDeclared, app, lambda _: True)
        if declared is None:
            raise InputError(_unknown(onlooker, app))
        plan = _plan(onlooker, declared.domain, tick)
        if plan is None or app not in plan.apps:
            raise InputError(_undecided(declared, plan, tick))
        return _around(onlooker, declared, plan)


def _plan(onlooker: Onlooker, domain: str, tick: int | None) -> ScalePlanned | None:
    if tick is None:
        # The newest plan may still be on its way to the cluster.
        last = onlooker.newest(ScaleApplied, domain, lambda _: True)
        tick = last.tick if last else None
    wanted = tick
    return onlooker.newest(ScalePlanned, domain, lambda plan: wanted is None or plan.tick == wanted)


def _around(onlooker: Onlooker, declared: AppDeclared, plan: ScalePlanned) -> Evidence:
    domain, tick = plan.domain, plan.tick
    budget = onlooker.newest(BudgetGranted, domain, lambda one: one.epoch == plan.epoch)
    # A budget binds from the tick after the one that it was made from.
    made = budget.tick if budget else tick - 1
    scopes = (declared.app, domain, "cluster")
    orders = [
        onlooker.newest(OverrideIssued, scope, lambda one: not one.lifted) for scope in scopes
    ]
    return Evidence(
        app=declared,
        plan=plan,
        frame=onlooker.newest(DomainObserved, domain, lambda one: one.tick == tick),
        budget=budget,
        forecast=onlooker.newest(DemandForecast, domain, lambda one: one.tick <= made),
        applied=onlooker.newest(ScaleApplied, domain, lambda one: one.tick == tick),
        breaker=onlooker.newest(BreakerChanged, domain, lambda one: one.tick <= tick),
        overrides=tuple(order for order in orders if order and not order.lifted),
    )


def _unknown(onlooker: Onlooker, app: str) -> str:
    names = sorted({one.app for one in onlooker.whole(AppDeclared)})
    if not names:
        return "the inventory is empty: does a system run, and has it come to its first tick?"
    near = get_close_matches(app, names) or names[:5]
    return (
        f"app: {app} is not in the inventory; there are {len(names):,}, such as {', '.join(near)}"
    )


def _undecided(declared: AppDeclared, plan: ScalePlanned | None, tick: int | None) -> str:
    if plan is None:
        when = "yet" if tick is None else f"at tick {tick}, or it is no longer kept"
        return f"{declared.domain}: nothing was planned {when}"
    return f"app: {declared.app} was not part of {plan.domain} at tick {plan.tick}"
