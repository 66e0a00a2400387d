"""Order of scheduling, preemption, node requests, zone loss and resizes."""

from functools import cache

import msgspec
import numpy as np
import pytest

from models.cluster import rows
from models.cluster.plan import Plan
from models.sim.accounting import PREEMPTED, REFUSED, RESIZED
from models.sim.config.events import ZoneLoss
from models.sim.config.physics import PodStop, SimCluster, load_sim_cluster, with_apps, with_physics
from models.sim.population.generate import generate
from models.sim.results.recording import Recorder
from models.sim.state import BOUND, NODE_ABSENT, ROOM_CPU
from models.sim.world import World
from models.validate.audit import broken_invariants
from models.validate.worlds import STILL, plain_apps, still_cluster, still_scenario

INTERNAL, PAYMENTS, FRAUD = 0, 1, 2
"""One app each, the least important first in every list."""


def full_world(order: str = "fifo", *, preemption: bool = False) -> World:
    """62 nodes with room for one pod each, of which 60 are taken by three apps."""
    cluster = still_cluster(pods=200, headroom=0.07)
    scheduler = msgspec.structs.replace(
        cluster.physics.scheduler, order=order, preemption=preemption
    )
    population = plain_apps(
        3, domain=[4, 0, 1], pod_class=[3, 0, 0], start_replicas=20, cpu_request=60
    )
    return World(with_physics(cluster, scheduler=scheduler), still_scenario(), [1], population)


def want_more(world: World, *apps: int) -> None:
    """One tick in which some apps want ten pods more."""
    plan = world.hold()
    plan.replicas[0, list(apps)] += 10
    world.step(plan)


def bound(world: World) -> list[int]:
    return [int(count) for count in world.state.hidden[0, BOUND]]


def test_first_come_first_served_binds_the_oldest_pods_first() -> None:
    world = full_world("fifo")
    want_more(world, INTERNAL, PAYMENTS)
    # Two nodes are free.
    assert bound(world) == [22, 20, 20]


def test_priority_order_binds_the_highest_class_first() -> None:
    world = full_world("priority")
    want_more(world, INTERNAL, PAYMENTS)
    assert bound(world) == [20, 22, 20]


def test_an_older_request_goes_first_only_without_priorities() -> None:
    for order, expected in (("fifo", [22, 20, 20]), ("priority", [20, 22, 20])):
        world = full_world(order)
        free = world.state.room[0].copy()
        # No room for a tick, so that the first pods stay in the queue.
        world.state.room[0] = 0
        want_more(world, INTERNAL)
        world.state.room[0] = free
        want_more(world, PAYMENTS)
        assert bound(world) == expected


def test_preemption_evicts_lower_classes_only() -> None:
    world = full_world("priority", preemption=True)
    want_more(world, PAYMENTS)
    # Two nodes are free, and eight pods are evicted.
    assert bound(world) == [12, 30, 20]
    assert world.accounts.totals[0, PREEMPTED] == 8


def test_the_lowest_class_does_not_preempt() -> None:
    world = full_world("priority", preemption=True)
    want_more(world, INTERNAL)
    assert bound(world) == [22, 20, 20]
    assert world.state.status[0, rows.PENDING, INTERNAL] == 8
    assert world.accounts.totals[0, PREEMPTED] == 0


def test_without_preemption_no_pod_is_evicted() -> None:
    world = full_world("priority")
    want_more(world, PAYMENTS)
    assert bound(world) == [20, 22, 20]


@cache
def five_pools() -> SimCluster:
    cluster = with_physics(with_apps(load_sim_cluster(), 155), churn=STILL)
    one_a_tick = msgspec.structs.replace(cluster.physics.provisioner, launches_per_second=0.1)
    return with_physics(cluster, provisioner=one_a_tick)


def test_a_coordinated_request_is_launched_in_priority_order() -> None:
    cluster = five_pools()
    world = World(cluster, still_scenario(), [1], generate(cluster))
    payments, internal = (cluster.pool_names.index(name) for name in ("payments", "internal"))
    plan = world.hold()
    plan.nodes[0, internal, 3] = 2
    plan.nodes[0, payments, 0] = 2
    launched = []
    exists = world.state.pool_market[0].sum(axis=1)
    for _ in range(4):
        world.step(plan)
        plan.nodes[:] = 0
        now = world.state.pool_market[0].sum(axis=1)
        launched += np.flatnonzero(now > exists).tolist()
        exists = now
    assert launched == [payments, payments, internal, internal]


def test_a_node_request_is_cut_to_the_pools_quota() -> None:
    cluster = five_pools()
    world = World(cluster, still_scenario(), [1], generate(cluster))
    pool = world.given.rules.pools[2]
    plan = world.hold()
    plan.nodes[0, 2, 0] = 10_000
    for _ in range(60):
        world.step(plan)
    assert world.state.pool_market[0, 2].sum() == pool["end"] - pool["first"]


def crowded_world() -> World:
    """One pool of full nodes, with quota for as many again."""
    population = plain_apps(1, cpu_request=30, start_replicas=32)
    return World(still_cluster(64, headroom=0.0, max_nodes=2.0), still_scenario(), [1], population)


def eight_more_pods(world: World, coordinated: int) -> Plan:
    """A plan for pods that do not fit, with or without coordination of their pool."""
    plan = world.hold()
    plan.replicas[0, 0] += 8
    plan.coordinated[:] = coordinated
    return plan


def test_pods_of_a_coordinated_pool_request_no_nodes_and_get_those_of_the_plan() -> None:
    world = crowded_world()
    nodes = world.state.pool["ready"][0, 0]
    plan = eight_more_pods(world, coordinated=1)
    # Two minutes, far beyond the batch window and a boot.
    for _ in range(12):
        world.step(plan)
    assert world.state.pool_market[0].sum() == nodes, "eight pods wait, and no node comes"
    assert world.observe().status[0, rows.PENDING, 0] == 8, "the controller sees them"
    plan.nodes[0, 0, 0] = 3
    world.step(plan)
    plan.nodes[:] = 0
    for _ in range(12):
        world.step(plan)
    assert world.state.pool_market[0].sum() == nodes + 3
    assert world.state.status[0, rows.PENDING, 0] == 2


def test_pods_request_nodes_again_when_the_coordination_ends() -> None:
    world = crowded_world()
    plan = eight_more_pods(world, coordinated=1)
    for _ in range(12):
        world.step(plan)
    for _ in range(12):
        world.step(world.hold())
    assert world.state.status[0, rows.PENDING, 0] == 0


@pytest.mark.parametrize(("coordinated", "asking"), [(0, 1), (1, 0)])
def test_apps_of_a_coordinated_pool_are_not_recorded_as_asking(
    coordinated: int, asking: int
) -> None:
    world = crowded_world()
    recorder = Recorder(world)
    plan = eight_more_pods(world, coordinated)
    world.step(plan)
    recorder(world)
    assert recorder.recording.asking[0].sum() == asking


def test_no_node_of_a_coordinated_pool_is_drained_while_pods_wait_for_it() -> None:
    world = crowded_world()
    plan = eight_more_pods(world, coordinated=1)
    for _ in range(2):
        world.step(plan)
    assert world.state.pool["pending_cpu"][0, 0] == 8 * 30_000


@pytest.mark.parametrize(("memory_share", "left"), [(0.45, 2), (0.1, 1)])
def test_a_node_is_drained_only_if_its_pods_memory_fits_elsewhere(
    memory_share: float, left: int
) -> None:
    cluster = still_cluster(pods=2, headroom=0.5, max_nodes=2.0)
    machine = cluster.machine_of(cluster.pools[0])
    memory = memory_share * (machine.memory_gib - machine.reserved_memory_gib)
    provisioner = msgspec.structs.replace(cluster.physics.provisioner, scale_down_after_s=60)
    population = plain_apps(1, start_replicas=2, min_replicas=2, memory_request=memory, own_rps=1)
    # CPU alone would fit on one node in both cases, and on two both pods are under-used.
    cluster = with_physics(cluster, provisioner=provisioner)
    world = World(
        cluster,
        still_scenario(),
        [1],
        population._replace(
            apps=population.apps._replace(cpu_request=np.full(1, 25.0, np.float32))
        ),
    )
    for _ in range(24):
        world.step(world.hold())
    assert world.state.pool["ready"][0, 0] == left


@pytest.mark.parametrize(("grace_s", "ticks"), [(0, 0), (15, 2), (30, 3)])
def test_a_stopping_pod_keeps_its_room_until_its_grace_period_is_over(
    grace_s: float, ticks: int
) -> None:
    cluster = with_physics(
        still_cluster(pods=200, headroom=0.07), pod_stop=PodStop(grace_s=grace_s)
    )
    population = plain_apps(2, start_replicas=20, cpu_request=60)
    world = World(cluster, still_scenario(), [1], population)
    plan = world.hold()
    plan.replicas[0, 0] = 10
    free = world.state.room[0, ROOM_CPU].clip(0).sum()
    freed = []
    for _ in range(5):
        world.step(plan)
        freed.append(world.state.room[0, ROOM_CPU].clip(0).sum() > free)
        assert not broken_invariants(world)
    assert world.state.hidden[0, BOUND, 0] == 10, "it serves no more at once"
    assert freed == [tick >= ticks for tick in range(5)]


def test_zone_loss_kills_the_nodes_of_that_zone_and_starts_none_there() -> None:
    cluster = five_pools()
    loss = ZoneLoss(name="loss", zone="b", at_minute=1, length_minutes=3)
    world = World(cluster, still_scenario([loss]), [1], generate(cluster))
    node, lost = world.state.node[0], cluster.physics.zones.index("b")
    for _ in range(6):
        world.step(world.hold())
    elsewhere = (node["state"] != NODE_ABSENT) & (node["zone"] != lost)
    for _ in range(18):
        world.step(world.hold())
        exists = node["state"] != NODE_ABSENT
        assert not (exists & (node["zone"] == lost)).any()
        assert exists[elsewhere].all()
    assert exists.sum() > elsewhere.sum(), "what was lost is asked for in other zones"


def test_a_resize_takes_effect_after_one_or_two_ticks() -> None:
    world = World(still_cluster(400, headroom=0.9), still_scenario(), [1], plain_apps(100))
    plan = world.hold()
    plan.cpu[:] = 1500
    world.step(plan)
    landed = []
    for _ in range(2):
        world.step(plan)
        landed.append(int((world.state.status[0, rows.CPU_REQUEST] == 1500).sum()))
    assert 0 < landed[0] < 100
    assert landed[1] == 100
    assert world.accounts.totals[0, RESIZED] == 100


def test_a_full_node_refuses_a_resize_and_the_pods_restart_elsewhere() -> None:
    population = plain_apps(1, cpu_request=30, start_replicas=32)
    world = World(still_cluster(64, headroom=0.0), still_scenario(), [1], population)
    plan = world.hold()
    plan.cpu[0] = 32_000
    for _ in range(3):
        world.step(plan)
    resized, refused = world.accounts.totals[0, [RESIZED, REFUSED]]
    assert (resized, refused) == (16, 16), "16 nodes hold two pods of 30 cores, or one of 32"
    assert bound(world)[0] + world.state.status[0, rows.PENDING, 0] == 32


@pytest.mark.parametrize("replicas", [-5, -1])
def test_negative_replica_counts_are_ignored(replicas: int) -> None:
    world = full_world()
    plan = world.hold()
    plan.replicas[0, INTERNAL] = replicas
    world.step(plan)
    assert world.state.status[0, rows.REPLICAS, INTERNAL] == 20
