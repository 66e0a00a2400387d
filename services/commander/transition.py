"""Transitions of the Commander, one per minute, for retraining."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from models.control.budget import CommanderDecision
from models.control.report import Report
from schemas.fields import TickEvent
from schemas.pool_observed import PoolObserved
from schemas.transition_recorded import TransitionRecorded

_ACTIONS: Final = ("share", "urgency", "headroom", "overdraft")
_MINUTES_PER_HOUR: Final = 60.0
SPEND, SPEND_CAP = "spend_per_hour", "spend_cap_per_hour"
"""What all nodes cost."""


class CommanderSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """State and action of the Commander in one minute."""

    tick: int
    state: dict[str, float]
    action: dict[str, float]
    nodes: int
    """Ready, booting and requested: all that is paid for."""
    at_risk: list[int]
    """Apps at risk, by domain."""
    drift: dict[str, float] = {}
    """Of a policy's features; empty where none is watched."""
    counterfactual: dict[str, float] = {}
    """The action beside the heuristic's own; empty without a policy."""


def snapshot_of(
    tick: int,
    domains: Sequence[str],
    report: Report,
    decision: CommanderDecision,
    pools: Mapping[str, PoolObserved],
    spend_per_hour: float,
    spend_cap_per_hour: float,
    counterfactual: dict[str, float],
    drift: dict[str, float],
) -> CommanderSnapshot:
    """State: reports of the domains, and pools. Action: what was granted."""
    budget = decision.directive.budget
    state = {SPEND: spend_per_hour, SPEND_CAP: spend_cap_per_hour}
    action = {"reserve": float(budget.reserve[0])}
    for index, domain in enumerate(domains):
        for name, column in report._asdict().items():
            state[f"{domain}.{name}"] = float(column[0, index])
        for name in _ACTIONS:
            action[f"{domain}.{name}"] = float(getattr(budget, name)[0, index])
    for name, pool in pools.items():
        state[f"pool.{name}.ready"] = pool.ready
        state[f"pool.{name}.coming"] = pool.booting + pool.requested
    return CommanderSnapshot(
        tick=tick,
        state=state,
        action=action,
        nodes=sum(pool.ready + pool.booting + pool.requested for pool in pools.values()),
        at_risk=[int(count) for count in report.at_risk[0]],
        counterfactual=counterfactual,
        drift=drift,
    )


def transition(
    before: CommanderSnapshot,
    after: CommanderSnapshot,
    weights: Sequence[float],
    cause: TickEvent,
    policy: str,
) -> TransitionRecorded:
    """The transition between two minutes.

    The reward is the observable part of the objective: apps at risk weighted by priority, and
    node-hours.
    """
    # Of the minute after the action: that is what the action led to.
    risk = sum(weight * count for weight, count in zip(weights, after.at_risk, strict=True))
    return TransitionRecorded(
        tick=before.tick,
        time=cause.time,
        trace_id=f"commander/{before.tick}",
        agent="commander",
        kind="commander",
        next_tick=after.tick,
        state=before.state,
        action=before.action,
        # A node in one minute costs 1/60 of a node-hour.
        reward=-(risk + after.nodes / _MINUTES_PER_HOUR),
        next_state=after.state,
        policy=policy,
        counterfactual=before.counterfactual,
        drift=before.drift,
    )
