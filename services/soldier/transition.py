"""Transitions of a Soldier, one per minute, for retraining."""

from typing import Final

import msgspec

from models.features.table import DOMAIN as DOMAIN_LEVEL
from schemas.domain_observed import DomainObserved
from schemas.scale_planned import ScalePlanned
from schemas.transition_recorded import TransitionRecorded

_RECORDED: Final = ("work", "essential", "wanted", "held", "pending", "distress", "rps", "at_risk")
"""Sums of a domain that are part of a recorded transition's state."""


class SoldierSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """State and action of a Soldier at a minute's first tick, for the next transition."""

    tick: int
    state: dict[str, float]
    action: dict[str, float]
    drift: dict[str, float] = {}
    """Of a policy's features; empty where none is watched."""
    counterfactual: dict[str, float] = {}
    """The plan beside the heuristic's own; empty without a policy."""


def snapshot_of(
    planned: ScalePlanned,
    frame: DomainObserved,
    counterfactual: dict[str, float],
    drift: dict[str, float],
) -> SoldierSnapshot:
    """State: sums and aggregates of the domain. Action: pods planned more and less."""
    sums = planned.sums
    state = {} if sums is None else {name: float(getattr(sums, name)) for name in _RECORDED}
    change = [now - was for now, was in zip(planned.replicas, planned.replicas_before, strict=True)]
    return SoldierSnapshot(
        tick=frame.tick,
        # Known ones only: a transition has them twice, and must fit into a record.
        state=state
        | {
            f"domain.{name}": value
            for name, value in frame.aggregates.items()
            if name in DOMAIN_LEVEL.names
        },
        action={
            "pods_more": float(sum(step for step in change if step > 0)),
            "pods_less": float(-sum(step for step in change if step < 0)),
        },
        counterfactual=counterfactual,
        drift=drift,
    )


def transition(
    before: SoldierSnapshot, after: SoldierSnapshot, planned: ScalePlanned
) -> TransitionRecorded:
    """The transition between two minutes.

    The reward is the observable part of the objective: apps at risk in the minute and core-hours
    held. The trainer applies the domain's weight.
    """
    # Cores held for the minute, in core-hours.
    held_hours = after.state.get("held", 0.0) / 60.0
    return TransitionRecorded(
        tick=before.tick,
        time=planned.time,
        trace_id=planned.trace_id,
        agent=f"soldier/{planned.domain}",
        kind="soldier",
        next_tick=after.tick,
        state=before.state,
        action=before.action,
        reward=-(after.state.get("at_risk", 0.0) + held_hours),
        next_state=after.state,
        policy=planned.policy,
        counterfactual=before.counterfactual,
        drift=before.drift,
    )
