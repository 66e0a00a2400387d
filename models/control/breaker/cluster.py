"""The rules for all domains together: the cluster's own breaker.

It has one row: D is 1. E environments.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64, I32
from models.control.breaker.actions import Cause
from models.control.breaker.limits import Table, Thresholds, compile_table
from models.control.breaker.phases import BreakerMemory, judge

CAUSES: Final = (Cause.DOMAINS, Cause.COST, Cause.SILENCE, Cause.BUDGETS)
"""In the order of `ClusterReadings`."""
_IMPLAUSIBLE: Final = 0.5
"""Threshold on a reading that is 0 or 1."""
_ROUNDING: Final = 1e-6
"""What sums of shares may exceed 1 by."""


class ClusterThresholds(NamedTuple):
    """When the cluster's breaker trips. A tick is 10 s."""

    domains_share: float = 0.5
    """Share of the domains whose breakers tripped, for other reasons than an outage of ours."""
    domains_ticks: int = 3
    """Ticks for which `domains_share` must be exceeded before decreases are held."""
    cost_ratio: float = 1.1
    """Price of all nodes per hour over the spend cap."""
    cost_ticks: int = 30
    """Ticks for which `cost_ratio` must be exceeded before increases below P0 are held."""
    silence_ticks: int = 24
    """Ticks without a new budget; more than this holds decreases. Budgets are valid for 18."""
    budgets_ticks: int = 2
    """Ticks for which budgets must be implausible before decreases are held."""
    budgets_fallback_ticks: int = 12
    """Ticks for which budgets must be implausible before the next level decides, and again before
    the one after that: two rounds of budgets."""


class ClusterReadings(NamedTuple):
    """[E] what the rules judge by; NaN blocks closing."""

    domains: F64
    """Share of the domains that tripped."""
    cost: F64
    """Price per hour over the spend cap; 0 before a pool is observed. Not NaN: where nobody reports
    pools, a breaker that opened for another reason could never close."""
    silence: F64
    """Ticks since the newest budget; 0 before the first, since nothing is planned without one."""
    budgets: F64
    """1 where budgets are implausible."""


class Grant(NamedTuple):
    """A budget, as far as the rules judge it."""

    epoch: int
    share: float
    reserve: float
    cores: float


def cluster_table(limits: ClusterThresholds, recovery: Thresholds) -> Table:
    """The table of the cluster's breaker, with the recovery times of the domains."""
    thresholds = [limits.domains_share, limits.cost_ratio, limits.silence_ticks, _IMPLAUSIBLE]
    # Silence is a number of ticks already.
    patience = [limits.domains_ticks, limits.cost_ticks, 1, limits.budgets_ticks]
    return compile_table(CAUSES, [thresholds], [patience], recovery)


def cluster_fallback_table(limits: ClusterThresholds, recovery: Thresholds) -> Table:
    """The condition on which the whole cluster falls back."""
    patience = limits.budgets_fallback_ticks
    return compile_table((Cause.BUDGETS,), [[_IMPLAUSIBLE]], [[patience]], recovery)


def advance_cluster(
    tick: I32, readings: ClusterReadings, memory: BreakerMemory, table: Table
) -> BreakerMemory:
    """The state of the cluster's breaker after a tick; `tick` is [E]."""
    values = np.stack(readings, axis=1)[:, None, :]
    # Unknown is neither bad nor calm: it trips nothing, and nothing closes on it.
    values = np.where(values >= 0, values, np.nan)
    return judge(tick, values, memory, table)


def implausible(grants: Mapping[str, Grant], critical: Sequence[str]) -> str:
    """What is wrong with the newest budgets, by domain; empty if nothing is.

    `critical` names the P0 domains. Only budgets of the newest epoch add up to a whole.
    """
    newest = max((grant.epoch for grant in grants.values()), default=-1)
    current = {name: grant for name, grant in grants.items() if grant.epoch == newest}
    total = sum(grant.share for grant in current.values())
    total += max((grant.reserve for grant in current.values()), default=0.0)
    # `not x <= y` instead of `x > y`: NaN is implausible, too.
    if not total <= 1 + _ROUNDING:
        return f"shares and reserve sum to {total:.3f}"
    for name in critical:
        grant = current.get(name)
        if grant is not None and not (grant.share > 0 and grant.cores > 0):
            return f"{name} has no budget: {grant.share:g} of the capacity, {grant.cores:g} cores"
    return ""
