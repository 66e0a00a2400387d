"""What became of every change: the target's journal against plans and outcomes on the topics."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from schemas.scale_planned import ScalePlanned
from services.admin.decisions import Decisions, Key
from services.simcluster.target import Entry

_NUMBERS: Final = ("replicas", "cpu_request", "memory_request")
_OWN_REASONS: Final = frozenset({"breaker-open", "breaker-stale", "no-frame", "not-declared"})
"""Holds that a fault causes; the others are ordinary decisions."""
_TWO_MINUTES: Final = 12
"""Ticks. A minute's budget comes a little after its first tick."""


class Window(NamedTuple):
    """Ticks in which a fault could have done harm, and what it claimed."""

    fault: str
    first: int
    last: int
    idle_apps: frozenset[str] = frozenset()
    """Busy apps that forged data called idle: whoever decreases them believed it."""


class Harm(NamedTuple):
    """What a fault did in its window."""

    lost: int
    doubled: int
    wrong_decreases: int
    holds: int
    silenced: int
    """Domains without a budget in the last two minutes of the window."""


def harm_of(
    window: Window, decisions: Decisions, journal: Sequence[Entry], domains: Sequence[str]
) -> Harm:
    """Count the harm in one window."""
    budgeted = {
        domain
        for tick, domain in decisions.budgets
        if window.last - _TWO_MINUTES < tick <= window.last
    }
    plans = {key: plan for key, plan in decisions.plans.items() if _within(key[0], window)}
    entries = [entry for entry in journal if _within(entry.tick, window)]
    return Harm(
        lost=_lost(plans, decisions, entries),
        doubled=_doubled(entries),
        wrong_decreases=sum(_is_decrease(e) and e.app in window.idle_apps for e in entries),
        holds=sum(
            outcome == "held" and reason in _OWN_REASONS
            for key in plans
            if key in decisions.applied
            for outcome, reason in zip(
                decisions.applied[key].outcomes, decisions.applied[key].reasons, strict=True
            )
        ),
        silenced=len(set(domains) - budgeted),
    )


def _within(tick: int, window: Window) -> bool:
    return window.first <= tick <= window.last


def _lost(plans: Mapping[Key, ScalePlanned], decisions: Decisions, entries: Sequence[Entry]) -> int:
    """Plans without an outcome, and changes that one side has and the other does not."""
    unanswered = sum(
        bool(_changes(plan)) for key, plan in plans.items() if key not in decisions.applied
    )
    reported = {
        (applied.decision_id, app)
        for key in plans
        if (applied := decisions.applied.get(key)) is not None
        for app, outcome in zip(applied.apps, applied.outcomes, strict=True)
        if outcome == "applied"
    }
    made = {(entry.decision_id, entry.app) for entry in entries if entry.outcome == "applied"}
    return unanswered + len(reported ^ made)


def _doubled(entries: Sequence[Entry]) -> int:
    applied = Counter((e.decision_id, e.app) for e in entries if e.outcome == "applied")
    return sum(count - 1 for count in applied.values())


def _changes(plan: ScalePlanned) -> list[str]:
    return [
        app
        for index, app in enumerate(plan.apps)
        if any(getattr(plan, n)[index] != getattr(plan, f"{n}_before")[index] for n in _NUMBERS)
    ]


def _is_decrease(entry: Entry) -> bool:
    before, after = entry.before, entry.after
    if before is None or after is None or entry.outcome != "applied":
        return False
    return any(getattr(after, name) < getattr(before, name) for name in _NUMBERS)
