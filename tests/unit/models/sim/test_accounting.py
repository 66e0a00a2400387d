"""Violation minutes and held shares are booked to the right domains."""

import numpy as np
import pytest
from msgspec.structs import replace

from models.sim.accounting import P0_WAIT_TICKS, P3_HELD, P3_HELD_OF_P0_POOLS
from models.sim.config.events import Inventory, Target
from models.sim.config.physics import SimCluster
from models.sim.results.summary import Decisions, summarise
from models.sim.world import World
from models.validate.worlds import plain_apps, still_cluster, still_scenario

PAYMENTS, INTERNAL = 0, 4


def test_an_app_that_moves_leaves_its_violation_minutes_where_they_happened() -> None:
    """Every request is slower than the target; after five of ten minutes the app is moved."""
    move = Inventory(
        name="move", target=Target(apps=(0,)), change="move", to_domain="payments", at_minute=5
    )
    population = plain_apps(1, domain=INTERNAL, start_replicas=10, latency_target=1e-6)
    world = World(still_cluster(100), still_scenario([move]), [1], population)
    for _ in range(60):
        world.step(world.hold())
    row = summarise(world, "none", Decisions(np.zeros(1, np.int64)))[0]
    assert row.violation_minutes == pytest.approx({"P0": 5, "P1": 0, "P2": 0, "P3": 5}, rel=0.02)
    assert world.accounts.violation_minutes[0].sum() == pytest.approx(10, rel=0.02)


def test_violations_count_in_the_minute_in_which_a_domains_last_app_vanishes() -> None:
    """Every request is slower than the target, until the only app vanishes in the fourth minute."""
    gone = Inventory(name="gone", target=Target(apps=(0,)), change="vanish", at_minute=3.5)
    population = plain_apps(1, domain=PAYMENTS, start_replicas=10, latency_target=1e-6)
    world = World(still_cluster(100), still_scenario([gone]), [1], population)
    for _ in range(30):
        world.step(world.hold())
    row = summarise(world, "none", Decisions(np.zeros(1, np.int64)))[0]
    # All requests of half a minute count as a whole one: the app had no others.
    assert row.violation_minutes["P0"] == pytest.approx(4, rel=0.02)
    assert np.isfinite(world.accounts.domain_minutes).all()


def test_what_p3_holds_is_counted_in_the_pools_that_p0_waits_for() -> None:
    """P3 fills its own ten nodes and half of twenty shared ones, which are all P0 may use."""
    population = plain_apps(2, domain=[PAYMENTS, INTERNAL], cpu_request=60, start_replicas=[10, 20])
    world = World(two_pools(), still_scenario(), [1], population)
    more = world.hold()
    more.replicas[0, 0] += 10
    for _ in range(2):
        world.step(more)
    # A pod of 60 cores on a node with 62.5 allocatable.
    totals, full = world.accounts.totals[0], 60 / 62.5
    assert totals[P0_WAIT_TICKS] == 1, "not yet in the tick in which the pods are needed"
    assert totals[P3_HELD] == pytest.approx(full * 20 / 30)
    assert totals[P3_HELD_OF_P0_POOLS] == pytest.approx(full * 10 / 20)


def two_pools() -> SimCluster:
    """A pool for internal only, and one for all domains with half of internal's pods."""
    cluster = still_cluster(30, headroom=0.0)
    own = replace(cluster.pools[0], name="own")
    shared = replace(own, name="shared")
    (start,) = cluster.physics.pools.values()
    pools = {"own": start, "shared": replace(start, pod_share=0.5)}
    domains = tuple(
        replace(domain, pools=("own", "shared") if domain.name == "internal" else ("shared",))
        for domain in cluster.domains
    )
    physics = replace(cluster.physics, pools=pools)
    return replace(cluster, pools=(own, shared), domains=domains, physics=physics)
