"""The same seed gives the same world: twice, among others, in another process, when scaled."""

import subprocess
import sys
from functools import cache

import numpy as np
import pytest

from models.cluster import rows
from models.compare.hpa_worlds import HpaWorld, digest, digest_of_run
from models.inputs.errors import InputError
from models.sim.config.physics import SimCluster, load_sim_cluster, with_apps
from models.sim.config.scenario import Scenario, load_scenario
from models.sim.population.generate import generate
from models.sim.state import SAMPLE_RING
from models.sim.world import World
from models.validate.worlds import still_scenario

APPS = 60
TICKS = 180
"""Into the spike and the deploys of the scenario."""


@cache
def setting() -> tuple[SimCluster, Scenario]:
    cluster = with_apps(load_sim_cluster(), APPS)
    return cluster, load_scenario("cascade", cluster)


def driven(seeds: list[int]) -> HpaWorld:
    cluster, scenario = setting()
    return HpaWorld(World(cluster, scenario, seeds, generate(cluster)))


def test_the_same_seed_gives_the_same_world_bit_for_bit() -> None:
    first, second = driven([5]), driven([5])
    first.run(TICKS)
    second.run(TICKS)
    assert digest(first.world) == digest(second.world)


def test_another_seed_gives_another_world() -> None:
    runs = driven([5, 6])
    runs.run(30)
    assert digest(runs.world, 0) != digest(runs.world, 1)


def test_an_environment_among_eight_equals_the_same_seed_alone() -> None:
    together, alone = driven(list(range(8))), driven([3])
    together.run(TICKS)
    alone.run(TICKS)
    assert digest(together.world, 3) == digest(alone.world, 0)


def test_another_process_gives_the_same_world() -> None:
    program = (
        "from models.compare.hpa_worlds import digest_of_run;"
        f"print(digest_of_run({APPS}, [5, 6], {TICKS}))"
    )
    other = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert other.stdout.strip() == digest_of_run(APPS, [5, 6], TICKS)


def test_traffic_is_the_same_whatever_a_controller_does() -> None:
    scaled, held = driven([5]), driven([5]).world
    population = held.population
    called = np.isin(np.arange(APPS), population.calls.callee)
    # Calls and retries depend on the callers' capacity, so compare apps that have neither.
    own = ~called & (population.apps.retry_share == 0)
    assert own.any()
    for tick in range(TICKS):
        scaled.run(1)
        held.step(held.hold())
        # Row 0 is RATE, row 1 is RATE_NEXT.
        np.testing.assert_array_equal(scaled.world.state.flow[:, :2], held.state.flow[:, :2])
        slot = tick % SAMPLE_RING
        np.testing.assert_array_equal(
            scaled.world.state.samples[0, slot, rows.RPS, own],
            held.state.samples[0, slot, rows.RPS, own],
        )
    status = scaled.world.state.status[0, rows.REPLICAS]
    assert (status != held.state.status[0, rows.REPLICAS]).any(), "both did the same"


@pytest.mark.parametrize(
    ("seeds", "message"),
    [([], "at least one"), ([-1], "from 0 to .*, got -1"), ([4, -7], "from 0 to .*, got -7")],
)
def test_bad_seeds_are_refused(seeds: list[int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        World(setting()[0], still_scenario(), seeds)
