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
from schemas.topics import key_of
from services._kit.handler import CLUSTER
from services.admin.reader import TopicReader


class Evidence(NamedTuple):
    """Records behind the decision about an app in one tick; None if no longer kept."""

    app: AppDeclared
    plan: ScalePlanned
    frame: DomainObserved | None
    budget: BudgetGranted | None
    forecast: DemandForecast | None
    """The newest one that the budget could go by."""
    applied: ScaleApplied | None
    breaker: BreakerChanged | None
    cluster_breaker: BreakerChanged | None
    """That of the whole cluster: the actuator obeys both."""
    overrides: tuple[OverrideIssued, ...]


def gather(options: dict[str, Any], app: str, tick: int | None) -> Evidence:
    """The newest decision about an app that was applied or held, or the one of `tick`."""
    with TopicReader(options) as reader:
        declared = reader.find_newest(AppDeclared, app, lambda _: True)
        if declared is None:
            raise InputError(_unknown_app(reader, app))
        plan = _find_plan(reader, declared.domain, tick)
        if plan is None or app not in plan.apps:
            raise InputError(_no_decision(declared, plan, tick))
        return _collect(reader, declared, plan)


def _find_plan(reader: TopicReader, domain: str, tick: int | None) -> ScalePlanned | None:
    if tick is None:
        # The newest plan may not be applied yet, and an explanation should say what came of it.
        last = reader.find_newest(ScaleApplied, domain, lambda _: True)
        tick = last.tick if last else None
    wanted = tick
    return reader.find_newest(
        ScalePlanned, domain, lambda plan: wanted is None or plan.tick == wanted
    )


def _collect(reader: TopicReader, declared: AppDeclared, plan: ScalePlanned) -> Evidence:
    domain, tick = plan.domain, plan.tick
    # By epoch, not by tick: a plan may be based on an older budget if the newest came late.
    budget = reader.find_newest(BudgetGranted, domain, lambda one: one.epoch == plan.epoch)
    # The budget in force was made before the plan, from a forecast no newer than itself.
    budget_tick = budget.tick if budget else tick - 1
    tier = f"{domain}/{declared.tier}"
    scopes = (("app", declared.app), ("tier", tier), ("domain", domain), ("cluster", CLUSTER))
    # The newest of each order, lifted or not: the topic keeps older records for a while.
    newest = {key_of(one): one for one in reader.read_all(OverrideIssued)}
    overrides = [one for one in newest.values() if (one.kind, one.scope) in scopes]
    return Evidence(
        app=declared,
        plan=plan,
        frame=reader.find_newest(DomainObserved, domain, lambda one: one.tick == tick),
        budget=budget,
        forecast=reader.find_newest(DemandForecast, domain, lambda one: one.tick <= budget_tick),
        applied=reader.find_newest(ScaleApplied, domain, lambda one: one.tick == tick),
        breaker=reader.find_newest(BreakerChanged, domain, lambda one: one.tick <= tick),
        cluster_breaker=reader.find_newest(BreakerChanged, CLUSTER, lambda one: one.tick <= tick),
        overrides=tuple(one for one in overrides if not one.lifted),
    )


def _unknown_app(reader: TopicReader, app: str) -> str:
    names = sorted({one.app for one in reader.read_all(AppDeclared)})
    if not names:
        return "the inventory is empty: does a system run, and has it reached its first tick?"
    near = get_close_matches(app, names) or names[:5]
    return (
        f"app: {app} is not in the inventory; there are {len(names):,}, such as {', '.join(near)}"
    )


def _no_decision(declared: AppDeclared, plan: ScalePlanned | None, tick: int | None) -> str:
    if plan is None:
        when = "yet" if tick is None else f"at tick {tick}, or it is no longer kept"
        return f"{declared.domain}: nothing was planned {when}"
    return f"app: {declared.app} was not part of {plan.domain} at tick {plan.tick}"
