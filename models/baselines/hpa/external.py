"""HPAs on metrics from outside the cluster's API, as KEDA or prometheus-adapter provide them.

Such a metric is one number for the whole app, with a target for each pod (`External` with an
`AverageValue`). It has no samples of single pods, so nothing is missing or unready. An HPA may have
several; the highest recommendation counts. HPAs here always have a `behavior` field.
"""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from models.baselines.hpa.behaviour import BehaviourMemory, empty_memory
from models.baselines.hpa.settings import (
    Behaviour,
    BehaviourRules,
    Bounds,
    ScalingRules,
    compile_rules,
)
from models.baselines.hpa.simulated import (
    SYNC_MILLIS,
    SYNC_S,
    TOLERANCE,
    Clock,
    behave_all,
    explain,
    sync_schedule,
)
from models.baselines.hpa.window import ABSENT, NO_METRIC, NOT_DUE, gate
from models.cluster import rows
from models.cluster.arrays import F64, I32, Mask
from models.cluster.inventory import Inventory
from models.cluster.observation import Observation
from models.cluster.plan import Plan, empty_plan
from models.jit import copy_row, kernel
from models.sim.state import NONE

_MILLI: Final = 1000.0
_MOST: Final = 2.0**31 - 1.0
"""Replicas are 32 bits wide."""


def external_replicas(usage: F64, target: F64, current: I32, tolerance: float = TOLERANCE) -> I32:
    """Replicas for a metric of the app and its target per pod; NO_METRIC where there is none.

    The controller's `GetExternalPerPodMetricReplicas`: both are whole thousandths, the ratio is
    that to what the current replicas may carry, and beyond the tolerance replicas are the quotient
    rounded up. A target that is not known yet is a trigger that is not configured.
    """
    usable = (usage >= 0) & np.isfinite(usage) & (target > 0)
    whole = np.ceil(np.where(usable, usage, 0.0) * _MILLI)
    each = np.maximum(1.0, np.round(np.where(usable, target, 1.0) * _MILLI))
    ratio = whole / (each * np.maximum(1, current))
    tolerated = (1.0 - tolerance <= ratio) & (ratio <= 1.0 + tolerance)
    wanted = np.where(tolerated, current, np.minimum(np.ceil(whole / each), _MOST))
    found: I32 = np.where(usable, wanted, NO_METRIC).astype(np.int32)
    return found


def highest(proposals: Sequence[I32], failed: Mask, current: I32) -> I32:
    """The largest proposal. If a metric failed, one that would scale in is no recommendation."""
    most = np.maximum.reduce([*proposals])
    found: I32 = np.where(failed & (most < current), NO_METRIC, most).astype(np.int32)
    return found


class ExternalHpa:
    """One HPA per app, for recommendations that the caller computes from external metrics."""

    def __init__(self, inventory: Inventory, pools: int, stabilisation_s: float) -> None:
        apps, self._pools = inventory.domain.size, pools
        down = ScalingRules(stabilization_window_s=round(stabilisation_s))
        self._rules = compile_rules([Behaviour(scale_down=down)] * apps)
        # Only the bounds of replicas are read: target and tolerance are the caller's.
        nothing = np.zeros(0)
        self._bounds = Bounds(
            target=np.zeros((0, 0)),
            low=nothing,
            high=nothing,
            least=inventory.min_replicas,
            most=inventory.max_replicas,
        )
        tick_s = inventory.tick_s
        self._clock = Clock(
            schedule=sync_schedule(apps, tick_s),
            syncs_per_cycle=math.lcm(tick_s, SYNC_S) // SYNC_S,
            tick_millis=1000 * tick_s,
            window_millis=0,
        )
        self._plan = empty_plan(0, apps, pools)

    def start(self, observation: Observation) -> BehaviourMemory:
        """An empty memory for each environment."""
        environments, apps = observation.missing.shape
        # The first sync stores two recommendations, and an expired period is still listed.
        longest = (int(self._rules.window.max()), int(self._rules.longest.max()))
        recommendations, events = (length // SYNC_MILLIS + 3 for length in longest)
        memory = empty_memory(recommendations, events, apps)
        return BehaviourMemory(*(np.repeat(part[None], environments, axis=0) for part in memory))

    def step(self, observation: Observation, wanted: I32, memory: BehaviourMemory) -> Plan:
        """Sync the HPAs that are due; plan and memory are overwritten in place."""
        environments, apps = observation.missing.shape
        if self._plan.replicas.shape[0] != environments:
            self._plan = empty_plan(environments, apps, self._pools)
        _sync(observation, wanted, memory, self._plan, self._bounds, self._rules, self._clock)
        return self._plan


@kernel
def _sync(
    obs: Observation,
    wanted: I32,
    memory: BehaviourMemory,
    plan: Plan,
    bounds: Bounds,
    rules: BehaviourRules,
    clock: Clock,
) -> None:
    """The checks before the metric, then windows and policies; see `simulated` for the clock."""
    for e in range(obs.tick.size):
        status, tick = obs.status[e], obs.tick[e]
        current, reason, replicas = status[rows.REPLICAS], plan.reason[e], plan.replicas[e]
        cycle = tick // clock.schedule.shape[0]
        due = clock.schedule[tick - cycle * clock.schedule.shape[0]]
        copy_row(status[rows.CPU_REQUEST], plan.cpu[e])
        copy_row(status[rows.MEMORY_REQUEST], plan.memory[e])
        copy_row(current, replicas)
        for app in range(current.size):
            now = current[app]
            recommended = gate(wanted[e, app], now, bounds.least[app], bounds.most[app], now != 0)
            recommended = NOT_DUE if due[app] == NONE else recommended
            reason[app] = ABSENT if status[rows.ACTIVE, app] == 0 else recommended
        parts = BehaviourMemory(
            memory.recommended[e], memory.recommendations[e], memory.changed[e], memory.changes[e]
        )
        first = cycle * clock.syncs_per_cycle
        behave_all(rules, parts, bounds, reason, current, due, first, replicas)
        explain(reason, current, bounds.most, replicas)
