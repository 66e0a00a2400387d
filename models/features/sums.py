"""Sums over the apps of each tier group; a domain's are the sums of its groups.

Float64, because a few apps carry most of the traffic and variances are differences.
"""

from typing import Final

import numpy as np

from models.cluster.arrays import F32, F64, I32
from models.cluster.observation import (
    CPU,
    CPU_REQUEST,
    MEMORY,
    MEMORY_REQUEST,
    P99,
    PENDING,
    PODS,
    READY,
    STARTING,
)
from models.features.apps import U32, Declared
from models.features.memory import UNSEEN, FeatureState
from models.features.table import AGES, APP
from models.jit import kernel

_RPS: Final = APP.at("rps")
_ERRORS: Final = APP.at("errors")
_UTILISATION: Final = APP.at("utilisation")
_SATURATION: Final = APP.at("saturation")
_MEMORY_USE: Final = APP.at("memory_use")
_HEADROOM: Final = APP.at("headroom")
_WANTED: Final = APP.at("wanted")
_RESTARTS: Final = APP.at("restarts")
_MISSING: Final = APP.at("missing")
_AGE: Final = APP.at("sample_age")

_RISKY_HEADROOM: Final = 0.2
_RISKY_ERRORS: Final = 0.01
_RISKY_SATURATION: Final = 0.9
_OLDEST_S: Final = 300.0
_LONGEST: Final = np.float32(1e12)
_TINY: Final = np.float32(1e-9)


@kernel
def is_at_risk(headroom: np.float32, errors: np.float32, saturation: np.float32) -> bool:
    """Whether an app is about to break its promises, or breaks them."""
    bad = (headroom < _RISKY_HEADROOM) | (errors > _RISKY_ERRORS)
    return bool(bad | (saturation > _RISKY_SATURATION))


@kernel
def sum_groups(
    st: FeatureState, e: int, count: I32, rows: F32, declared: Declared, group: I32, total: F64
) -> None:
    """Fill `total` [G, SUMS] of one environment.

    Apps are visited group by group as declared, so that a group's sums stay in registers; one
    that moved only interrupts the run.
    """
    sample, age, order = st.sample[e], st.age[e], declared.order
    total[:] = 0.0
    _sum_traffic(
        order, group, age, rows[_RPS], st.mean_rps[e], rows[_ERRORS], rows[_HEADROOM],
        sample[P99], declared.latency_target, total,
    )  # fmt: skip
    _sum_use(
        order, group, age, rows[_UTILISATION], rows[_MEMORY_USE], sample[CPU], sample[MEMORY],
        sample[PODS], count[CPU_REQUEST], total,
    )  # fmt: skip
    _sum_state(
        order, group, age, rows[_HEADROOM], rows[_ERRORS], rows[_SATURATION], rows[_MISSING],
        rows[_AGE], rows[_WANTED], total,
    )  # fmt: skip
    sum_pods(
        order, group, rows[_RESTARTS], count[READY], count[STARTING], count[PENDING],
        count[CPU_REQUEST], count[MEMORY_REQUEST], total,
    )  # fmt: skip
    sum_flight(group, st.in_flight[e], st.flight[e], total)


@kernel
def _sum_traffic(
    order: U32,
    group: I32,
    age: I32,
    rps: F32,
    mean: F32,
    errors: F32,
    headroom: F32,
    p99: F32,
    target: F32,
    total: F64,
) -> None:
    end = 0
    while end < order.size:
        start, end = end, end_of_run(order, group, end)
        traffic = before = failing = slack = latency = promised = bound = 0.0
        for place in range(start, end):
            app = order[place]
            weight = np.float64(rps[app]) if age[app] < UNSEEN else 0.0
            limited = weight if target[app] < np.inf else 0.0
            traffic += weight
            before += np.float64(mean[app]) if age[app] < UNSEEN else 0.0
            failing += weight * errors[app]
            slack += weight * headroom[app]
            latency += weight * p99[app]
            promised += limited * min(target[app], _LONGEST)
            bound += limited
        if group[order[start]] >= 0:
            out = total[group[order[start]]]
            out[TRAFFIC] += traffic
            out[MEAN_TRAFFIC] += before
            out[FAILING] += failing
            out[SLACK_TRAFFIC] += slack
            out[LATENCY] += latency
            out[TARGET] += promised
            out[TARGET_TRAFFIC] += bound


@kernel
def _sum_use(
    order: U32,
    group: I32,
    age: I32,
    utilisation: F32,
    memory_use: F32,
    cpu: F32,
    memory: F32,
    pods: F32,
    request: I32,
    total: F64,
) -> None:
    """What is asked for is taken over the measured pods, as in the apps' own features."""
    end = 0
    while end < order.size:
        start, end = end, end_of_run(order, group, end)
        use = squares = cpu_used = cpu_asked = memory_used = memory_asked = 0.0
        for place in range(start, end):
            app = order[place]
            seen = 1.0 if age[app] < UNSEEN else 0.0
            held = seen if memory_use[app] > 0.0 else 0.0
            use += seen * utilisation[app]
            squares += seen * utilisation[app] * utilisation[app]
            cpu_used += seen * cpu[app]
            cpu_asked += seen * pods[app] * max(0, request[app])
            memory_used += held * memory[app]
            memory_asked += held * memory[app] / max(memory_use[app], _TINY)
        if group[order[start]] >= 0:
            out = total[group[order[start]]]
            out[USE] += use
            out[USE_SQUARED] += squares
            out[CPU_USED] += cpu_used
            out[CPU_ASKED] += cpu_asked * 0.001
            out[MEMORY_USED] += memory_used
            out[MEMORY_ASKED] += memory_asked


@kernel
def _sum_state(
    order: U32,
    group: I32,
    age: I32,
    headroom: F32,
    errors: F32,
    saturation: F32,
    missing: F32,
    seconds: F32,
    wanted: F32,
    total: F64,
) -> None:
    end = 0
    while end < order.size:
        start, end = end, end_of_run(order, group, end)
        seen = slack = squares = risky = absent = old = pods = 0.0
        for place in range(start, end):
            app = order[place]
            one = 1.0 if age[app] < UNSEEN else 0.0
            risk = is_at_risk(headroom[app], errors[app], saturation[app])
            seen += one
            slack += one * headroom[app]
            squares += one * headroom[app] * headroom[app]
            risky += one if risk else 0.0
            absent += missing[app]
            old += min(np.float64(seconds[app]), _OLDEST_S)
            pods += wanted[app]
        if group[order[start]] >= 0:
            out = total[group[order[start]]]
            out[APPS] += end - start
            out[SEEN] += seen
            out[SLACK] += slack
            out[SLACK_SQUARED] += squares
            out[AT_RISK] += risky
            out[MISSING] += absent
            out[AGE_S] += old
            out[WANTED] += pods


(
    APPS,
    SEEN,
    TRAFFIC,
    MEAN_TRAFFIC,
    FAILING,
    CPU_USED,
    CPU_ASKED,
    MEMORY_USED,
    MEMORY_ASKED,
    USE,
    USE_SQUARED,
    SLACK,
    SLACK_SQUARED,
    SLACK_TRAFFIC,
    LATENCY,
    TARGET,
    TARGET_TRAFFIC,
    AT_RISK,
    RESTARTED,
    UP,
    WANTED,
    WAITING,
    HELD_CPU,
    HELD_MEMORY,
    WAITING_CPU,
    MISSING,
    AGE_S,
    FLIGHT,
) = range(28)
"""FLIGHT is the first of the age buckets."""
SUMS: Final = FLIGHT + len(AGES)


@kernel
def end_of_run(order: U32, group: I32, start: int) -> int:
    """One past the last app of the group that `start` begins."""
    end = start + 1
    while end < order.size and group[order[end]] == group[order[start]]:
        end += 1
    return end


@kernel
def sum_pods(
    order: U32,
    group: I32,
    restarts: F32,
    ready: I32,
    starting: I32,
    pending: I32,
    cpu: I32,
    memory: I32,
    total: F64,
) -> None:
    """What a domain holds: the requests of its bound and pending pods, surge included."""
    end = 0
    while end < order.size:
        start, end = end, end_of_run(order, group, end)
        up = waiting = restarted = held_cpu = held_memory = waiting_cpu = 0.0
        for place in range(start, end):
            app = order[place]
            there, queued = np.float64(max(0, ready[app])), np.float64(max(0, pending[app]))
            holding = there + queued + np.float64(max(0, starting[app]))
            cores = np.float64(max(0, cpu[app]))
            up += there
            waiting += queued
            restarted += restarts[app] * max(1.0, there)
            held_cpu += holding * cores
            waiting_cpu += queued * cores
            held_memory += holding * max(0, memory[app])
        if group[order[start]] >= 0:
            out = total[group[order[start]]]
            out[UP] += up
            out[WAITING] += waiting
            out[RESTARTED] += restarted
            out[HELD_CPU] += held_cpu * 0.001
            out[WAITING_CPU] += waiting_cpu * 0.001
            out[HELD_MEMORY] += held_memory / 1024.0


@kernel
def sum_flight(group: I32, in_flight: I32, flight: I32, total: F64) -> None:
    """Most apps have nothing in flight."""
    for app in range(group.size):
        if in_flight[app] > 0 and group[app] >= 0:
            for bucket in range(flight.shape[0]):
                total[group[app], FLIGHT + bucket] += flight[bucket, app]
