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

from models.control.controller import Inventory
from models.jit import copy_row, kernel
from models.sim.apps import F32, I8, I32
from models.sim.draws import Purpose, uniform
from models.sim.observe import Observation, Pipeline
from models.sim.plan import Plan, Reason, empty_plan
from models.sim.state import (
    CPU,
    CPU_REQUEST,
    MEMORY_REQUEST,
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
        self._tick_s = tick_s
        self._target_percent = np.round(100 * target * inventory.saturation).astype(np.int32)
        apps = inventory.domain.size
        phases = [int(SYNC_S * uniform(0, Purpose.HPA_PHASE, app, 0, 0)) for app in range(apps)]
        self._phase = np.array(phases, np.int32)
        self._plan = empty_plan(0, apps, pools)

    def start(self, observation: Observation) -> HpaState:
        """Seed the window with the current replicas, so that a fresh HPA does not scale down."""
        current = observation.known[:, None, REPLICAS]
        peak = np.repeat(current, 2, axis=1)
        peak[:, _SYNC] = 0
        return HpaState(np.repeat(current, WINDOW_SYNCS, axis=1), peak)

    def step(
        self, observation: Observation, forecast: None, state: HpaState
    ) -> tuple[Plan, HpaState]:
        """Sync the HPAs that are due; the others hold."""
        environments, apps = observation.missing.shape
        if self._plan.replicas.shape[0] != environments:
            self._plan = empty_plan(environments, apps, self._pools)
        plan = self._plan
        _sync(
            observation,
            state,
            plan,
            self._inventory.min_replicas,
            self._inventory.max_replicas,
            self._target_percent,
            self._phase,
            self._tick_s,
        )
        return plan, state


@kernel
def _sync(
    obs: Observation,
    state: HpaState,
    plan: Plan,
    least: I32,
    most: I32,
    target_percent: I32,
    phase: I32,
    tick_s: int,
) -> None:
    for e in range(obs.tick.size):
        known, measured = obs.known[e], obs.measured[e]
        copy_row(known[CPU_REQUEST], plan.cpu[e])
        copy_row(known[MEMORY_REQUEST], plan.memory[e])
        copy_row(known[REPLICAS], plan.replicas[e])
        raw = plan.reason[e]
        _recommend(
            measured[CPU], measured[PODS], known[READY], known[STARTING], known[PENDING],
            known[CPU_REQUEST], known[REPLICAS], target_percent, raw,
        )  # fmt: skip
        _apply_behaviour(
            obs.tick[e] * tick_s, tick_s, phase, obs.missing[e], measured[PODS], known[REPLICAS],
            least, most, state.recommended[e], state.peak[e], plan.replicas[e], plan.reason[e],
        )  # fmt: skip


@kernel
def _apply_behaviour(
    now: int,
    tick_s: int,
    phase: I32,
    missing: I8,
    pods: F32,
    current: I32,
    least: I32,
    most: I32,
    window: I32,
    peak: I32,
    replicas: I32,
    reason: I32,
) -> None:
    """Stabilise and limit the recommendations of the HPAs that are due.

    `reason` comes in as the raw recommendation and goes out as the reason.
    """
    for app in range(replicas.size):
        sync = (now + phase[app]) // SYNC_S
        if sync == (now - tick_s + phase[app]) // SYNC_S:
            reason[app] = _NOT_DUE
            continue
        if missing[app] == 1 or pods[app] == 0.0 or current[app] == 0:
            reason[app] = _NO_METRICS
            continue
        raw = reason[app]
        window[sync % WINDOW_SYNCS, app] = raw
        _keep_peak(window, peak, app, raw, sync)
        wanted = _limit(raw, current[app], peak[_VALUE, app])
        wanted = min(max(wanted, least[app]), most[app])
        replicas[app] = wanted
        reason[app] = _reason(raw, wanted, current[app])


@kernel
def _keep_peak(window: I32, peak: I32, app: int, raw: int, sync: int) -> None:
    """The highest recommendation of the window and the latest sync that made it."""
    if raw >= peak[_VALUE, app]:
        peak[_VALUE, app] = raw
        peak[_SYNC, app] = sync
    elif sync - peak[_SYNC, app] >= WINDOW_SYNCS:
        peak[_VALUE, app] = -1
        for past in range(sync - WINDOW_SYNCS + 1, sync + 1):
            if window[past % WINDOW_SYNCS, app] >= peak[_VALUE, app]:
                peak[_VALUE, app] = window[past % WINDOW_SYNCS, app]
                peak[_SYNC, app] = past


@kernel
def _limit(raw: int, current: int, highest: int) -> int:
    """Scale in to the highest of the window, scale out by doubling or four pods at most."""
    if raw < current:
        return min(current, highest)
    if raw > current:
        return min(raw, max(current + _STEP_PODS, current * _STEP_FACTOR))
    return current


@kernel
def _reason(raw: int, wanted: int, current: int) -> int:
    if wanted > current:
        return _OUT
    if wanted < current:
        return _IN
    return _STABILISING if raw < current else _IN_TOLERANCE


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
    return current if in_tolerance else np.int32(math.ceil(wanted))
