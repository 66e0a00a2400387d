"""Queues match queueing theory, and failures propagate along the call graph."""

import numpy as np
import pytest
from numpy.typing import ArrayLike

from models.cluster import rows
from models.sim.accounting import UNSCORED
from models.sim.apps import GUARD_FAIL_OPEN, GUARD_NONE, GUARD_QUEUE, Calls, Population
from models.sim.config.events import Payload, Target
from models.sim.config.physics import load_sim_cluster
from models.sim.population.generate import generate
from models.sim.state import RETRY, SAMPLE_RING
from models.sim.world import World
from models.validate.latency import Latency, erlang_table, latency_by_cpu, latency_by_load
from models.validate.worlds import one_call, plain_apps, still_cluster, still_scenario


def busy_apps(calls: Calls | None = None, **columns: ArrayLike) -> Population:
    """Two apps with 20 servers at 70 %."""
    busy: dict[str, ArrayLike] = {"own_rps": 14_000.0, "mean_rps": 14_000.0, **columns}
    return plain_apps(2, calls, start_replicas=20, cpu_seconds=1e-3, timeout=0.5, **busy)


def slow_down(*apps: int) -> Payload:
    return Payload(name="slow", target=Target(apps=apps), factor=3, at_minute=1, hold_minutes=3)


@pytest.mark.parametrize("queue", erlang_table(), ids=lambda q: f"c={q.servers} {q.utilisation}")
def test_latency_is_within_five_percent_of_erlang_c(queue: Latency) -> None:
    assert queue.error < 0.05


def test_more_load_is_never_faster() -> None:
    latency = latency_by_load(np.linspace(0.1, 1.5, 29))
    assert (np.diff(latency) >= -1e-3 * latency[1:]).all()
    assert latency[-1] > 10 * latency[0]


def test_more_cpu_is_never_slower() -> None:
    latency = latency_by_cpu(np.linspace(300, 3000, 28))
    assert (np.diff(latency) <= 1e-3 * latency[1:]).all()
    assert latency[0] > 10 * latency[-1]


def test_failed_requests_are_retried_only_where_allowed() -> None:
    """App 0 is retried, app 1 is not; both get too slow for three minutes."""
    population = busy_apps(retry_share=[0.9, 0.0])
    world = World(still_cluster(100), still_scenario([slow_down(0, 1)]), [1], population)
    arrived = []
    for tick in range(24):
        world.step(world.hold())
        arrived.append(world.state.samples[0, tick % SAMPLE_RING, rows.RPS].copy())
        assert world.state.flow[0, RETRY, 1] == 0
    # The requests get slower at tick 6, for three minutes.
    before, during = arrived[4], arrived[20]
    assert during[0] > 1.5 * before[0], "retries make it worse"
    assert during[1] == pytest.approx(before[1], rel=0.02)


def test_a_retry_storm_outlives_its_cause() -> None:
    population = busy_apps(retry_share=[0.9, 0.0])
    world = World(still_cluster(100), still_scenario([slow_down(0, 1)]), [1], population)
    failing = []
    for tick in range(36):
        world.step(world.hold())
        failing.append(world.state.samples[0, tick % SAMPLE_RING, rows.ERRORS].copy())
    # At tick 28 the requests are as fast as before.
    assert failing[28][0] > 0.5
    assert failing[28][1] < 0.01


def test_payments_are_never_retried_in_the_example_cluster() -> None:
    cluster = load_sim_cluster()
    apps = generate(cluster).apps
    assert (apps.retry_share[apps.domain == cluster.domain_names.index("payments")] == 0).all()


@pytest.mark.parametrize("guard", [GUARD_NONE, GUARD_FAIL_OPEN, GUARD_QUEUE])
def test_a_guard_decides_what_a_failing_callee_does_to_its_caller(guard: int) -> None:
    """App 0 calls app 1 once per request; app 1 gets three times as slow."""
    population = busy_apps(one_call(0, 1, 1.0, guard), own_rps=[14_000.0, 0.0])
    world = World(still_cluster(100), still_scenario([slow_down(1)]), [1], population)
    for _ in range(12):
        world.step(world.hold())
    caller, callee = world.state.samples[0, 11 % SAMPLE_RING, :, :2].T
    unscored = world.accounts.domains[0, :, UNSCORED].sum()
    assert callee[rows.ERRORS] > 0.5
    assert (caller[rows.ERRORS] > 0.5) == (guard == GUARD_NONE)
    assert (unscored > 0) == (guard == GUARD_FAIL_OPEN)
    if guard == GUARD_QUEUE:
        assert caller[rows.P50] > 0.5, "the caller waits for the callee's time-out"


def test_waiting_for_a_failed_call_reaches_the_callers_of_the_caller() -> None:
    """App 0 calls app 1 for every second request, app 1 waits for app 2, which fails."""
    calls = Calls(
        caller=np.array([0, 1], np.int32),
        callee=np.array([1, 2], np.int32),
        per_request=np.array([0.5, 1.0], np.float32),
        guard=np.array([GUARD_NONE, GUARD_QUEUE], np.int8),
        cross_domain=np.zeros(2, np.int8),
    )
    own = [14_000.0, 7_000.0, 0.0]
    population = plain_apps(
        3, calls, start_replicas=20, cpu_seconds=1e-3, timeout=0.5, own_rps=own, mean_rps=14_000.0
    )
    world = World(still_cluster(100), still_scenario([slow_down(2)]), [1], population)
    for _ in range(12):
        world.step(world.hold())
    outer, middle, inner = world.state.samples[0, 11 % SAMPLE_RING, :, :3].T
    assert inner[rows.ERRORS] > 0.5
    assert outer[rows.ERRORS] < 0.01
    held = middle[rows.P50] - inner[rows.P50]
    assert held > 0.25, "the middle waits for time-outs"
    assert outer[rows.P50] == pytest.approx(0.5 * middle[rows.P50], rel=0.05)
