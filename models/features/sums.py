"""Sums over the apps of each tier group; a domain's are the sums of its groups.

Float64, because a few apps carry most of the traffic and variances are differences.
"""

from typing import Final, NamedTuple

import numpy as np

from models.cluster import rows
from models.cluster.arrays import F32, F64, I32
from models.features.apps import U32, Declared
from models.features.memory import UNSEEN, FeatureState
from models.features.table import AGES, APP, RISKY_ERRORS, RISKY_HEADROOM, RISKY_SATURATION
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

(
    APPS,
    SAMPLED,
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
    IN_FLIGHT,
) = range(28)
"""Kinds of sums. IN_FLIGHT is the first of the age buckets."""
SUMS: Final = IN_FLIGHT + len(AGES)

_OLDEST_S: Final = 300.0
"""Cut of a sample age: one app that was never seen must not drown the mean of the others."""
_LONGEST: Final = np.float32(1e12)
"""Stands in for an infinite target: 0 x infinity is NaN."""
_TINY: Final = np.float32(1e-9)


class Members(NamedTuple):
    """The apps of one environment in the order in which sums visit them."""

    order: U32
    """[A] apps group by group, as declared."""
    group: I32
    """[A] tier group of each app now, -1 where it is not declared."""
    age: I32
    """[A] ticks since the last valid sample."""


@kernel
def is_at_risk(headroom: np.float32, errors: np.float32, saturation: np.float32) -> bool:
    """Whether an app is about to violate its SLO, or does."""
    bad = (headroom < RISKY_HEADROOM) | (errors > RISKY_ERRORS)
    return bool(bad | (saturation > RISKY_SATURATION))


@kernel
def sum_groups(
    state: FeatureState,
    e: int,
    status: I32,
    features: F32,
    declared: Declared,
    group: I32,
    total: F64,
) -> None:
    """Fill `total` [G, SUMS] of one environment.

    Apps are visited group by group as declared, so that a group's sums stay in registers; an app
    that moved to another group only interrupts the run.
    """
    sample, members = state.sample[e], Members(declared.order, group, state.age[e])
    total[:] = 0.0
    _sum_traffic(
        members, features, state.mean_rps[e], sample[rows.P99], declared.latency_target, total
    )
    _sum_use(members, features, sample, status[rows.CPU_REQUEST], total)
    _sum_health(members, features, total)
    _sum_pods(members, features[_RESTARTS], status, total)
    _sum_in_flight(group, state.in_flight[e], state.flight[e], total)


# The functions below repeat one loop over runs, each for a few sums that stay in registers.


@kernel
def _end_of_run(order: U32, group: I32, start: int) -> int:
    """One past the last app of the run of one group that begins at `start`."""
    end = start + 1
    while end < order.size and group[order[end]] == group[order[start]]:
        end += 1
    return end


@kernel
def _sum_traffic(
    members: Members, features: F32, mean: F32, p99: F32, target: F32, total: F64
) -> None:
    order, group, age = members.order, members.group, members.age
    rps, errors, headroom = features[_RPS], features[_ERRORS], features[_HEADROOM]
    end = 0
    while end < order.size:
        start, end = end, _end_of_run(order, group, end)
        traffic = usual = failing = slack = latency = targets = targeted = 0.0
        for index in range(start, end):
            app = order[index]
            weight = np.float64(rps[app]) if age[app] < UNSEEN else 0.0
            with_target = weight if target[app] < np.inf else 0.0
            traffic += weight
            usual += np.float64(mean[app]) if age[app] < UNSEEN else 0.0
            failing += weight * errors[app]
            slack += weight * headroom[app]
            latency += weight * p99[app]
            targets += with_target * min(target[app], _LONGEST)
            targeted += with_target
        if group[order[start]] >= 0:
            out = total[group[order[start]]]
            out[TRAFFIC] += traffic
            out[MEAN_TRAFFIC] += usual
            out[FAILING] += failing
            out[SLACK_TRAFFIC] += slack
            out[LATENCY] += latency
            out[TARGET] += targets
            out[TARGET_TRAFFIC] += targeted


@kernel
def _sum_use(members: Members, features: F32, sample: F32, request: I32, total: F64) -> None:
    """Requests are those of the measured pods, as in the apps' own features."""
    order, group, age = members.order, members.group, members.age
    utilisation, memory_use = features[_UTILISATION], features[_MEMORY_USE]
    cpu, memory, pods = sample[rows.CPU], sample[rows.MEMORY], sample[rows.PODS]
    end = 0
    while end < order.size:
        start, end = end, _end_of_run(order, group, end)
        use = squares = cpu_used = cpu_asked = memory_used = memory_asked = 0.0
        for index in range(start, end):
            app = order[index]
            sampled = 1.0 if age[app] < UNSEEN else 0.0
            # What was requested follows from use and ratio, so an app without either says nothing.
            held = sampled if memory_use[app] > 0.0 else 0.0
            use += sampled * utilisation[app]
            squares += sampled * utilisation[app] * utilisation[app]
            cpu_used += sampled * cpu[app]
            cpu_asked += sampled * pods[app] * max(0, request[app])
            memory_used += held * memory[app]
            memory_asked += held * memory[app] / max(memory_use[app], _TINY)
        if group[order[start]] >= 0:
            out = total[group[order[start]]]
            out[USE] += use
            out[USE_SQUARED] += squares
            out[CPU_USED] += cpu_used
            # Scaled once, after the sum: sums of millicores are exact.
            out[CPU_ASKED] += cpu_asked * 0.001
            out[MEMORY_USED] += memory_used
            out[MEMORY_ASKED] += memory_asked


@kernel
def _sum_health(members: Members, features: F32, total: F64) -> None:
    order, group, age = members.order, members.group, members.age
    headroom, errors, saturation = features[_HEADROOM], features[_ERRORS], features[_SATURATION]
    missing, seconds, wanted = features[_MISSING], features[_AGE], features[_WANTED]
    end = 0
    while end < order.size:
        start, end = end, _end_of_run(order, group, end)
        sampled = slack = squares = risky = absent = old = pods = 0.0
        for index in range(start, end):
            app = order[index]
            one = 1.0 if age[app] < UNSEEN else 0.0
            risk = is_at_risk(headroom[app], errors[app], saturation[app])
            sampled += one
            slack += one * headroom[app]
            squares += one * headroom[app] * headroom[app]
            risky += one if risk else 0.0
            # Apps that never had a sample count here: they are missing, and the oldest of all.
            absent += missing[app]
            old += min(np.float64(seconds[app]), _OLDEST_S)
            pods += wanted[app]
        if group[order[start]] >= 0:
            out = total[group[order[start]]]
            out[APPS] += end - start
            out[SAMPLED] += sampled
            out[SLACK] += slack
            out[SLACK_SQUARED] += squares
            out[AT_RISK] += risky
            out[MISSING] += absent
            out[AGE_S] += old
            out[WANTED] += pods


@kernel
def _sum_pods(members: Members, restarts: F32, status: I32, total: F64) -> None:
    """What a domain holds: the requests of its bound and pending pods, surge included."""
    order, group = members.order, members.group
    ready, starting, pending = status[rows.READY], status[rows.STARTING], status[rows.PENDING]
    cpu, memory = status[rows.CPU_REQUEST], status[rows.MEMORY_REQUEST]
    end = 0
    while end < order.size:
        start, end = end, _end_of_run(order, group, end)
        up = waiting = restarted = held_cpu = held_memory = waiting_cpu = 0.0
        for index in range(start, end):
            app = order[index]
            there, queued = np.float64(max(0, ready[app])), np.float64(max(0, pending[app]))
            holding = there + queued + np.float64(max(0, starting[app]))
            cores = np.float64(max(0, cpu[app]))
            up += there
            waiting += queued
            # Back to a count: the feature is per ready pod, of at least one.
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
def _sum_in_flight(group: I32, in_flight: I32, flight: I32, total: F64) -> None:
    # Not by runs: most apps have nothing in flight.
    for app in range(group.size):
        if in_flight[app] > 0 and group[app] >= 0:
            for bucket in range(flight.shape[0]):
                total[group[app], IN_FLIGHT + bucket] += flight[bucket, app]
