"""Under any plans and faults, every count agrees with the pods and nodes that exist."""

from functools import cache

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.cluster import rows
from models.cluster.plan import Plan
from models.sim.accounting import EVICTED, PREEMPTED, REFUSED, RESIZED
from models.sim.config.events import Deploy, Inventory, SpotReclaim, Target, Traffic, ZoneLoss
from models.sim.config.physics import Churn, SimCluster, load_sim_cluster, with_apps, with_physics
from models.sim.population.generate import generate
from models.sim.state import BOUND, NODE_ABSENT, ROOM_CPU
from models.sim.world import World
from models.validate.audit import broken_invariants
from models.validate.worlds import still_scenario

APPS = 60
WILD = Churn(
    deploys_per_app_per_day=60,
    crashes_per_pod_per_day=40,
    node_evictions_per_day=20,
    spot_reclaims_per_day=60,
)


@cache
def wild_cluster() -> SimCluster:
    cluster = with_apps(load_sim_cluster(), APPS)
    scheduler = msgspec.structs.replace(
        cluster.physics.scheduler, order="priority", preemption=True
    )
    return with_physics(cluster, churn=WILD, scheduler=scheduler)


WILD_EVENTS = (
    Traffic(
        name="spike", target=Target(domains=("payments",)), factor=3, at_minute=1, hold_minutes=4
    ),
    Deploy(name="deploy", target=Target(domains=("fraud", "data")), at_minute=1),
    ZoneLoss(name="zone", zone="b", at_minute=3, length_minutes=2),
    SpotReclaim(name="spot", share=0.5, at_minute=2),
    Inventory(name="vanish", target=Target(apps=(3, 30)), change="vanish", at_minute=2),
    Inventory(name="appear", target=Target(apps=(5,)), change="appear", at_minute=2),
    Inventory(
        name="move", target=Target(apps=(9,)), change="move", to_domain="internal", at_minute=3
    ),
)


@cache
def start() -> World:
    cluster = wild_cluster()
    return World(cluster, still_scenario(WILD_EVENTS), [1, 2], generate(cluster))


def random_plan(world: World, rng: np.random.Generator) -> Plan:
    """Some apps get new numbers, now and then far from what they were."""
    plan = world.hold()

    def shake(row: np.ndarray, share: float, least: int) -> None:
        touched = rng.random(row.shape) < share
        factor = np.exp(rng.normal(0, 0.7, row.shape))
        row[touched] = np.maximum(least, row * factor)[touched]

    shake(plan.replicas, 0.3, 0)
    shake(plan.cpu, 0.1, 10)
    shake(plan.memory, 0.1, 16)
    plan.nodes[:] = rng.poisson(0.1, plan.nodes.shape)
    plan.coordinated[:] = rng.random(plan.coordinated.shape) < 0.5
    return plan


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=6, deadline=None)
def test_counts_agree_with_pods_and_nodes_after_every_tick(seed: int) -> None:
    world, rng = start(), np.random.default_rng(seed)
    # Restored in the end, because the tests share one world.
    snapshot = world.save()
    for tick in range(36):
        world.step(random_plan(world, rng))
        assert broken_invariants(world) == [], f"after tick {tick}"
    totals = world.accounts.totals.sum(axis=0)
    # Otherwise the test would show nothing about these mechanisms.
    assert (totals[[EVICTED, PREEMPTED, REFUSED, RESIZED]] > 0).all(), "a mechanism did not run"
    assert (world.state.status[:, rows.ACTIVE, [3, 30]] == 0).all()
    world.restore(snapshot)


@pytest.mark.parametrize(
    ("corrupted", "message"),
    [
        ("bound", "bound pods differ"),
        ("room", "free cpu differs"),
        ("market", "billed nodes differ"),
        ("queue", "pending pods differ"),
    ],
)
def test_the_audit_finds_a_count_that_is_off_by_one(corrupted: str, message: str) -> None:
    world = start()
    snapshot = world.save()
    world.step(world.hold())
    assert broken_invariants(world) == []
    state = world.state
    ready = int(np.flatnonzero(state.node["state"][0] != NODE_ABSENT)[0])
    if corrupted == "bound":
        state.hidden[0, BOUND, 7] += 1
    elif corrupted == "room":
        state.room[0, ROOM_CPU, ready] += 1
    elif corrupted == "market":
        state.pool_market[0, 0, 0] += 1
    else:
        state.status[0, rows.PENDING, 7] += 1
    found = broken_invariants(world)
    world.restore(snapshot)
    assert any(message in line for line in found), found
