"""What became of every change: the target's journal against plans and outcomes on the topics."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from schemas.scale_planned import ScalePlanned
from services.admin.decisions import Decisions, Key
from services.measure.chaos.subject import NO_CLAIMS, Claims
from services.simcluster.target import Entry, Numbers

T = TypeVar("T")

_NUMBERS: Final = ("replicas", "cpu_request", "memory_request")
_OWN_REASONS: Final = frozenset(
    {
        "breaker-open",
        "breaker-stale",
        "no-frame",
        "not-declared",
        "pods-unknown",
        "sample-contradicts-target",
        "target-unreadable",
    }
)
"""Holds that a fault causes; the others are ordinary decisions."""
_TWO_MINUTES: Final = 12
"""Ticks. A minute's budget comes a little after its first tick."""
_GIVES_WAY: Final = "yield"
_MILLI: Final = 1000


class Window(NamedTuple):
    """Ticks in which a fault could have done harm, and what it claimed."""

    fault: str
    first: int
    last: int
    claims: Claims = NO_CLAIMS


class Evidence(NamedTuple):
    """Everything that is known of a system when it ends."""

    decisions: Decisions
    journal: Sequence[Entry]
    domains: Sequence[str]
    used: Mapping[tuple[int, str], float]
    """Cores that an app really used, by tick and app."""
    full_at: Mapping[str, float]
    """Use over request that the pods of an app can carry, by app."""
    dead_letters: int = 0


class Harm(NamedTuple):
    """What a fault did in its window."""

    lost: int
    doubled: int
    wrong_decreases: int
    holds: int
    silenced: int
    """Domains without a budget in the last two minutes of the window."""


def harm_of(window: Window, evidence: Evidence) -> Harm:
    """Count the harm in one window."""
    decisions = evidence.decisions
    budgeted = {
        domain
        for tick, domain in decisions.budgets
        if window.last - _TWO_MINUTES < tick <= window.last
    }
    plans = {key: plan for key, plan in decisions.plans.items() if _within(key[0], window)}
    entries = [entry for entry in evidence.journal if _within(entry.tick, window)]
    return Harm(
        lost=_lost(plans, decisions, entries, window.claims.deleted),
        doubled=_doubled(entries),
        wrong_decreases=sum(_is_wrong(entry, window.claims, evidence) for entry in entries),
        holds=sum(
            outcome == "held" and reason in _OWN_REASONS
            for key in plans
            if key in decisions.applied
            for outcome, reason in zip(
                decisions.applied[key].outcomes, decisions.applied[key].reasons, strict=True
            )
        ),
        silenced=len(set(evidence.domains) - budgeted),
    )


def merged(found: Iterable[Decisions]) -> Decisions:
    """Decisions that were read at several times, some before their records were deleted."""
    every = list(found)
    return Decisions(
        forecasts=_union(one.forecasts for one in every),
        budgets=_union(one.budgets for one in every),
        plans=_union(one.plans for one in every),
        applied=_union(one.applied for one in every),
        requests=_union(one.requests for one in every),
        contradictions=[text for one in every for text in one.contradictions],
        # A flood leaves hundreds of thousands of them: they are counted, not kept.
        dead_letters=[],
    )


def _union(found: Iterable[dict[Key, T]]) -> dict[Key, T]:
    # The first reading of a key counts: later ones may be replays of others.
    union: dict[Key, T] = {}
    for one in found:
        union = one | union
    return union


def _within(tick: int, window: Window) -> bool:
    return window.first <= tick <= window.last


def _lost(
    plans: Mapping[Key, ScalePlanned],
    decisions: Decisions,
    entries: Sequence[Entry],
    deleted: frozenset[Key],
) -> int:
    """Plans without an outcome, and changes that one side has and the other does not."""
    unanswered = sum(
        bool(_changes(plan))
        for key, plan in plans.items()
        if key not in decisions.applied and key not in deleted
    )
    reported = {
        (applied.decision_id, app)
        for key in plans
        if (applied := decisions.applied.get(key)) is not None
        for app, outcome in zip(applied.apps, applied.outcomes, strict=True)
        if outcome == "applied"
    }
    made = {(entry.decision_id, entry.app) for entry in entries if entry.outcome == "applied"}
    # Either way round: a change that the target made without a report, or the reverse.
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


def _is_wrong(entry: Entry, claims: Claims, evidence: Evidence) -> bool:
    """Whether a decrease was made because of a false claim, or takes what the app uses."""
    before, after = entry.before, entry.after
    if before is None or after is None or entry.outcome != "applied":
        return False
    if not any(getattr(after, name) < getattr(before, name) for name in _NUMBERS):
        return False
    # Without any true measurement no decrease can be right, however small.
    if (entry.tick, entry.domain) in claims.blind:
        return True
    # Pods may be full before they use all that they request.
    full_at = evidence.full_at.get(entry.app, 1.0)
    carried = min(_cores(before) * full_at, evidence.used.get((entry.tick, entry.app), 0.0))
    if _cores(after) * full_at < carried:
        return True
    plan = evidence.decisions.plans.get((entry.tick, entry.domain))
    if plan is not None and plan.epoch in claims.epochs:
        return True
    # A busy app may still give way to a domain with a higher need.
    reason = plan.reasons[plan.apps.index(entry.app)] if plan and entry.app in plan.apps else ""
    return entry.app in claims.idle_apps and reason != _GIVES_WAY


def _cores(numbers: Numbers) -> float:
    return numbers.replicas * numbers.cpu_request / _MILLI
