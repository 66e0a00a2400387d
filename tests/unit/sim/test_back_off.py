"""Containers that die again and again are started later and later."""

import pytest

from models.cluster.observation import READY
from models.sim.churn import back_off_s
from models.sim.world import World
from models.validate.worlds import plain_apps, still_cluster, still_scenario

MINUTE, RESTART = 6, 2
"""Ticks."""


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
        counts.append(int(world.state.status[0, READY, 0]))
    return counts


def outages(counts: list[int]) -> list[int]:
    """Lengths of the runs of zeros that ended."""
    runs = "".join("." if count else "0" for count in counts).rstrip("0").split(".")
    return [len(run) for run in runs if run]


def test_each_death_doubles_the_wait_up_to_five_minutes() -> None:
    expected = [RESTART + wait for wait in (0, 1, 2, 4, 8, 16, 30, 30)]
    assert outages(ready(hungry(1), 40 * MINUTE))[:8] == expected


def test_memory_below_what_a_fresh_pod_needs_takes_all_pods_down() -> None:
    assert min(ready(hungry(10), 2 * MINUTE)) == 0


def test_ten_minutes_of_health_are_forgiven() -> None:
    world = hungry(1)
    ready(world, 12 * MINUTE)
    ready(world, 16 * MINUTE, memory_mib=4096)
    assert outages(ready(world, 4 * MINUTE, memory_mib=1024))[:2] == [RESTART, RESTART + 1]


def test_memory_that_grows_is_no_crash_loop() -> None:
    """An hour fills the memory, so nobody dies twice within ten minutes."""
    population = plain_apps(1, start_replicas=100, memory_leak=0.5, memory_base=0.5)
    world = World(still_cluster(100, headroom=0.1), still_scenario(minutes=120), [1], population)
    assert min(ready(world, 120 * MINUTE)) == 80, "a fifth at a time, and each time at once"
    assert world.state.crash_loop["deaths"][0, 0] == pytest.approx(0.2)


@pytest.mark.parametrize(("level", "seconds"), [(0, 0), (0.01, 0.1), (1, 10), (3, 40), (20, 300)])
def test_the_wait_is_the_kubelets(level: float, seconds: float) -> None:
    assert back_off_s(level) == pytest.approx(seconds)
