"""What is written to the target, and the outcomes that its answers mean.

Until the target has answered, it is unknown what a write has changed. So the write is requested
until it is answered, also after a restart and after a timeout, and only then are its outcomes
published. Meanwhile a breaker may open, or an operator may switch the domain off: then the write
is withdrawn instead of repeated.
"""

from typing import Any, Final

import msgspec

from schemas.scale_applied import Outcome, ScaleApplied
from services._kit.inventory import DeclaredApps
from services._kit.logs import without_userinfo
from services._kit.orders import NO_EFFECT
from services.actuator.permissions import Permissions, Verdict
from services.actuator.ruling import COLUMNS, Ruling
from services.actuator.target import Change, Numbers, Withdrawal, Write, Written

_OUTCOMES: Final[dict[str, Outcome]] = {
    "applied": "applied",
    "repeat": "applied",
    "superseded": "superseded",
    "conflict": "held",
    "unknown": "held",
    "refused": "held",
    "withdrawn": "held",
}
"""By answer of the target. A repeat was applied by an earlier request of the same write."""

_REFUSALS: Final = {"conflict": "target-changed"}
"""Reasons of refused changes that the answer alone explains."""

_MOST_DETAIL: Final = 300
"""Characters of a target's message in the audit, which repeats it for each app."""


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """A write that was requested, by the event to publish once it is answered."""

    applied: ScaleApplied

    @property
    def tick(self) -> int:
        """Tick of the write."""
        return self.applied.tick

    @property
    def write(self) -> Write:
        """Not saved: it follows from the event, and would be as large."""
        applied = self.applied
        return Write(domain=applied.domain, tick=self.tick, changes=changes_of(applied))


def again(
    pending: Pending, verdict: Verdict, apps: DeclaredApps, permissions: Permissions
) -> Write | Withdrawal:
    """The write again, or its withdrawal if one of its changes is no longer permitted.

    What only a read shows is not checked again: the target refuses a change whose numbers before
    are not those that it has, or whose workload it must leave alone.
    """
    applied, write = pending.applied, pending.write
    reasons = dict(zip(applied.apps, applied.reasons, strict=True))
    for change in write.changes:
        app = apps.find(change.app)
        ordered = NO_EFFECT if app is None else permissions.effect(app, applied.time)
        steps = [getattr(change, name) - getattr(change.before, name) for name in COLUMNS]
        why = reasons[change.app]
        reason = permissions.objection(applied.domain, app, steps, ordered, verdict, why)
        if reason:
            # As a whole: the target takes all changes of a decision for one write, so what an
            # earlier process still sends would pass beside a part of it.
            return Withdrawal(write=write, reason=reason)
    return write


def changes_of(applied: ScaleApplied) -> list[Change]:
    """The changes to write."""
    return [
        Change(
            app=app,
            replicas=applied.replicas[index],
            cpu_request=applied.cpu_request[index],
            memory_request=applied.memory_request[index],
            before=Numbers(*(getattr(applied, f"{name}_before")[index] for name in COLUMNS)),
            decision_id=applied.decision_id,
        )
        for index, app in enumerate(applied.apps)
        if applied.outcomes[index] == "applied"
    ]


def trials_of(applied: ScaleApplied, ruling: Ruling) -> list[Change]:
    """What is held by preview alone, as the changes that it would be."""
    names = dict(zip(ruling.subjects, applied.apps, strict=True))
    return [
        Change(
            app=names[index],
            replicas=replicas,
            cpu_request=cpu,
            memory_request=memory,
            before=Numbers(*ruling.before[:, index].tolist()),
            decision_id=applied.decision_id,
        )
        for index, (replicas, cpu, memory) in ruling.trials.items()
    ]


def with_answers(applied: ScaleApplied, result: Written) -> ScaleApplied:
    """The decided outcomes, corrected by the target's answers."""
    names, detail = ("outcomes", "reasons", *COLUMNS), _public(result.detail)
    columns: dict[str, list[Any]] = {name: list(getattr(applied, name)) for name in names}
    for index, app in enumerate(applied.apps):
        # Without an answer nothing counts as done.
        answer = result.answers.get(app, "silent")
        outcome = _OUTCOMES.get(answer, "held")
        if app in result.trials and applied.outcomes[index] == "held":
            reason = f"{applied.reasons[index]}: {_public(result.trials[app])}"
            columns["reasons"][index] = reason
        if applied.outcomes[index] != "applied" or outcome == "applied":
            continue
        columns["outcomes"][index] = outcome
        told = _public(result.reasons.get(app, "")) or detail
        columns["reasons"][index] = _REFUSALS.get(answer) or told or f"target-{answer}"
        # Not applied: the event names the numbers that stay in force.
        for name in COLUMNS:
            columns[name][index] = getattr(applied, f"{name}_before")[index]
    return msgspec.structs.replace(applied, **columns)


def _public(detail: str) -> str:
    """A target's message without secrets, cut to its length in the audit."""
    return without_userinfo(detail)[:_MOST_DETAIL]
