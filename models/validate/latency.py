"""Latency beside Erlang C, and its direction with load and with CPU."""

from typing import TYPE_CHECKING

import numpy as np

from models.cluster.arrays import F64
from models.validate.queueing import erlang_table, latency_by_cpu, latency_by_load
from models.validate.section import Check, Draw, Effort, Listing, Plot, Section

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_ERROR = 0.05
_NOISE = 1e-3
"""A tick's arrivals are random: neighbours that are alike differ by this much."""


def examine(_effort: Effort) -> Section:
    """Queues of known size and load, run in the world."""
    queues = erlang_table()
    worst = max(queue.error for queue in queues)
    loads, cores = np.linspace(0.1, 1.5, 29), np.linspace(0.3, 3.0, 28)
    by_load, by_cpu = latency_by_load(loads), latency_by_cpu(1000 * cores)
    rises = int((np.diff(by_load) < -_NOISE * by_load[1:]).sum())
    falls = int((np.diff(by_cpu) > _NOISE * by_cpu[1:]).sum())
    checks = [
        Check("latency against Erlang C, worst of p50 and p99", f"{worst:.1%}", "< 5 %",
              worst < _MOST_ERROR),
        Check("more load is never faster", f"{rises} of {loads.size - 1} steps down", "0",
              rises == 0),
        Check("more CPU is never slower", f"{falls} of {cores.size - 1} steps up", "0",
              falls == 0),
    ]  # fmt: skip
    rows = [(q.servers, q.utilisation, q.p50, q.exact_p50, q.p99, q.exact_p99, f"{q.error:.1%}")
            for q in queues]  # fmt: skip
    columns = ("servers", "utilisation", "p50", "exact p50", "p99", "exact p99", "error")
    return Section(
        "Latency",
        "Each queue is an app of its own with a constant load; times are in mean service times. "
        "Beyond a load of 1 a backlog grows and the time-out cuts the wait.",
        checks,
        [
            Plot("p99 in mean service times by load (8 servers)", _curve(loads, by_load, "load")),
            Plot("p99 in ms by CPU of a pod", _curve(cores, 1000 * by_cpu, "cores")),
        ],
        Listing(columns, list(rows)),
    )


def _curve(x: F64, y: F64, label: str) -> Draw:
    def draw(axis: "Axes") -> None:
        axis.semilogy(x, y, marker=".")
        axis.set_xlabel(label)

    return draw
