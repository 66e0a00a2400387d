"""Deploys, memory, inventory and overload behave as a cluster's do."""

import math

import pytest

from models.cluster.observation import ERRORS, PENDING, READY, RESTARTS, RPS
from models.sim.accounting import CRASHED, OOM_KILLED
from models.sim.apps import GUARD_NONE
from models.sim.config.events import Deploy, Inventory, Target, Traffic
from models.sim.state import RETRY, SAMPLE_RING
from models.sim.world import World
from models.validate.worlds import one_call, plain_apps, still_cluster, still_scenario


def deploying(replicas: int) -> World:
    event = Deploy(name="release", target=Target(apps=(0,)), at_minute=1)
    population = plain_apps(1, start_replicas=replicas, mean_rps=1, own_rps=1)
    return World(still_cluster(200), still_scenario([event]), [1], population)


@pytest.mark.parametrize("replicas", [1, 4, 40])
def test_a_rolling_deploy_keeps_three_quarters_of_the_pods_ready(replicas: int) -> None:
    world = deploying(replicas)
    least = replicas
    for _ in range(120):
        world.step(world.hold())
        least = min(least, int(world.state.status[0, READY, 0]))
    assert least == replicas - math.floor(replicas * 0.25)
    assert world.state.status[0, READY, 0] == replicas, "and it ends"


def test_a_deploy_is_no_reason_to_be_killed_for_memory() -> None:
    world = deploying(40)
    for _ in range(120):
        world.step(world.hold())
    assert world.accounts.totals[0, [OOM_KILLED, CRASHED]].sum() == 0


def test_memory_that_grows_kills_in_the_end() -> None:
    population = plain_apps(1, start_replicas=10, memory_leak=6.0, memory_base=0.5)
    world = World(still_cluster(100), still_scenario(), [1], population)
    for _ in range(90):
        world.step(world.hold())
    assert world.accounts.totals[0, OOM_KILLED] > 0


def test_memory_above_the_request_kills_only_above_the_limit() -> None:
    population = plain_apps(
        2, start_replicas=10, memory_base=1.3, memory_limit_ratio=[1.5, 1.2], max_replicas=10
    )
    world = World(still_cluster(100), still_scenario(), [1], population)
    for _ in range(30):
        world.step(world.hold())
    assert world.state.status[0, RESTARTS, 0] == 0
    assert world.state.status[0, RESTARTS, 1] > 0


def test_an_app_that_has_vanished_is_not_called() -> None:
    event = Inventory(name="gone", target=Target(apps=(1,)), change="vanish", at_minute=1)
    calls = one_call(0, 1, 1.0, GUARD_NONE)
    population = plain_apps(2, calls, start_replicas=10, own_rps=[1000.0, 0.0])
    world = World(still_cluster(100), still_scenario([event]), [1], population)
    for _ in range(12):
        world.step(world.hold())
    caller, callee = world.state.samples[0, 11 % SAMPLE_RING, :, :2].T
    assert callee[RPS] == 0
    assert caller[ERRORS] == 0


def test_when_everybody_waits_longer_than_the_time_out_nobody_is_served() -> None:
    flood = Traffic(name="flood", target=Target(apps=(0,)), factor=20, at_minute=1, hold_minutes=9)
    population = plain_apps(1, start_replicas=10, cpu_seconds=1e-2, own_rps=700, timeout=0.5)
    world = World(still_cluster(100), still_scenario([flood]), [1], population)
    for _ in range(24):
        world.step(world.hold())
    assert world.state.samples[0, 23 % SAMPLE_RING, ERRORS, 0] > 0.99


def test_what_failed_at_a_callee_is_not_sent_again_by_the_callers_of_its_caller() -> None:
    """App 0 may be retried, app 1 may not; app 1 fails."""
    flood = Traffic(name="flood", target=Target(apps=(1,)), factor=20, at_minute=1, hold_minutes=9)
    population = plain_apps(
        2,
        one_call(0, 1, 1.0, GUARD_NONE),
        start_replicas=[100, 10],
        cpu_seconds=1e-2,
        own_rps=[300.0, 400.0],
        timeout=0.5,
        retry_share=[0.9, 0.0],
    )
    world = World(still_cluster(200), still_scenario([flood]), [1], population)
    for _ in range(24):
        world.step(world.hold())
    assert world.state.samples[0, 23 % SAMPLE_RING, ERRORS, 0] > 0.9
    assert world.state.flow[0, RETRY, 0] == 0


def test_no_pod_waits_beside_a_node_that_has_room_for_it() -> None:
    population = plain_apps(1, start_replicas=2, mean_rps=1, own_rps=1)
    world = World(still_cluster(300, headroom=0.97), still_scenario(), [1], population)
    room = int((world.state.room[0, 0] // 1000).clip(0).sum())
    plan = world.hold()
    plan.replicas[0, 0] += room - 1
    world.step(plan)
    assert world.state.status[0, PENDING, 0] == 0
