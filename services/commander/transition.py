"""What a minute of the Commander was worth, for retraining."""

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


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """What the Commander saw and did in a minute."""

    tick: int
    state: dict[str, float]
    action: dict[str, float]
    nodes: int
    """Ready and coming: all that is paid for."""
    at_risk: list[int]
    """Apps per domain."""


def moment_of(
    tick: int,
    domains: Sequence[str],
    report: Report,
    orders: CommanderDecision,
    pools: Mapping[str, PoolObserved],
) -> Moment:
    """The reports of the domains and the pools, and what was granted."""
    budget = orders.directive.budget
    seen, done = {}, {"reserve": float(budget.reserve[0])}
    for place, domain in enumerate(domains):
        for name, column in report._asdict().items():
            seen[f"{domain}.{name}"] = float(column[0, place])
        for name in _ACTIONS:
            done[f"{domain}.{name}"] = float(getattr(budget, name)[0, place])
    for name, pool in pools.items():
        seen[f"pool.{name}.ready"] = pool.ready
        seen[f"pool.{name}.coming"] = pool.booting + pool.requested
    return Moment(
        tick=tick,
        state=seen,
        action=done,
        nodes=sum(pool.ready + pool.booting + pool.requested for pool in pools.values()),
        at_risk=[int(count) for count in report.at_risk[0]],
    )


def transition(
    before: Moment, now: Moment, weights: Sequence[float], cause: TickEvent, policy: str
) -> TransitionRecorded:
    """From one minute to the next.

    The reward is what can be seen of the objective: apps at risk by priority, and node-hours.
    """
    risk = sum(weight * count for weight, count in zip(weights, now.at_risk, strict=True))
    return TransitionRecorded(
        tick=before.tick,
        time=cause.time,
        trace_id=f"commander/{before.tick}",
        agent="commander",
        kind="commander",
        next_tick=now.tick,
        state=before.state,
        action=before.action,
        reward=-(risk + now.nodes / _MINUTES_PER_HOUR),
        next_state=now.state,
        policy=policy,
    )
