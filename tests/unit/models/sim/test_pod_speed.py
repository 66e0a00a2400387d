"""Cold pods, uneven balancing and throttled bursts slow an app down as theory says."""

import math

import msgspec
import numpy as np
import pytest
from numpy.typing import ArrayLike

from models.cluster import rows
from models.cluster.arrays import F64
from models.sim.config.physics import (
    PodStart,
    Retries,
    SimCluster,
    load_sim_cluster,
    with_physics,
)
from models.sim.pod_speed import find_hot_pods, slow_down_cold
from models.sim.population.generate import generate
from models.sim.state import BACKED_OFF, COLD, RETRY, SAMPLE_RING
from models.sim.world import World
from models.validate.realism import IMBALANCES, SECONDS, USES, hot_p99, stalls, throttled_s
from models.validate.worlds import one_call, plain_apps, still_cluster, still_scenario

TWICE = 40_000.0
"""Requests per second, twice what twenty servers can do."""


def world_of(cluster: SimCluster, rps: float = 14_000.0, **columns: ArrayLike) -> World:
    """Two apps with 20 servers, at 70 % unless stated otherwise."""
    population = plain_apps(
        2, None, start_replicas=20, cpu_seconds=SECONDS, timeout=0.5, own_rps=rps, mean_rps=rps,
        **columns,
    )  # fmt: skip
    return World(cluster, still_scenario(), [1], population)


def last_sample(world: World) -> F64:
    sample: F64 = world.state.samples[0, (world.tick - 1) % SAMPLE_RING].astype(np.float64)
    return sample


# Cold pods.


def starts(**changes: float) -> SimCluster:
    cluster = still_cluster(100, headroom=0.8)
    start: PodStart = msgspec.structs.replace(cluster.physics.pod_start, **changes)
    return with_physics(cluster, pod_start=start)


def test_new_pods_reach_full_speed_exponentially() -> None:
    world = world_of(starts(cold_speed=0.5, cold_s=30.0, sigma=0.0, image_cached_share=1.0))
    plan = world.hold()
    plan.replicas[:] = 40
    cold = []
    for _ in range(30):
        world.step(plan)
        cold.append(float(world.state.flow[0, COLD, 0]))
    peak = int(np.argmax(cold))
    assert world.state.status[0, rows.READY, 0] == 40
    # Twenty pods at half speed lack ten, if all become ready in one tick.
    assert 5 < cold[peak] <= 10
    assert cold[peak + 6] == pytest.approx(cold[peak] * math.exp(-60 / 30), rel=0.3)


def test_cold_pods_make_each_request_cost_more_cpu_until_they_are_warm() -> None:
    ready, payload = np.full(3, 10, np.int32), np.ones(3, np.float32)
    work, cold = np.zeros(3, np.float32), np.array([0.0, 5.0, 50.0], np.float32)
    slow_down_cold(ready, cold, np.float32(0.5), payload, work)
    # Never slower than if all pods were cold, also when cold ones have been stopped.
    assert work == pytest.approx([1.0, 2.0, 2.0])
    warm, mixed = (world_of(starts(cold_speed=speed)) for speed in (1.0, 0.5))
    for world in (warm, mixed):
        world.state.flow[0, COLD] = 5.0
        world.step(world.hold())
    assert (last_sample(mixed)[rows.CPU] > 1.1 * last_sample(warm)[rows.CPU]).all()


def test_slow_runtimes_boot_slower_by_their_factor() -> None:
    def boots(share: float) -> F64:
        base = load_sim_cluster()
        start = msgspec.structs.replace(
            base.physics.pod_start, slow_runtime_share=share, slow_runtime_factor=4.0
        )
        return generate(with_physics(base, pod_start=start)).apps.boot.astype(np.float64)

    ratio = boots(0.3) / boots(0.0)
    assert set(np.unique(ratio.round(3))) == {1.0, 4.0}
    assert (ratio > 1).mean() == pytest.approx(0.3, abs=0.05)


# Balancing.


@pytest.mark.parametrize("imbalance", IMBALANCES)
def test_latency_is_that_of_a_pod_with_more_than_its_share(imbalance: float) -> None:
    found, exact = hot_p99(imbalance)
    assert found == pytest.approx(exact, rel=0.05)


def test_a_single_pod_has_no_imbalance() -> None:
    load, hot = np.full(2, 0.5, np.float32), np.zeros(2, np.float32)
    find_hot_pods(load, np.array([1, 100], np.int32), np.float32(0.2), hot)
    assert hot == pytest.approx([0.5, 0.5 * (1 + 0.2 * 0.99)])


# Throttling.


def test_throttling_begins_below_saturation_and_grows_with_use_and_size_of_requests() -> None:
    use = np.linspace(0.05, 1.0, 20)
    short, long = stalls(use, 1e-3), stalls(use, 2e-2)
    assert (np.diff(short) >= 0).all()
    assert (long >= short).all()
    assert long[use < 0.75].max() > 0.02
    assert short[use < 0.5].max() < 1e-3
    assert (stalls(use, 1e-3, period=0.0) == 0).all()


@pytest.mark.parametrize("use", USES)
def test_the_delayed_share_is_that_of_simulated_periods(use: float) -> None:
    found, exact = throttled_s(use)
    assert found == pytest.approx(exact, abs=0.012)


# Retries and circuit breakers.


def retried(**changes: float) -> SimCluster:
    retries = Retries(**{"back_off_s": 0.0, "breaker_share": 0.0, **changes})
    return with_physics(still_cluster(100), retries=retries)


def test_retries_wait_for_their_back_off_and_none_is_lost() -> None:
    """Apps get twice what they can do; what fails comes back over several ticks."""
    world = world_of(retried(back_off_s=20.0), TWICE, retry_share=0.5)
    for _ in range(8):
        before = world.state.flow[0].astype(np.float64).copy()
        world.step(world.hold())
        flow, sample = world.state.flow[0].astype(np.float64), last_sample(world)
        failed = 10 * sample[rows.RPS] * sample[rows.ERRORS] * 0.5
        waiting = before[BACKED_OFF] + failed
        assert flow[RETRY] == pytest.approx(waiting * (1 - math.exp(-0.5)), rel=1e-3)
        assert world.tick < 3 or (flow[RETRY] > 0).all()
        assert flow[RETRY] + flow[BACKED_OFF] == pytest.approx(waiting, rel=1e-3)


def test_a_retry_budget_bounds_retries_by_first_attempts() -> None:
    world = world_of(retried(), TWICE, retry_share=0.9, retry_budget=[0.2, np.inf])
    for _ in range(12):
        world.step(world.hold())
    bounded, free = last_sample(world)[rows.RPS]
    assert bounded == pytest.approx(1.2 * TWICE, rel=0.02)
    assert free > 1.5 * TWICE


def test_open_breakers_hold_back_calls_which_fail_at_the_caller() -> None:
    """App 0 calls app 1, which is overloaded by three times its capacity."""

    def sample(share: float) -> F64:
        population = plain_apps(
            2, one_call(0, 1, 1.0, 0), start_replicas=[20, 5], cpu_seconds=SECONDS, timeout=0.5,
            own_rps=[14_000.0, 0.0], mean_rps=14_000.0,
        )  # fmt: skip
        world = World(retried(breaker_share=share), still_scenario(), [1], population)
        for _ in range(12):
            world.step(world.hold())
        return last_sample(world)

    without, with_breakers = sample(0.0), sample(0.5)
    assert without[rows.RPS, 1] == pytest.approx(14_000, rel=0.02)
    assert with_breakers[rows.RPS, 1] == pytest.approx(7_000, rel=0.02)
    # What is not sent fails as well: the caller is no better off, only its callee is.
    assert with_breakers[rows.ERRORS, 0] >= without[rows.ERRORS, 0] - 0.1
