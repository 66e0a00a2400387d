"""What a Soldier's minute was worth, for retraining."""

from typing import Final

import msgspec

from schemas.domain_observed import DomainObserved
from schemas.scale_planned import ScalePlanned
from schemas.transition_recorded import TransitionRecorded

_SEEN: Final = ("work", "essential", "wanted", "held", "pending", "distress", "rps", "at_risk")


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """What a Soldier saw and did in a tick."""

    tick: int
    state: dict[str, float]
    action: dict[str, float]


def moment_of(planned: ScalePlanned, frame: DomainObserved) -> Moment:
    """The sums of its domain, and how many pods it wanted more and less of."""
    sums = planned.sums
    seen = {} if sums is None else {name: float(getattr(sums, name)) for name in _SEEN}
    change = [now - was for now, was in zip(planned.replicas, planned.replicas_before, strict=True)]
    return Moment(
        tick=frame.tick,
        state=seen | {f"domain.{name}": value for name, value in frame.aggregates.items()},
        action={
            "pods_more": float(sum(step for step in change if step > 0)),
            "pods_less": float(-sum(step for step in change if step < 0)),
        },
    )


def transition(before: Moment, now: Moment, planned: ScalePlanned) -> TransitionRecorded:
    """From one minute to the next.

    The reward is what can be seen of the objective: apps at risk in the minute, and core-hours
    held; the domain's weight is the trainer's to apply.
    """
    held_hours = now.state.get("held", 0.0) / 60.0
    return TransitionRecorded(
        tick=before.tick,
        time=planned.time,
        trace_id=planned.trace_id,
        agent=f"soldier/{planned.domain}",
        kind="soldier",
        next_tick=now.tick,
        state=before.state,
        action=before.action,
        reward=-(now.state.get("at_risk", 0.0) + held_hours),
        next_state=now.state,
        policy=planned.policy,
    )
