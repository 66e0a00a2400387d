"""The figures of a run: one row per environment, for tables and JSON files.

Everything comes from the accounts (`accounting.py`), so a row covers the accounted part of a
scenario without its warm-up. Only this module computes PW and J.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec
import numpy as np

from models.cluster.arrays import I64
from models.cluster.description import PRIORITIES, Priority
from models.sim.accounting import (
    ACTIONS,
    CPU_CAPACITY,
    CPU_USED,
    CRASHED,
    EVICTED,
    MAX_PENDING,
    MEMORY_CAPACITY,
    MEMORY_USED,
    MONEY,
    NODE_TICKS,
    OOM_KILLED,
    OVERSPEND,
    P0_WAIT_TICKS,
    P3_HELD,
    P3_HELD_OF_P0_POOLS,
    PENDING_TICKS,
    PREEMPTED,
    REFUSED,
    RESIZED,
    REVERSALS,
    STARTED,
    STOPPED,
    TICKS,
    UNSCORED,
    WAIT_BINS,
)
from models.sim.world import World

_DAY_S = 24 * 3600
_HOUR_S = 3600


class Decisions(NamedTuple):
    """Counts of the controller's decisions, which the world cannot make: it only gets the plans."""

    missing_data_decreases: I64
    """[E] planned decreases, per app and dimension, in ticks without a sample of that app."""
    budget_overruns: I64 | None = None
    """[E] increases beyond a budget; None if the controller has no budgets."""
    insured_node_ticks: I64 | None = None
    """[E, P] nodes kept only for the loss of a zone, summed over ticks; None if the controller
    knows no insurance."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One environment's figures. Shares are 0 to 1; money is in the cluster file's currency."""

    scenario: str
    controller: str
    seed: int
    apps: int
    violation_minutes: dict[Priority, float]
    """By priority of the domain that the app belonged to in that minute: violating share of each
    app-minute x the app's traffic over the mean app traffic of that domain."""
    pw: float
    """Violation minutes, each priority times its weight."""
    objective: float
    """J = PW + node-hours."""
    node_hours: float
    """Existing nodes, booting ones included."""
    money: float
    """Nodes at their market's price; reserved ones are billed whether they exist or not."""
    spend_cap_share: float
    """Money over what the spend cap allows for the same time."""
    overspend: float
    """Money beyond the spend cap, summed over ticks: other ticks below it don't offset it."""
    scaling_actions: int
    """Applied changes, per app and dimension (replicas, requests)."""
    reversals: int
    """Actions that turn back the app's previous one within 5 minutes."""
    oscillation_rate: float
    """Reversals over actions."""
    loops_per_day: float
    """Reversals / 2, scaled to 24 hours: a loop is out and back, two reversals."""
    pods_started: int
    """Bound to a node for any reason: scaling, deploys, lost nodes."""
    pods_stopped: int
    max_pending_pods: int
    mean_pending_pods: float
    resized_in_place: int
    """Pods whose requests changed without a restart."""
    resizes_refused: int
    """Pods that had to restart elsewhere because their node was full."""
    need_to_ready_p50_s: float
    """From the tick a pod is needed to the tick it is ready. Over all pods bound in the accounted
    part, and pods still waiting at its end with their wait so far; 0 if there are none."""
    need_to_ready_p95_s: float
    budget_overruns: int | None
    """None if the controller has no budgets."""
    missing_data_decreases: int
    """Planned decreases, per app and dimension, in ticks without a sample of that app."""
    latency_p99_ms: float
    """Mean of the P0 apps' 99th percentiles, weighted by traffic, over the minutes."""
    p3_share_while_p0_waits: float
    """Mean share of the ready CPU that P3 pods occupy, over the ticks in which a P0 pod waits for a
    node since an earlier tick; 0 if there are none."""
    p3_share_of_p0_pools_while_p0_waits: float
    """The same for the pools that the waiting P0 pods may use, where P3 could make room."""
    p0_wait_ticks: int
    """Number of those ticks."""
    cpu_utilisation: float
    """Used over allocatable of ready nodes, sampled each minute."""
    memory_utilisation: float
    unscored_transactions: float
    """Requests that continued without the answer of a failed fail-open call."""
    evictions: int
    """Pods that lost their node."""
    preemptions: int
    restarts: int
    """Containers that crashed or were OOM-killed."""
    insurance_node_hours: float | None = None
    """The part of the node-hours that only insures against the loss of a zone (`survive: zone`);
    None if the controller knows no insurance."""
    insurance_money: float | None = None
    """The same at the declared price of each pool, whichever markets the nodes came from."""


def summarise(world: World, controller: str, decisions: Decisions) -> list[Result]:
    """The result of each environment so far."""
    return [_row(world, e, controller, decisions) for e in range(world.environments)]


def quantile_s(waits: I64, share: float, tick_s: float) -> float:
    """Quantile `share` of a need-to-ready histogram, in seconds."""
    pods = np.cumsum(waits)
    if pods[-1] == 0:
        return 0.0
    return float(np.searchsorted(pods, share * pods[-1])) * tick_s


def priority_weighted(
    minutes: Mapping[Priority, float], weights: Mapping[Priority, float]
) -> float:
    """PW: violation minutes by priority, weighted."""
    return sum(weights[name] * value for name, value in minutes.items())


def _row(world: World, e: int, controller: str, decisions: Decisions) -> Result:
    totals, tick_s = world.accounts.totals[e], float(world.cluster.tick_seconds)
    seconds = totals[TICKS] * tick_s
    minutes = _violation_minutes(world, e)
    pw = priority_weighted(minutes, world.cluster.priority_weights)
    node_hours = float(totals[NODE_TICKS]) * tick_s / _HOUR_S
    # With the pods that still wait: otherwise pods that never get a node would improve the figure.
    waits = world.accounts.waits[e].sum(axis=0) + _still_waiting(world, e)
    overruns, insured = decisions.budget_overruns, decisions.insured_node_ticks
    insured_hours = None if insured is None else insured[e] * tick_s / _HOUR_S
    return Result(
        scenario=world.scenario.name,
        controller=controller,
        seed=int(world.state.env["seed"][e]),
        apps=int(world.given.apps.size),
        violation_minutes=minutes,
        pw=pw,
        objective=pw + node_hours,
        node_hours=node_hours,
        money=float(totals[MONEY]),
        spend_cap_share=_ratio(totals[MONEY], world.cluster.spend_cap_per_hour * seconds / _HOUR_S),
        overspend=float(totals[OVERSPEND]),
        scaling_actions=int(totals[ACTIONS]),
        reversals=int(totals[REVERSALS]),
        oscillation_rate=_ratio(totals[REVERSALS], totals[ACTIONS]),
        # A loop is out and back, so two reversals.
        loops_per_day=_ratio(totals[REVERSALS] / 2 * _DAY_S, seconds),
        pods_started=int(totals[STARTED]),
        pods_stopped=int(totals[STOPPED]),
        max_pending_pods=int(totals[MAX_PENDING]),
        mean_pending_pods=_ratio(totals[PENDING_TICKS], totals[TICKS]),
        resized_in_place=int(totals[RESIZED]),
        resizes_refused=int(totals[REFUSED]),
        need_to_ready_p50_s=quantile_s(waits, 0.5, tick_s),
        need_to_ready_p95_s=quantile_s(waits, 0.95, tick_s),
        budget_overruns=None if overruns is None else int(overruns[e]),
        missing_data_decreases=int(decisions.missing_data_decreases[e]),
        latency_p99_ms=_latency_ms(world, e),
        p3_share_while_p0_waits=_ratio(totals[P3_HELD], totals[P0_WAIT_TICKS]),
        p3_share_of_p0_pools_while_p0_waits=_ratio(
            totals[P3_HELD_OF_P0_POOLS], totals[P0_WAIT_TICKS]
        ),
        p0_wait_ticks=int(totals[P0_WAIT_TICKS]),
        cpu_utilisation=_ratio(totals[CPU_USED], totals[CPU_CAPACITY]),
        memory_utilisation=_ratio(totals[MEMORY_USED], totals[MEMORY_CAPACITY]),
        unscored_transactions=float(world.accounts.domains[e, :, UNSCORED].sum()),
        evictions=int(totals[EVICTED]),
        preemptions=int(totals[PREEMPTED]),
        restarts=int(totals[CRASHED] + totals[OOM_KILLED]),
        insurance_node_hours=None if insured_hours is None else float(insured_hours.sum()),
        insurance_money=(
            None if insured_hours is None else float(insured_hours @ world.inventory.pool_price)
        ),
    )


def _still_waiting(world: World, e: int) -> I64:
    """[WAIT_BINS] pods that are without a node now, by ticks since they were needed."""
    waits = np.zeros(WAIT_BINS, np.int64)
    queue = world.state.queue[e, : world.state.env["queue_length"][e]]
    # The last bin holds all longer waits.
    ticks = np.minimum(world.state.env["tick"][e] - queue["since"], WAIT_BINS - 1)
    np.add.at(waits, ticks, queue["count"])
    return waits


def _violation_minutes(world: World, e: int) -> dict[Priority, float]:
    priority = world.given.rules.domains["priority"]
    # `domain_minutes`, not the apps' minutes: those would follow an app that moves.
    sums = np.bincount(priority, world.accounts.domain_minutes[e], minlength=len(PRIORITIES))
    return {name: float(value) for name, value in zip(PRIORITIES, sums, strict=True)}


def _latency_ms(world: World, e: int) -> float:
    highest = world.given.rules.domains["priority"] == 0
    slow, requests = world.accounts.latency[e][highest].sum(axis=0)
    return 1000 * _ratio(slow, requests)


def _ratio(part: float, whole: float) -> float:
    """0 if `whole` is 0."""
    return float(part / whole) if whole > 0 else 0.0
