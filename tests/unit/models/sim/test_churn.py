"""Deploys, OOM kills, crash loops, inventory changes and overload."""

import math

import pytest

from models.cluster import rows
from models.sim.accounting import CRASHED, OOM_KILLED
from models.sim.apps import GUARD_NONE
from models.sim.churn import back_off_s
from models.sim.config.events import Crash, Deploy, Inventory, Leak, Target, Traffic
from models.sim.state import RETRY, SAMPLE_RING
from models.sim.world import World
from models.validate.worlds import one_call, plain_apps, still_cluster, still_scenario

MINUTE, RESTART = 6, 2
"""Ticks."""


def deploying(replicas: int) -> World:
    event = Deploy(name="release", target=Target(apps=(0,)), at_minute=1)
    population = plain_apps(1, start_replicas=replicas, mean_rps=1, own_rps=1)
    return World(still_cluster(200), still_scenario([event]), [1], population)


@pytest.mark.parametrize("replicas", [1, 4, 40])
def test_a_rolling_deploy_keeps_three_quarters_of_the_pods_ready(replicas: int) -> None:
    world = deploying(replicas)
    lowest = replicas
    for _ in range(120):
        world.step(world.hold())
        lowest = min(lowest, int(world.state.status[0, rows.READY, 0]))
    assert lowest == replicas - math.floor(replicas * 0.25)
    assert world.state.status[0, rows.READY, 0] == replicas, "and it ends"


def test_a_deploy_causes_no_oom_kills() -> None:
    world = deploying(40)
    for _ in range(120):
        world.step(world.hold())
    assert world.accounts.totals[0, [OOM_KILLED, CRASHED]].sum() == 0


def test_leaking_memory_ends_in_an_oom_kill() -> None:
    population = plain_apps(1, start_replicas=10, memory_leak=6.0, memory_base=0.5)
    world = World(still_cluster(100), still_scenario(), [1], population)
    for _ in range(90):
        world.step(world.hold())
    assert world.accounts.totals[0, OOM_KILLED] > 0


def test_a_leak_of_a_scenario_kills_only_its_apps_and_ends() -> None:
    leak = Leak(
        name="leak", target=Target(apps=(0,)), at_minute=1, requests_per_hour=12, length_minutes=10
    )
    population = plain_apps(2, start_replicas=10, memory_base=0.5)
    world = World(still_cluster(100), still_scenario([leak]), [1], population)
    run_ticks(world, 12 * 6)
    restarts = world.state.status[0, rows.RESTARTS].copy()
    # Half of the request is left, so 12 requests per hour fill it within three minutes.
    assert restarts[0] > 0
    assert restarts[1] == 0
    run_ticks(world, 20 * 6)
    assert world.state.status[0, rows.RESTARTS, 0] <= restarts[0] + 10, "what leaked is killed once"


def test_crashes_of_a_scenario_end_with_the_roll_back() -> None:
    crash = Crash(
        name="bad", target=Target(apps=(0,)), at_minute=1, share_per_minute=0.2, length_minutes=5
    )
    population = plain_apps(2, start_replicas=10)
    world = World(still_cluster(100), still_scenario([crash]), [1], population)
    lowest = 10
    for _ in range(6 * 6):
        run_ticks(world, 1)
        lowest = min(lowest, int(world.state.status[0, rows.READY, 0]))
    crashed = int(world.accounts.totals[0, CRASHED])
    # A fifth of ten pods in each of five minutes, less those that are down meanwhile.
    assert 5 <= crashed <= 10
    assert world.state.status[0, rows.RESTARTS, 1] == 0
    assert lowest <= 8
    run_ticks(world, 60)
    assert world.accounts.totals[0, CRASHED] == crashed
    assert world.state.status[0, rows.READY, 0] == 10


def run_ticks(world: World, ticks: int) -> None:
    for _ in range(ticks):
        world.step(world.hold())


def test_memory_above_the_request_kills_only_above_the_limit() -> None:
    population = plain_apps(
        2, start_replicas=10, memory_base=1.3, memory_limit_ratio=[1.5, 1.2], max_replicas=10
    )
    world = World(still_cluster(100), still_scenario(), [1], population)
    for _ in range(30):
        world.step(world.hold())
    assert world.state.status[0, rows.RESTARTS, 0] == 0
    assert world.state.status[0, rows.RESTARTS, 1] > 0


def test_an_app_that_has_vanished_is_not_called() -> None:
    event = Inventory(name="gone", target=Target(apps=(1,)), change="vanish", at_minute=1)
    calls = one_call(0, 1, 1.0, GUARD_NONE)
    population = plain_apps(2, calls, start_replicas=10, own_rps=[1000.0, 0.0])
    world = World(still_cluster(100), still_scenario([event]), [1], population)
    for _ in range(12):
        world.step(world.hold())
    caller, callee = world.state.samples[0, 11 % SAMPLE_RING, :, :2].T
    assert callee[rows.RPS] == 0
    assert caller[rows.ERRORS] == 0


def test_nothing_is_served_when_every_request_waits_beyond_the_timeout() -> None:
    flood = Traffic(name="flood", target=Target(apps=(0,)), factor=20, at_minute=1, hold_minutes=9)
    population = plain_apps(1, start_replicas=10, cpu_seconds=1e-2, own_rps=700, timeout=0.5)
    world = World(still_cluster(100), still_scenario([flood]), [1], population)
    for _ in range(24):
        world.step(world.hold())
    assert world.state.samples[0, 23 % SAMPLE_RING, rows.ERRORS, 0] > 0.99


def test_failures_of_a_callee_are_not_retried_by_the_callers_of_its_caller() -> None:
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
    assert world.state.samples[0, 23 % SAMPLE_RING, rows.ERRORS, 0] > 0.9
    assert world.state.flow[0, RETRY, 0] == 0


def test_no_pod_waits_beside_a_node_that_has_room_for_it() -> None:
    population = plain_apps(1, start_replicas=2, mean_rps=1, own_rps=1)
    world = World(still_cluster(300, headroom=0.97), still_scenario(), [1], population)
    room = int((world.state.room[0, 0] // 1000).clip(0).sum())
    plan = world.hold()
    plan.replicas[0, 0] += room - 1
    world.step(plan)
    assert world.state.status[0, rows.PENDING, 0] == 0


def hungry(replicas: int) -> World:
    """Pods that need twice their memory limit as soon as they are up."""
    population = plain_apps(1, start_replicas=replicas, memory_request=1, memory_base=2)
    return World(still_cluster(100), still_scenario(minutes=120), [1], population)


def ready(world: World, ticks: int, memory_mib: int | None = None) -> list[int]:
    """Ready pods after each of the next ticks."""
    counts = []
    plan = world.hold()
    if memory_mib is not None:
        plan.memory[:] = memory_mib
    for _ in range(ticks):
        world.step(plan)
        counts.append(int(world.state.status[0, rows.READY, 0]))
    return counts


def outages(counts: list[int]) -> list[int]:
    """Lengths of the runs of zeros that ended."""
    runs = "".join("." if count else "0" for count in counts).rstrip("0").split(".")
    return [len(run) for run in runs if run]


def test_each_death_doubles_the_wait_up_to_five_minutes() -> None:
    # 10 s is one tick; the kubelet's 300 s are 30.
    expected = [RESTART + wait for wait in (0, 1, 2, 4, 8, 16, 30, 30)]
    assert outages(ready(hungry(1), 40 * MINUTE))[:8] == expected


def test_memory_below_what_a_fresh_pod_needs_takes_all_pods_down() -> None:
    assert min(ready(hungry(10), 2 * MINUTE)) == 0


def test_ten_minutes_of_health_reset_the_back_off() -> None:
    world = hungry(1)
    ready(world, 12 * MINUTE)
    # Enough memory for longer than ten minutes, whatever back-off was left.
    ready(world, 16 * MINUTE, memory_mib=4096)
    assert outages(ready(world, 4 * MINUTE, memory_mib=1024))[:2] == [RESTART, RESTART + 1]


def test_slowly_growing_memory_is_not_a_crash_loop() -> None:
    """An hour fills the memory, so no container dies twice within ten minutes."""
    population = plain_apps(1, start_replicas=100, memory_leak=0.5, memory_base=0.5)
    world = World(still_cluster(100, headroom=0.1), still_scenario(minutes=120), [1], population)
    assert min(ready(world, 120 * MINUTE)) == 80, "a fifth at a time, and each time at once"
    assert world.state.crash_loop["deaths"][0, 0] == pytest.approx(0.2)


@pytest.mark.parametrize(("level", "seconds"), [(0, 0), (0.01, 0.1), (1, 10), (3, 40), (20, 300)])
def test_the_back_off_follows_the_kubelet(level: float, seconds: float) -> None:
    assert back_off_s(level) == pytest.approx(seconds)
