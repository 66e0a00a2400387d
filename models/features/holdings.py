"""Sums of pods and of what they request, per tier group."""

import numpy as np

from models.cluster.arrays import F32, F64, I32
from models.features import kinds as k
from models.features.apps import U32
from models.features.kinds import end_of_run
from models.jit import kernel


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
            out[k.UP] += up
            out[k.WAITING] += waiting
            out[k.RESTARTED] += restarted
            out[k.HELD_CPU] += held_cpu * 0.001
            out[k.WAITING_CPU] += waiting_cpu * 0.001
            out[k.HELD_MEMORY] += held_memory / 1024.0


@kernel
def sum_flight(group: I32, in_flight: I32, flight: I32, total: F64) -> None:
    """Most apps have nothing in flight."""
    for app in range(group.size):
        if in_flight[app] > 0 and group[app] >= 0:
            for bucket in range(flight.shape[0]):
                total[group[app], k.FLIGHT + bucket] += flight[bucket, app]
