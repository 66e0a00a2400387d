"""Pods burst up to their limits, but only on idle cores."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.cluster import rows
from models.cluster.arrays import F64
from models.compare.hpa_worlds import HpaWorld
from models.sim.apps import Population
from models.sim.config.events import Payload, Target, Traffic
from models.sim.config.physics import SimCluster, load_sim_cluster, with_apps
from models.sim.population.generate import generate
from models.sim.state import BOUND, PAYLOAD, SAMPLE_RING
from models.sim.world import World
from models.validate.worlds import plain_apps, still_cluster, still_scenario

ROUNDING = 1e-5


def apps_at(load: list[float], limit_ratio: list[float], pods: int = 20) -> Population:
    """Apps of `pods` pods of one core whose traffic is `load` times what requests carry."""
    rps = [1000.0 * pods * share for share in load]
    return plain_apps(
        len(load),
        start_replicas=pods,
        max_replicas=pods,
        cpu_seconds=1e-3,
        own_rps=rps,
        mean_rps=rps,
        cpu_limit_ratio=limit_ratio,
    )


def cores_used(population: Population, headroom: float, ticks: int = 12) -> F64:
    """[A] cores that each app uses in the end."""
    world = World(still_cluster(100, headroom=headroom), still_scenario(), [1], population)
    for _ in range(ticks):
        world.step(world.hold())
    return np.asarray(world.state.samples[0, (world.tick - 1) % SAMPLE_RING, rows.CPU], np.float64)


def cores_by_app(world: World) -> tuple[F64, F64]:
    """[E, A] cores that each app used up to its requests, and beyond them."""
    state, traits = world.state, world.given.traits
    cpu = np.asarray(state.samples[:, (world.tick - 1) % SAMPLE_RING, rows.CPU], np.float64)
    work = traits.cpu_seconds * state.flow[:, PAYLOAD]
    longest = np.maximum(work + traits.io_seconds, traits.workers * work)
    of_request = traits.workers * work / longest
    requested = (
        state.status[:, rows.READY] * state.status[:, rows.CPU_REQUEST] / 1000.0 * of_request
    )
    return np.minimum(cpu, requested), np.maximum(cpu - requested, 0.0)


def most_in_pools(world: World) -> float:
    """Use over capacity of the fullest set of pools, however bursts are spread over pools.

    Requests are used evenly by all pods of an app, bursts by any of them. They fit into the
    pools exactly when, for every set of pools, what can run nowhere else fits into that set.
    """
    state, rules = world.state, world.given.rules
    there = state.pool["ready"] * rules.pools["cpu"] / 1000.0
    guaranteed, beyond = cores_by_app(world)
    share = state.placed / np.maximum(1, state.hidden[:, BOUND])[:, None]
    pools = range(rules.pools.size)
    fullest = 0.0
    for count in range(1, rules.pools.size + 1):
        for chosen in map(list, combinations(pools, count)):
            # Bursts may be anywhere, so only those of apps without pods elsewhere must fit here.
            only_there = share[:, chosen].sum(axis=1) > 1 - 1e-9
            used = (guaranteed * share[:, chosen].sum(axis=1) + beyond * only_there).sum(axis=1)
            fullest = max(fullest, float((used / there[:, chosen].sum(axis=1)).max()))
    return fullest


def test_an_app_may_use_idle_cores_up_to_its_limit() -> None:
    used = cores_used(apps_at([1.4, 1.4, 3.0], [1.0, 1.5, 1.5]), headroom=0.6)
    np.testing.assert_allclose(used, [20.0, 28.0, 30.0], rtol=0.02)


def test_bursts_share_idle_cores_and_leave_requested_ones_alone() -> None:
    """One node of 62.5 cores, 60 requested: the first app leaves 10 idle, the others want 20."""
    population = apps_at([0.5, 1.5, 1.5], [1.0, 1.5, 1.5])
    used = cores_used(population, headroom=0.0)
    assert used[0] == pytest.approx(10.0, rel=0.05)
    assert used[1] == pytest.approx(used[2], rel=0.02)
    assert used.sum() == pytest.approx(62.5, rel=0.02)


def test_no_app_bursts_when_all_use_their_requests() -> None:
    used = cores_used(apps_at([1.5, 1.5, 1.5], [1.0, 1.0, 2.0]), headroom=0.0)
    np.testing.assert_allclose(used[:2], 20.0, rtol=0.01)
    # Its 20 cores and the 2.5 that the node has beyond all requests.
    assert used[2] <= 22.5


def test_room_to_burst_makes_a_nearly_busy_app_faster() -> None:
    """At 95 % of its requests a queue is long; with cores to spare it is not."""
    population = apps_at([0.95, 0.95], [1.0, 2.0])
    world = World(still_cluster(100, headroom=0.6), still_scenario(), [1], population)
    for _ in range(12):
        world.step(world.hold())
    slow, quick = world.state.samples[0, 11 % SAMPLE_RING, rows.P99, :2]
    assert quick < 0.9 * slow


def spiking(cluster: SimCluster, seed: int, factor: float, ratio: float) -> World:
    """Everything bursts, in a cluster whose every domain gets a spike or slow requests."""
    population = generate(cluster)
    apps = population.apps
    limits = np.full_like(apps.cpu_limit_ratio, ratio)
    events = (
        Traffic(
            name="spike",
            target=Target(domains=cluster.domain_names[:3]),
            factor=factor,
            at_minute=1,
            hold_minutes=4,
        ),
        Payload(
            name="slow",
            target=Target(domains=cluster.domain_names[3:]),
            factor=factor,
            at_minute=2,
            hold_minutes=2,
        ),
    )
    return World(
        cluster,
        still_scenario(events),
        [seed],
        population._replace(apps=apps._replace(cpu_limit_ratio=limits)),
    )


@settings(max_examples=8, deadline=None)
@given(
    seed=st.integers(0, 1 << 30),
    factor=st.floats(1.2, 4.0),
    ratio=st.sampled_from([1.0, 1.3, 2.0, 8.0]),
)
def test_a_pool_never_uses_more_cores_than_its_ready_nodes_have(
    seed: int, factor: float, ratio: float
) -> None:
    run = HpaWorld(spiking(with_apps(load_sim_cluster(), 60), seed, factor, ratio))
    for _ in range(20):
        run.run(1)
        assert most_in_pools(run.world) <= 1 + ROUNDING


def test_a_spike_fills_pools_and_goes_beyond_requests() -> None:
    """The test above is not vacuous: bursts happen, and they use up all idle cores."""
    run = HpaWorld(spiking(with_apps(load_sim_cluster(), 60), 1, 3.0, 2.0))
    fullest, beyond = 0.0, 0.0
    for _ in range(18):
        run.run(1)
        fullest = max(fullest, most_in_pools(run.world))
        guaranteed, more = cores_by_app(run.world)
        beyond = max(beyond, float((more / np.maximum(guaranteed, 0.1)).max()))
    assert fullest > 0.99
    assert beyond > 0.1


def test_p0_and_p1_have_guaranteed_resources_in_the_example_cluster() -> None:
    cluster = load_sim_cluster()
    apps = generate(cluster).apps
    urgent = np.array([domain.priority in {"P0", "P1"} for domain in cluster.domains])
    guaranteed = (apps.cpu_limit_ratio == 1) & (apps.memory_limit_ratio == 1)
    np.testing.assert_array_equal(guaranteed, urgent[apps.domain])
