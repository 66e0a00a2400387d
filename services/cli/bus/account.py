"""Why a decision was taken, told from its records step by step."""

from collections.abc import Iterator

import msgspec

from schemas.domain_observed import DomainObserved
from schemas.scale_applied import ScaleApplied
from schemas.scale_planned import ScalePlanned
from services.admin.evidence import Evidence
from services.cli.bus.event_lines import essence
from services.cli.bus.reasons import in_words

_GONE = "the record is no longer kept"


class Section(msgspec.Struct, frozen=True):
    """One step of the way to the decision."""

    name: str
    lines: list[str]


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """What `hirl explain --json` writes."""

    app: str
    domain: str
    tick: int
    time: str
    decision_id: str
    outcome: str
    """no-change, applied, held or superseded; unknown where the actuator has not said."""
    sections: list[Section]


def account_of(found: Evidence) -> Account:
    """The whole story."""
    plan = found.plan
    return Account(
        app=found.app.app,
        domain=plan.domain,
        tick=plan.tick,
        time=plan.time,
        decision_id=plan.decision_id,
        outcome=_outcome(found),
        sections=[
            Section("declared", [essence(found.app)]),
            Section("observed", list(_observed(found))),
            Section("demand", [_demand(found)]),
            Section("forecast", list(_forecast(found))),
            Section("budget", list(_budget(found))),
            Section("risk", [_risk(found)]),
            Section("need", [_need(found)]),
            Section("planned", list(_planned(found))),
            Section("done", list(_done(found))),
            Section("breaker", [_breaker(found)]),
            *(Section("override", [essence(order)]) for order in found.overrides),
        ],
    )


def _observed(found: Evidence) -> Iterator[str]:
    frame, app = found.frame, found.app.app
    if frame is None:
        yield _GONE
        return
    place, pods = frame.apps.index(app), frame.pods
    yield (
        f"{pods.ready[place]} of {pods.replicas[place]} pods ready, {pods.starting[place]} "
        f"starting, {pods.pending[place]} without a node; {pods.cpu_request[place]} m and "
        f"{pods.memory_request[place]} MiB each"
    )
    if app in frame.missing:
        age = _feature(frame, "sample_age", place, 0.0)
        yield f"no valid sample in this tick; the last one is {age:.0f} s old"
    else:
        yield _sample(frame, place)
    yield _features(frame, place)


def _sample(frame: DomainObserved, place: int) -> str:
    shapes = {
        "rps": "{:,.1f} requests/s",
        "errors": "{:.2%} errors",
        "latency_p99_s": "p99 {:.3f} s",
        "cpu_cores": "{:,.2f} cores used",
        "memory_gib": "{:,.2f} GiB used",
    }
    values = {name: frame.measured[name][place] for name in shapes if name in frame.measured}
    known = {name: value for name, value in values.items() if value is not None}
    return ", ".join(shapes[name].format(value) for name, value in known.items())


def _features(frame: DomainObserved, place: int) -> str:
    names = ("utilisation", "saturation", "memory_use", "headroom", "rps_trend", "sample_age")
    known = [name for name in names if name in frame.features]
    return "features: " + ", ".join(f"{n} {frame.features[n][place]:.2f}" for n in known)


def _feature(frame: DomainObserved, name: str, place: int, otherwise: float) -> float:
    """Frames of other versions may lack one."""
    return frame.features[name][place] if name in frame.features else otherwise


def _demand(found: Evidence) -> str:
    if found.frame is None:
        return _GONE
    place = found.frame.apps.index(found.app.app)
    load, usual = found.frame.load_pods[place], found.frame.usual_load_pods[place]
    surge = f"; a surge of {load - usual:.2f}" if load > usual * 1.1 else ""
    return f"its traffic would fill {load:.2f} pods, usually {usual:.2f}{surge}"


def _forecast(found: Evidence) -> Iterator[str]:
    if found.forecast is None:
        yield "there is none: the domain goes by what is seen"
    else:
        yield f"{found.plan.domain} at tick {found.forecast.tick}: {essence(found.forecast)}"
    if found.budget is not None:
        yield f"expected growth while pods start: x{found.budget.growth:.2f}"


def _budget(found: Evidence) -> Iterator[str]:
    plan, budget = found.plan, found.budget
    if plan.epoch < 0:
        yield "none yet: nothing may grow"
    elif budget is None:
        yield f"epoch {plan.epoch}: {_GONE}"
    else:
        yield essence(budget)
        held = f"; the domain holds {plan.sums.held:,.0f}" if plan.sums else ""
        yield f"valid until tick {budget.valid_until_tick}{held}"
        yield from budget.reasons[1:]


def _risk(found: Evidence) -> str:
    plan, frame = found.plan, found.frame
    if frame is None:
        return _GONE
    place = frame.apps.index(found.app.app)
    headroom = _feature(frame, "headroom", place, 1.0)
    errors = _feature(frame, "errors", place, 0.0)
    saturation = _feature(frame, "saturation", place, 0.0)
    # As `at_risk` in models/features/table.py has it.
    signs = {
        f"headroom {headroom:.2f}": headroom < 0.2,
        f"{errors:.1%} errors": errors > 0.01,
        f"{saturation:.0%} of saturation": saturation > 0.9,
    }
    shown = ", ".join(sign for sign, holds in signs.items() if holds)
    count = f"; {plan.sums.at_risk} of {plan.sums.apps} in the domain" if plan.sums else ""
    return f"at risk: {shown}{count}" if shown else f"not at risk{count}"


def _need(found: Evidence) -> str:
    plan = found.plan
    if not plan.need:
        return "not told"
    need = plan.need[plan.apps.index(found.app.app)]
    return f"{need:.2f} pods without limits, growth and headroom counted"


def _planned(found: Evidence) -> Iterator[str]:
    plan = found.plan
    place = plan.apps.index(found.app.app)
    yield f"{_numbers(plan, place)} by {plan.policy} under epoch {plan.epoch}"
    yield f"{plan.reasons[place]}: {in_words(plan.reasons[place])}"
    yield f"{plan.changes} of {len(plan.apps)} apps of the domain were to change in this tick"


def _numbers(event: ScalePlanned | ScaleApplied, place: int) -> str:
    """What changes, of replicas and requests; what stays is not worth a word."""
    units = {"replicas": "replicas", "cpu_request": "m CPU", "memory_request": "MiB"}
    parts = []
    for name, unit in units.items():
        after, before = getattr(event, name), getattr(event, f"{name}_before")
        if before and before[place] != after[place]:
            parts.append(f"{before[place]} -> {after[place]} {unit}")
    return ", ".join(parts) or f"stays at {event.replicas[place]} replicas"


def _done(found: Evidence) -> Iterator[str]:
    applied, app = found.applied, found.app.app
    if applied is None:
        yield "the actuator has not said yet"
    elif app not in applied.apps:
        yield "nothing was to be changed"
    else:
        place = applied.apps.index(app)
        yield f"{applied.outcomes[place]}: {_numbers(applied, place)}"
        yield f"{applied.reasons[place]}: {in_words(applied.reasons[place])}"
        yield f"mode {applied.mode}, breaker {applied.breaker}, epoch {applied.epoch}"


def _breaker(found: Evidence) -> str:
    if found.breaker is not None:
        return essence(found.breaker)
    # Its topic is compacted, but the actuator noted what it went by.
    return f"{found.applied.breaker}; {_GONE}" if found.applied else "nothing heard"


def _outcome(found: Evidence) -> str:
    applied, app = found.applied, found.app.app
    if applied is None:
        return "unknown"
    return applied.outcomes[applied.apps.index(app)] if app in applied.apps else "no-change"
