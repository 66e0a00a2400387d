"""Mechanisms of real pods and metrics, compared with the theory behind each of them."""

import numpy as np

from models.cluster import rows
from models.cluster.arrays import F64
from models.cluster.observation import Pipeline
from models.sim.apps import service_traits
from models.sim.config.events import MetricsOutage, Target
from models.sim.config.physics import Serving, load_sim_cluster, with_apps, with_physics
from models.sim.declarations import declare, true_saturation
from models.sim.pod_speed import throttle
from models.sim.population.generate import generate
from models.sim.queueing import response_quantile
from models.sim.state import SAMPLE_RING
from models.sim.world import World
from models.validate.section import Cell, Check, Effort, Listing, Section
from models.validate.worlds import plain_apps, still_cluster, still_scenario

SECONDS = 1e-3
IMBALANCES = (0.0, 0.1, 0.25)
USES = (0.2, 0.3, 0.5, 0.6, 0.7, 0.8)
_SERVERS, _LOAD = 20, 0.7
_QUOTA_PERIOD_S = 0.1


def examine(_effort: Effort) -> Section:
    """Check each mechanism by itself, with all others off."""
    lines: list[tuple[Cell, ...]] = []
    worst = 0.0
    for imbalance in IMBALANCES:
        found, exact = hot_p99(imbalance)
        worst = max(worst, abs(found / exact - 1))
        lines.append(("p99 in ms by imbalance", imbalance, 1e3 * found, 1e3 * exact))
    most = 0.0
    for use in USES:
        found, exact = throttled_s(use)
        most = max(most, abs(found - exact))
        lines.append(("throttling of p99 in ms by CPU use", use, 1e3 * found, 1e3 * exact))
    sigma, wrong = declared_error()
    zeros = zeros_for_hpa()
    checks = [
        Check("p99 of pods that get more than their share, against Erlang C", f"{worst:.1%}",
              "< 5 %", worst < 0.05),
        Check("throttled time against simulated periods", f"{1e3 * most:.0f} ms", "< 12 ms",
              most < 0.012),
        Check("log deviation of the declared saturation", f"{wrong:.3f}", f"{sigma:g} +- 10 %",
              abs(wrong / sigma - 1) < 0.1),
        Check("zeros that HPA gets as samples, first ticks and an outage included", f"{zeros}", "0",
              zeros == 0),
    ]  # fmt: skip
    return Section(
        "Pods and metrics",
        "Uneven balancing, throttling by CPU limits, declarations and metric pipelines, each "
        "alone in a small world.",
        checks,
        [],
        Listing(("what", "at", "simulated", "expected"), lines),
    )


def hot_p99(imbalance: float) -> tuple[float, float]:
    """Simulated and exact p99 of an app at 70 % whose pods are loaded unevenly, seconds."""
    serving = Serving(imbalance=imbalance, quota_period_s=0.0)
    cluster = with_physics(still_cluster(100), serving=serving)
    rps = _LOAD * _SERVERS / SECONDS
    population = plain_apps(
        1, start_replicas=_SERVERS, cpu_seconds=SECONDS, own_rps=rps, mean_rps=rps
    )
    world = World(cluster, still_scenario(), [1], population)
    p99 = []
    for tick in range(12):
        world.step(world.hold())
        p99.append(float(world.state.samples[0, tick % SAMPLE_RING, rows.P99, 0]))
    # The more pods share a load, the less a single one can be spared.
    hot = _LOAD * (1 + imbalance * (1 - 1 / _SERVERS))
    return float(np.mean(p99)), SECONDS * float(response_quantile(_SERVERS, hot, 0.99))


def throttled_s(use: float, cpu_seconds: float = 5e-3) -> tuple[float, float]:
    """Seconds that the limit of a pod of one core adds to p99: the kernel's, and a simulation's.

    Poisson arrivals of exponential requests, in periods of 100 ms.
    """
    rng = np.random.default_rng(1)
    counts = rng.poisson(use * _QUOTA_PERIOD_S / cpu_seconds, 200_000)
    work = rng.gamma(np.maximum(counts, 1e-9), cpu_seconds)
    delayed = np.maximum(work - _QUOTA_PERIOD_S, 0).sum() / work.sum()
    exact = 0.5 * _QUOTA_PERIOD_S * min(1.0, float(delayed) / 0.01)
    return float(stalls(np.array([use]), cpu_seconds)[0]), exact


def stalls(use: F64, cpu_seconds: float, period: float = _QUOTA_PERIOD_S) -> F64:
    """[N] seconds that limits add to p99 of apps with one pod of one core, by their CPU use."""
    size, tick_s = use.size, 10.0
    stall = np.zeros(size, np.float32)
    throttle(
        (use / cpu_seconds * tick_s).astype(np.float32), np.ones(size, np.float32),
        np.ones(size, np.int32), np.full(size, 1000, np.int32),
        service_traits(plain_apps(size, cpu_seconds=cpu_seconds).apps),
        np.float32(1 / tick_s), np.float32(period), stall,
    )  # fmt: skip
    return stall.astype(np.float64)


def declared_error() -> tuple[float, float]:
    """Configured and found log deviation of the declared saturation in the example cluster."""
    cluster = load_sim_cluster()
    population = generate(cluster)
    found = declare(population, cluster, [0]).saturation / true_saturation(population.apps)
    return cluster.physics.declarations.saturation_sigma, float(np.log(found).std())


def zeros_for_hpa() -> int:
    """Samples of no CPU that HPA gets from busy apps while every pipeline fails in turn."""
    cluster = with_apps(load_sim_cluster(), 60)
    everyone = Target(domains=cluster.domain_names)
    events = (
        MetricsOutage(name="a", target=everyone, pipeline="metrics-server", at_minute=1,
                      length_minutes=1),
        MetricsOutage(name="b", target=everyone, pipeline="kubelet", at_minute=3, length_minutes=1),
        MetricsOutage(name="c", target=everyone, pipeline="exporter", mode="zero", at_minute=5,
                      length_minutes=1),
    )  # fmt: skip
    world = World(cluster, still_scenario(events), [1])
    zeros = 0
    for _ in range(48):
        seen = world.observe(Pipeline.HPA)
        last = world.state.samples[0, (world.tick - 1) % SAMPLE_RING, rows.RPS]
        idle = (seen.measured[0, rows.CPU] == 0) & (seen.missing[0] == 0)
        zeros += int((idle & (last > 1)).sum())
        world.step(world.hold())
    return zeros
