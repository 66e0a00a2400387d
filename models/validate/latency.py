"""Latency compared with Erlang C, and its direction with load and with CPU."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from models.cluster import rows
from models.cluster.arrays import F64
from models.sim.queueing import response_quantile
from models.sim.state import SAMPLE_RING
from models.sim.world import World
from models.validate.section import Check, Draw, Effort, Listing, Plot, Section
from models.validate.worlds import plain_apps, still_cluster, still_scenario

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SERVERS = (1, 8, 64)
UTILISATIONS = (0.5, 0.8, 0.95)
_SECONDS = 1e-4
"""Mean service time. Short, so that a tick has enough arrivals to average out their noise."""
_TICKS = 60
_MOST_ERROR = 0.05
_NOISE = 1e-3
"""Arrivals are random, so equal queues differ by up to this much."""


def examine(_effort: Effort) -> Section:
    """Compare simulated queues with the exact formulas."""
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
    lines = [(q.servers, q.utilisation, q.p50, q.exact_p50, q.p99, q.exact_p99, f"{q.error:.1%}")
            for q in queues]  # fmt: skip
    columns = ("servers", "utilisation", "p50", "exact p50", "p99", "exact p99", "error")
    return Section(
        "Latency",
        "Each queue is an app of its own with a constant load; times are in mean service times. "
        "Beyond a load of 1 a backlog grows and the timeout limits the wait.",
        checks,
        [
            Plot("p99 in mean service times by load (8 servers)", _curve(loads, by_load, "load")),
            Plot("p99 in ms by CPU of a pod", _curve(cores, 1000 * by_cpu, "cores")),
        ],
        Listing(columns, list(lines)),
    )


def _curve(x: F64, y: F64, label: str) -> Draw:
    def draw(axis: "Axes") -> None:
        axis.semilogy(x, y, marker=".")
        axis.set_xlabel(label)

    return draw


class Latency(NamedTuple):
    """One queue: quantiles in mean service times, simulated and exact."""

    servers: int
    utilisation: float
    p50: float
    p99: float
    exact_p50: float
    exact_p99: float

    @property
    def error(self) -> float:
        """The larger relative error of the two quantiles."""
        return max(abs(self.p50 / self.exact_p50 - 1), abs(self.p99 / self.exact_p99 - 1))


def erlang_table() -> list[Latency]:
    """Every queue of SERVERS x UTILISATIONS, each as an app of one world."""
    servers = np.repeat(SERVERS, len(UTILISATIONS))
    rho = np.tile(UTILISATIONS, len(SERVERS))
    p50, p99 = _quantiles(servers, rho)
    exact = [response_quantile(servers, rho, q) for q in (0.5, 0.99)]
    columns = (servers, rho, p50, p99, *exact)
    lines = zip(*(column.tolist() for column in columns), strict=True)
    return [Latency(*row) for row in lines]


def latency_by_load(loads: F64, servers: int = 8) -> F64:
    """[loads] 99th percentile in mean service times, from idle to overload."""
    return _quantiles(np.full(loads.size, servers), loads)[1]


def latency_by_cpu(millicores: F64) -> F64:
    """[sizes] 99th percentile in seconds of equal apps whose pods are resized."""
    apps = millicores.size
    # 70 % of eight cores.
    rate = 0.7 * 8 / _SECONDS
    population = plain_apps(
        apps, start_replicas=8, cpu_seconds=_SECONDS, own_rps=rate, mean_rps=rate, timeout=1.0
    )
    # Room for pods that grow to three cores without a restart.
    world = World(still_cluster(32 * apps, headroom=0.9), still_scenario(), [0], population)
    plan = world.hold()
    plan.cpu[0] = millicores
    for _ in range(_TICKS):
        world.step(plan)
    return _median(world, rows.P99)


def _quantiles(servers: F64, rho: F64) -> tuple[F64, F64]:
    rate = servers * rho / _SECONDS
    population = plain_apps(
        servers.size, start_replicas=servers, cpu_seconds=_SECONDS, own_rps=rate, mean_rps=rate
    )
    cluster = still_cluster(pods=4 * int(servers.sum()))
    world = World(cluster, still_scenario(), [0], population)
    samples = []
    for tick in range(_TICKS):
        world.step(world.hold())
        samples.append(world.state.samples[0, tick % SAMPLE_RING][[rows.P50, rows.P99]].copy())
    # The median over ticks, because arrivals of single ticks are noisy.
    p50, p99 = np.median(samples, axis=0) / _SECONDS
    return p50, p99


def _median(world: World, kind: int) -> F64:
    return np.asarray(np.median(world.state.samples[0, :, kind], axis=0), np.float64)
