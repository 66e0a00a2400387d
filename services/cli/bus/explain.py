"""`hirl explain`: why an app has its replicas, from the topics alone."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer
from rich.console import Console

from models.features.table import RISKY_ERRORS, RISKY_HEADROOM, RISKY_SATURATION
from schemas.breaker_changed import BreakerChanged
from schemas.budget_granted import BudgetGranted
from schemas.domain_observed import DomainObserved
from schemas.reasons import MEANINGS
from schemas.scale_applied import ScaleApplied
from schemas.scale_planned import ScalePlanned
from services.cli.bus.event_lines import summary
from services.cli.bus.options import broker_options
from services.cli.bus.tail import BootstrapOption, CredentialsOption
from services.cli.commands import examples
from services.cli.options import JsonOption
from services.cli.output import printable, write_json

if TYPE_CHECKING:
    from services.admin.evidence import Evidence

_LABEL: Final = 10
_WRONG: Final = 0.1
"""Relative error from which a declared saturation is mentioned."""
_GONE: Final = "the record is no longer kept"
_BY_STATE: Final = {
    "closed": "changes pass",
    "half-open": "increases pass, nothing is decreased",
    "open": "nothing is changed",
}
"""What a breaker permits whose event has no action."""
_BY_ACTION: Final = {
    "none": "changes pass",
    "freeze": "nothing is changed",
    "increases-only": "increases pass, nothing is decreased",
    "no-scale-in": "nothing is scaled in, except apps that give way",
    "rollback": "increases pass, and apps go back to their last good replicas",
    "decreases-only": "decreases pass, increases only in P0",
    "fallback": "changes pass",
}
"""An open breaker does not always stop everything: its action depends on the cause."""

_MODELS: Final = ("commander", "soldier")
"""Promoted policies, by their names in `versions`."""

_LEVELS: Final = {
    "heuristic": "no learned policy is used",
    "reactive": "forecasts are not used, only what is needed now",
    "hold": "nothing decides",
}
"""By level of a breaker that fell back."""


@examples(
    "hirl explain payments-0003",
    "hirl explain payments-0003 --tick 312 --json why.json",
)
def explain(
    app: Annotated[str, typer.Argument(metavar="APP", help="Its name in the inventory.")],
    tick: Annotated[
        int | None,
        typer.Option("--tick", metavar="N", min=0, help="The last decided tick when not given."),
    ] = None,
    bootstrap: BootstrapOption = None,
    credentials: CredentialsOption = None,
    json: JsonOption = None,
) -> None:
    """Explain an app's replicas: observed, forecast, budget, need, plan and outcome."""
    # Kafka's clients are slow to import, and help texts need none.
    from services.admin.evidence import gather  # noqa: PLC0415

    explanation = explain_decision(gather(broker_options(bootstrap, credentials), app, tick))
    console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
    title = (
        f"{explanation.app} of {explanation.domain} at tick {explanation.tick} ({explanation.time})"
    )
    console.print(printable(f"{title}: {explanation.outcome}"), style="bold")
    for section in explanation.sections:
        for number, line in enumerate(section.lines):
            label = "" if number else section.name
            console.print(f"{label:<{_LABEL}}{printable(line)}")
    if json is not None:
        write_json(json, explanation)


class Section(msgspec.Struct, frozen=True):
    """One step towards the decision."""

    name: str
    lines: list[str]


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The sections in order; `hirl explain --json` writes it."""

    app: str
    domain: str
    tick: int
    time: str
    decision_id: str
    outcome: str
    """no-change, applied, held or superseded; unknown before the actuator has reported."""
    sections: list[Section]


def explain_decision(found: "Evidence") -> Explanation:
    """Explain the decision behind the records."""
    plan = found.plan
    return Explanation(
        app=found.app.app,
        domain=plan.domain,
        tick=plan.tick,
        time=plan.time,
        decision_id=plan.decision_id,
        outcome=_outcome(found),
        sections=[
            Section("declared", [summary(found.app)]),
            Section("observed", list(_observed(found))),
            Section("demand", [_demand(found)]),
            Section("forecast", list(_forecast(found))),
            Section("budget", list(_budget(found))),
            Section("risk", [_risk(found)]),
            Section("need", [_need(found)]),
            Section("planned", list(_planned(found))),
            Section("done", list(_done(found))),
            Section("breaker", list(_breakers(found))),
            *(Section("override", [summary(override)]) for override in found.overrides),
        ],
    )


def _observed(found: "Evidence") -> Iterator[str]:
    frame, app = found.frame, found.app.app
    if frame is None:
        yield _GONE
        return
    # Frames and plans are columnar: one index addresses the app in all lists of an event.
    index, pods = frame.apps.index(app), frame.pods
    yield (
        f"{pods.ready[index]} of {pods.replicas[index]} pods ready, {pods.starting[index]} "
        f"starting, {pods.pending[index]} without a node; {pods.cpu_request[index]} m and "
        f"{pods.memory_request[index]} MiB each"
    )
    if app in frame.missing:
        age = _feature(frame, "sample_age", index, 0.0)
        yield f"no valid sample in this tick; the last one is {age:.0f} s old"
    else:
        yield _sample(frame, index)
    yield _features(frame, index)
    yield from _full_at(found, frame, index)


def _full_at(found: "Evidence", frame: DomainObserved, index: int) -> Iterator[str]:
    """At which CPU use its pods are full, where that is not what was declared."""
    declared = found.app.saturation
    learned = _feature(frame, "full_at", index, declared)
    if abs(learned - declared) > _WRONG * declared:
        doubt = _feature(frame, "doubt", index, 0.0)
        yield f"pods are full at {learned:.2f} of their CPU, declared {declared:.2f}; +-{doubt:.0%}"


def _sample(frame: DomainObserved, index: int) -> str:
    shapes = {
        "rps": "{:,.1f} requests/s",
        "errors": "{:.2%} errors",
        "latency_p99_s": "p99 {:.3f} s",
        "cpu_cores": "{:,.2f} cores used",
        "memory_gib": "{:,.2f} GiB used",
    }
    values = {name: frame.measured[name][index] for name in shapes if name in frame.measured}
    present = {name: value for name, value in values.items() if value is not None}
    return ", ".join(shapes[name].format(value) for name, value in present.items())


def _features(frame: DomainObserved, index: int) -> str:
    names = ("utilisation", "saturation", "memory_use", "headroom", "rps_trend", "sample_age")
    present = [name for name in names if name in frame.features]
    return "features: " + ", ".join(f"{n} {frame.features[n][index]:.2f}" for n in present)


def _feature(frame: DomainObserved, name: str, index: int, default: float) -> float:
    """A feature of an app; frames of other versions may lack it."""
    return frame.features[name][index] if name in frame.features else default


def _demand(found: "Evidence") -> str:
    if found.frame is None:
        return _GONE
    index = found.frame.apps.index(found.app.app)
    load, usual = found.frame.load_pods[index], found.frame.usual_load_pods[index]
    surge = f"; a surge of {load - usual:.2f}" if load > usual * 1.1 else ""
    return f"its traffic needs {load:.2f} pods, usually {usual:.2f}{surge}"


def _forecast(found: "Evidence") -> Iterator[str]:
    if found.forecast is None:
        yield "none: the domain uses current observations only"
    else:
        yield f"{found.plan.domain} at tick {found.forecast.tick}: {summary(found.forecast)}"
    if found.budget is not None:
        yield f"expected growth while pods start: x{found.budget.growth:.2f}"


def _budget(found: "Evidence") -> Iterator[str]:
    plan, budget = found.plan, found.budget
    # Before the first directive there is no budget, and nothing may grow.
    if plan.epoch < 0:
        yield "none yet: nothing may grow"
    elif budget is None:
        yield f"epoch {plan.epoch}: {_GONE}"
    else:
        yield summary(budget)
        held = f"; {_held(plan.sums.held, budget)}" if plan.sums else ""
        yield f"valid until tick {budget.valid_until_tick}{held}"
        yield from budget.reasons[1:]
        if advised := _policies(budget.versions):
            yield f"advised by {advised}"


def _held(held: float, budget: BudgetGranted) -> str:
    """What the domain holds beside its budget: it may hold more, because budgets also fall."""
    over = held - budget.cores
    words = f"the domain holds {held:,.0f}, {abs(over):,.0f}"
    if over <= 0:
        return f"{words} below its budget"
    if over <= budget.overdraft_cores:
        return f"{words} of them from the reserve"
    return f"{words} above its budget: it may not grow, what runs stays"


def _risk(found: "Evidence") -> str:
    plan, frame = found.plan, found.frame
    if frame is None:
        return _GONE
    index = frame.apps.index(found.app.app)
    headroom = _feature(frame, "headroom", index, 1.0)
    errors = _feature(frame, "errors", index, 0.0)
    saturation = _feature(frame, "saturation", index, 0.0)
    signs = {
        f"headroom {headroom:.2f}": headroom < RISKY_HEADROOM,
        f"{errors:.1%} errors": errors > RISKY_ERRORS,
        f"{saturation:.0%} of saturation": saturation > RISKY_SATURATION,
    }
    risks = ", ".join(sign for sign, applies in signs.items() if applies)
    count = f"; {plan.sums.at_risk} of {plan.sums.apps} in the domain" if plan.sums else ""
    return f"at risk: {risks}{count}" if risks else f"not at risk{count}"


def _need(found: "Evidence") -> str:
    plan = found.plan
    if not plan.need:
        return "not reported"
    need = plan.need[plan.apps.index(found.app.app)]
    return f"{need:.2f} pods before limits, including growth and headroom"


def _planned(found: "Evidence") -> Iterator[str]:
    plan = found.plan
    index = plan.apps.index(found.app.app)
    yield f"{_numbers(plan, index)} by {plan.policy} under epoch {plan.epoch}"
    yield f"{plan.reasons[index]}: {meaning_of(plan.reasons[index])}"
    yield f"{plan.changes} of {len(plan.apps)} apps of the domain change in this tick"
    if advised := _policies(plan.versions):
        yield f"advised by {advised}"
    if plan.fallback_reason:
        yield f"the heuristic alone: {plan.fallback_reason}"
    if level := plan.versions.get("level"):
        yield f"decided at most by {level}: {_LEVELS.get(level, level)}"


def _policies(versions: Mapping[str, str]) -> str:
    """Promoted policies behind a decision; empty where the heuristic decided alone."""
    names = [versions[model] for model in _MODELS if model in versions]
    names += [
        f"{versions[f'{m}-canary']} for a canary" for m in _MODELS if f"{m}-canary" in versions
    ]
    return " and ".join(names)


def _numbers(event: ScalePlanned | ScaleApplied, index: int) -> str:
    """Replicas and requests that change; those that stay are left out."""
    units = {"replicas": "replicas", "cpu_request": "m CPU", "memory_request": "MiB"}
    parts = []
    for name, unit in units.items():
        after, before = getattr(event, name), getattr(event, f"{name}_before")
        # Values before a change are optional in the contract.
        if before and before[index] != after[index]:
            parts.append(f"{before[index]} -> {after[index]} {unit}")
    return ", ".join(parts) or f"stays at {event.replicas[index]} replicas"


def _done(found: "Evidence") -> Iterator[str]:
    applied, app = found.applied, found.app.app
    if applied is None:
        yield "the actuator has not reported yet"
    # The actuator reports planned changes only, not apps that stay as they are.
    elif app not in applied.apps:
        yield "no change was planned"
    else:
        index = applied.apps.index(app)
        yield f"{applied.outcomes[index]}: {_numbers(applied, index)}"
        yield f"{applied.reasons[index]}: {meaning_of(applied.reasons[index])}"
        if applied.orders and applied.orders[index]:
            yield f"by order {applied.orders[index]}"
        yield f"mode {applied.mode}, breaker {applied.breaker}, epoch {applied.epoch}"


def _breakers(found: "Evidence") -> Iterator[str]:
    """The domain's breaker, and the cluster's where it is one that matters."""
    if found.breaker is not None:
        yield _breaker(found.breaker)
    else:
        # Its topic is compacted, but the actuator records the state that it used.
        yield f"{found.applied.breaker}; {_GONE}" if found.applied else "not reported"
    cluster = found.cluster_breaker
    if cluster is not None and (cluster.state, cluster.level) != ("closed", "policy"):
        yield f"of the cluster: {_breaker(cluster)}"


def _breaker(event: BreakerChanged) -> str:
    reason = f" ({event.reason})" if event.reason else ""
    limit = "" if event.level == "policy" else f"; {_LEVELS[event.level]}"
    permits = _BY_STATE[event.state] if event.action is None else _BY_ACTION[event.action]
    return f"{event.state} since tick {event.since_tick}{reason}: {permits}{limit}"


def _outcome(found: "Evidence") -> str:
    applied, app = found.applied, found.app.app
    if applied is None:
        return "unknown"
    return applied.outcomes[applied.apps.index(app)] if app in applied.apps else "no-change"


def meaning_of(reason: str) -> str:
    """What a reason code means; any other text is returned unchanged."""
    code, _, detail = reason.partition(": ")
    if code not in MEANINGS:
        return reason
    return f"{MEANINGS[code]} ({detail})" if detail else MEANINGS[code]
