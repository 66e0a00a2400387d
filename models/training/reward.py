"""What a minute is worth to a policy, and how much better it was than expected.

Every term is a difference to the plain heuristic on the same seed: what the seed costs anyway
cancels out. Without the pair, policies of a prototype ended 6 to 12 % worse.
"""

from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64, I32
from models.training.args import Weights

_LEAST: Final = 1e-9
_WINDOW: Final = 10
"""Minutes over which the variance of p99 counts."""
_LATEST: Final = 5.0
"""P99 over target from which nothing is told apart."""


class Costs(NamedTuple):
    """Of each minute of a run. M minutes, E environments, D domains, A apps."""

    domains: F64
    """[M, E, D] violation minutes, not weighted by priority."""
    nodes: F64
    """[M, E] node-hours."""
    apps: F64
    """[M, E, A] violation minutes."""
    held: F64
    """[M, E, A] what the app's pods hold, as node-hours."""
    late: F64
    """[M, E, D] p99 over the target."""
    money: F64
    """[M, E] what nodes cost; reserved ones in every minute alike, whether they run or not."""
    overspend: F64
    """[M, E] 1 where it was more than the spend cap allows."""


def commander_rewards(
    ours: Costs,
    plain: Costs,
    raw: F64,
    priority: I32,
    objective: F64,
    weights: Weights,
    discount: float = 0.0,
) -> F64:
    """[M, E] of the Commander, in mean minutes of the plain heuristic.

    `raw` [M, E, actions] are its actions, `objective` the weights of the priorities in J,
    `discount` that of potentials.
    """
    weight = _guarded(objective, weights)[priority]
    mean = _mean_cost(plain, weight)
    difference = (ours.domains - plain.domains) * weight
    # A policy that helps four domains at the cost of one is not what operators want.
    worst = difference.max(axis=2)
    total = difference.sum(axis=2) + weights.node_hours * (ours.nodes - plain.nodes)
    total = total + weights.money * (ours.money - plain.money)
    shared = (1.0 - weights.worst_domain) * total + weights.worst_domain * worst
    cost = np.clip(shared / mean, -weights.most, weights.most)
    cost = cost + weights.overspend * (ours.overspend - plain.overspend)
    terms = of_latency(ours.late, plain.late, weights, discount).mean(axis=2)
    reward: F64 = terms - cost - weights.action_change * changes(raw)
    return reward


class Growth(NamedTuple):
    """What a Soldier made larger, and whether it should have. A apps."""

    actions: F64
    """[M, E, A, K] logarithms of the factors of each app."""
    urgency: F64
    """[M, E, A] of the app's domain."""
    at_risk: F64
    """[M, E, A] 1 where the app is."""


def soldier_rewards(
    ours: Costs,
    plain: Costs,
    growth: Growth,
    domain: I32,
    priority: I32,
    objective: F64,
    weights: Weights,
    discount: float = 0.0,
) -> F64:
    """[M, E, A] of each app; `domain` [A] is the app's, `priority` [D] what domains declare.

    Against its own mean cost, so that small apps learn as much as large ones.
    """
    weight = _guarded(objective, weights)[priority[domain]]
    mean = plain.held.mean(axis=(0, 1)) + _LEAST
    total = (ours.apps - plain.apps) * weight + weights.node_hours * (ours.held - plain.held)
    cost = np.clip(total / mean, -weights.most_of_app, weights.most_of_app)
    terms = of_latency(ours.late, plain.late, weights, discount)[..., domain]
    reward: F64 = (
        terms + weights.coupling * coupling(growth) - cost
        - weights.action_change * changes(growth.actions)
    )  # fmt: skip
    return reward


def coupling(growth: Growth) -> F64:
    """[M, E, A] how far growth follows the Commander: under urgency it belongs to apps at risk."""
    more = np.maximum(growth.actions, 0.0).sum(axis=-1)
    followed: F64 = growth.urgency * more * (2.0 * growth.at_risk - 1.0)
    return followed


def of_latency(ours: F64, plain: F64, weights: Weights, discount: float) -> F64:
    """[M, E, D] what the p99 of domains is worth beyond their violations; `ours` over target."""
    found = np.zeros(ours.shape)
    if weights.latency_variance:
        jitter = variance(ours) - variance(plain)
        found -= weights.latency_variance * np.clip(jitter, -weights.most, weights.most)
    if weights.potential:
        both = (-np.maximum(0.0, np.minimum(late, _LATEST) - 1.0) for late in (ours, plain))
        mine, theirs = (shaping(potential, discount) for potential in both)
        found += weights.potential * (mine - theirs)
    return found


def variance(late: F64) -> F64:
    """Of the last `_WINDOW` minutes, or of those that there are."""
    found = np.empty_like(late)
    for minute in range(len(late)):
        found[minute] = late[max(0, minute + 1 - _WINDOW) : minute + 1].var(axis=0)
    return found


def shaping(potential: F64, discount: float) -> F64:
    """[M, ...] what each minute adds to the reward for the potential [M, ...] that it ends with.

    Ng, Harada and Russell (1999): the discounted sum depends on the first and the last state only,
    so no other policy becomes the best one. The first minute begins where it ends.
    """
    before = np.concatenate((potential[:1], potential[:-1]))
    found: F64 = discount * potential - before
    return found


def changes(raw: F64) -> F64:
    """[M, E] squared change of the actions since the minute before; the first is no change."""
    before = np.concatenate((raw[:1], raw[:-1]))
    squared: F64 = ((raw - before) ** 2).sum(axis=-1)
    return squared


def advantages(rewards: F64, values: F64, discount: float, trace: float) -> tuple[F64, F64]:
    """Generalised advantage estimates and returns, [M, ...] each.

    A scenario just ends, the cluster does not: the last minute is followed by its own value.
    """
    found = np.zeros_like(rewards)
    following, ahead = values[-1], np.zeros_like(values[-1])
    for minute in range(len(rewards) - 1, -1, -1):
        error = rewards[minute] + discount * following - values[minute]
        ahead = error + discount * trace * ahead
        found[minute], following = ahead, values[minute]
    return found, found + values


def _guarded(objective: F64, weights: Weights) -> F64:
    """The objective's weights with that of P0 raised: a plain sum sells P0 for the others."""
    return objective * np.where(np.arange(objective.size) == 0, weights.p0, 1.0)


def _mean_cost(plain: Costs, weight: F64) -> float:
    return float(((plain.domains * weight).sum(axis=2) + plain.nodes).mean()) + _LEAST
