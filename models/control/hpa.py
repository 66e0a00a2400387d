"""A Horizontal Pod Autoscaler per app, as autoscaling/v2 computes it with default behaviour.

One metric: CPU utilisation of the request. Unready and missing pods are refilled as the
replica calculator does, scale-down looks back five minutes, scale-up is limited to the larger
of four pods and doubling per 15 s.

The 15 s sync falls on 10 s ticks: each HPA has a phase of its own and syncs in the ticks in
which a multiple of 15 s since that phase falls, two out of three.
"""

import math
from typing import Final, NamedTuple

import numpy as np

from models.forecaster.port import Forecast
from models.jit import copy_row, kernel
from models.sim.apps import F32, I8, I32
from models.sim.draws import Purpose, uniform
from models.sim.inventory import Inventory
from models.sim.observe import Observation, Pipeline
from models.sim.plan import Plan, Reason, empty_plan
from models.sim.state import (
    CPU,
    CPU_REQUEST,
    MEMORY_REQUEST,
    NONE,
    PENDING,
    PODS,
    READY,
    REPLICAS,
    STARTING,
)

SYNC_S: Final = 15
TOLERANCE: Final = 0.1
WINDOW_SYNCS: Final = 20
"""Recommendations within the 300 s downscale window."""
_VALUE, _SYNC = range(2)
_IDLE: Final = -1
_BLIND: Final = -2
_STEP_PODS: Final = 4
_STEP_FACTOR: Final = 2

_IN_TOLERANCE = int(Reason.HOLD_IN_TOLERANCE)
_OUT = int(Reason.SCALE_OUT)
_IN = int(Reason.SCALE_IN)
_STABILISING = int(Reason.HOLD_STABILISING)
_NO_METRICS = int(Reason.HOLD_NO_METRICS)
_NOT_DUE = int(Reason.HOLD_NOT_DUE)


class HpaState(NamedTuple):
    """What the controller remembers between ticks."""

    recommended: I32
    """[E, WINDOW_SYNCS, A] replicas recommended by the last syncs."""
    peak: I32
    """[E, 2, A] the highest of them, and the sync it came from: looked up anew only when it
    leaves the window."""


class Hpa:
    """One HPA per app; the target is a share of the CPU at which the app saturates."""

    name = "hpa"
    pipeline = Pipeline.HPA

    def __init__(self, inventory: Inventory, pools: int, tick_s: int, target: float = 0.75) -> None:
        self._inventory = inventory
        self._pools = pools
        self._target_percent = np.round(100 * target * inventory.saturation).astype(np.int32)
        self._schedule = sync_schedule(inventory.domain.size, tick_s)
        self._syncs_per_cycle = math.lcm(tick_s, SYNC_S) // SYNC_S
        self._plan = empty_plan(0, inventory.domain.size, pools)

    def start(self, observation: Observation) -> HpaState:
        """Seed the window with the current replicas, so that a fresh HPA does not scale down."""
        current = observation.known[:, None, REPLICAS]
        peak = np.repeat(current, 2, axis=1)
        peak[:, _SYNC] = 0
        return HpaState(np.repeat(current, WINDOW_SYNCS, axis=1), peak)

    def step(
        self,
        observation: Observation,
        forecast: Forecast | None,  # noqa: ARG002  every controller has this shape; HPA only reacts
        state: HpaState,
    ) -> tuple[Plan, HpaState]:
        """Sync the HPAs that are due; the others hold."""
        environments, apps = observation.missing.shape
        if self._plan.replicas.shape[0] != environments:
            self._plan = empty_plan(environments, apps, self._pools)
        _sync(
            observation,
            state,
            self._plan,
            self._inventory.min_replicas,
            self._inventory.max_replicas,
            self._target_percent,
            self._schedule,
            self._syncs_per_cycle,
        )
        return self._plan, state


def sync_schedule(apps: int, tick_s: int) -> I32:
    """[ticks of a cycle, A] number of the sync within the cycle, NONE where none is due.

    A cycle is the least common multiple of tick and sync period: 3 ticks, 2 syncs.
    """
    cycle = math.lcm(tick_s, SYNC_S) // tick_s
    schedule = np.full((cycle, apps), NONE, np.int32)
    for app in range(apps):
        phase = int(SYNC_S * uniform(0, Purpose.HPA_PHASE, app, 0, 0))
        before = (phase - tick_s) // SYNC_S
        for tick in range(cycle):
            sync = (tick * tick_s + phase) // SYNC_S
            if sync != before:
                schedule[tick, app] = sync
            before = sync
    return schedule


@kernel
def _sync(
    obs: Observation,
    state: HpaState,
    plan: Plan,
    least: I32,
    most: I32,
    target_percent: I32,
    schedule: I32,
    syncs_per_cycle: int,
) -> None:
    """All rules over all apps at once; an app without a valid sync has a negative `raw`."""
    for e in range(obs.tick.size):
        known, measured = obs.known[e], obs.measured[e]
        window, value, since = state.recommended[e], state.peak[e, _VALUE], state.peak[e, _SYNC]
        raw, current, replicas = plan.reason[e], known[REPLICAS], plan.replicas[e]
        cycle, due = obs.tick[e] // schedule.shape[0], schedule[obs.tick[e] % schedule.shape[0]]
        first = cycle * syncs_per_cycle
        copy_row(known[CPU_REQUEST], plan.cpu[e])
        copy_row(known[MEMORY_REQUEST], plan.memory[e])
        _recommend(
            measured[CPU], measured[PODS], known[READY], known[STARTING], known[PENDING],
            known[CPU_REQUEST], current, target_percent, raw,
        )  # fmt: skip
        _drop_invalid(obs.missing[e], measured[PODS], current, due, raw)
        for sync in range(syncs_per_cycle + 1):
            _remember(raw, due, sync, window[(first + sync) % WINDOW_SYNCS])
        _raise_peak(raw, due, first, value, since)
        _expire_peaks(raw, due, first, window, value, since)
        _limit(raw, current, value, least, most, replicas)
        _explain(raw, current, replicas)


@kernel
def _drop_invalid(missing: I8, pods: F32, current: I32, due: I32, raw: I32) -> None:
    for app in range(raw.size):
        blind = missing[app] == 1 or pods[app] == 0.0 or current[app] == 0
        value = _BLIND if blind else raw[app]
        raw[app] = _IDLE if due[app] == NONE else value


@kernel
def _remember(raw: I32, due: I32, sync: int, row: I32) -> None:
    """Store what the sync of the cycle recommends; a blind one recommends nothing."""
    for app in range(raw.size):
        row[app] = raw[app] if due[app] == sync else row[app]


@kernel
def _raise_peak(raw: I32, due: I32, first: int, value: I32, since: I32) -> None:
    for app in range(raw.size):
        higher = raw[app] >= 0 and raw[app] >= value[app]
        since[app] = np.int32(first + due[app]) if higher else since[app]
        value[app] = raw[app] if higher else value[app]


@kernel
def _expire_peaks(raw: I32, due: I32, first: int, window: I32, value: I32, since: I32) -> None:
    """Where the highest recommendation has left the window, look the next one up."""
    for app in range(raw.size):
        sync = first + due[app]
        if raw[app] < 0 or sync - since[app] < WINDOW_SYNCS:
            continue
        value[app] = raw[app]
        for past in range(sync - WINDOW_SYNCS + 1, sync + 1):
            if window[past % WINDOW_SYNCS, app] >= value[app]:
                value[app] = window[past % WINDOW_SYNCS, app]
                since[app] = past


@kernel
def _limit(raw: I32, current: I32, highest: I32, least: I32, most: I32, replicas: I32) -> None:
    """Scale in to the highest of the window, scale out by doubling or four pods at most."""
    for app in range(raw.size):
        now = current[app]
        lower = min(now, highest[app])
        upper = min(raw[app], max(now + _STEP_PODS, now * _STEP_FACTOR))
        wanted = upper if raw[app] > now else (lower if raw[app] < now else now)
        wanted = min(max(wanted, least[app]), most[app])
        replicas[app] = wanted if raw[app] >= 0 else now


@kernel
def _explain(raw: I32, current: I32, replicas: I32) -> None:
    """`raw` comes in as the recommendation and goes out as the reason of the decision."""
    for app in range(raw.size):
        held = _STABILISING if 0 <= raw[app] < current[app] else _IN_TOLERANCE
        held = _NO_METRICS if raw[app] == _BLIND else held
        held = _NOT_DUE if raw[app] == _IDLE else held
        moved = _OUT if replicas[app] > current[app] else _IN
        raw[app] = held if replicas[app] == current[app] else moved


@kernel
def _recommend(
    cpu: F32,
    pods: F32,
    ready: I32,
    starting: I32,
    pending: I32,
    request: I32,
    current: I32,
    target: I32,
    raw: I32,
) -> None:
    """The replica calculator: utilisation is cut to whole percents before the ratio.

    Written without branches, both outcomes computed, so that it runs over many apps at once.
    """
    for app in range(raw.size):
        cores = request[app] * 0.001
        counted = max(1.0, min(np.float64(pods[app]), np.float64(ready[app])))
        # What the sample's pods used, for the pods of them that are still there.
        usage = np.float64(cpu[app]) * counted / max(1.0, np.float64(pods[app]))
        absent = max(0.0, np.float64(ready[app]) - counted)
        unready = np.float64(starting[app] + pending[app])
        ratio = math.floor(usage * 100.0 / (counted * cores)) / target[app]
        over, under = ratio > 1.0, ratio < 1.0
        plain = _unless_tolerated(ratio, ratio * counted, current[app])
        # Refill: absent and unready pods use nothing when scaling out; absent ones use all of
        # their request when scaling in.
        more = (absent + unready) if over else (absent if under else 0.0)
        extra = absent * cores * max(100, target[app]) / 100.0 if under else 0.0
        total = counted + more
        refilled = math.floor((usage + extra) * 100.0 / (total * cores)) / target[app]
        careful = _unless_tolerated(refilled, refilled * total, current[app])
        flips = (refilled > 1.0) != over or (refilled < 1.0 and careful > current[app])
        flips = flips or (refilled > 1.0 and careful < current[app])
        careful = current[app] if flips else careful
        needs_refill = absent > 0.0 or (unready > 0.0 and over)
        raw[app] = careful if needs_refill else plain


@kernel
def _unless_tolerated(ratio: float, wanted: float, current: int) -> int:
    in_tolerance = 1.0 - TOLERANCE <= ratio <= 1.0 + TOLERANCE
    return current if in_tolerance else math.ceil(wanted)
