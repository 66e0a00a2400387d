"""A world can be saved, forked and restored; what follows is the same, bit for bit."""

import numpy as np

from models.baselines.hpa.simulated import HpaState
from models.compare.hpa_worlds import HpaWorld, copy_memory, digest
from models.sim.config.physics import load_sim_cluster, with_apps
from models.sim.config.scenario import load_scenario
from models.sim.population.generate import generate
from models.sim.world import World, WorldSnapshot

BEFORE, AFTER = 150, 90


def saved() -> tuple[HpaWorld, WorldSnapshot, HpaState]:
    """A run that is stopped in the middle, with deploys, starts and boots in flight."""
    cluster = with_apps(load_sim_cluster(), 60)
    world = World(cluster, load_scenario("cascade", cluster), [1, 2], generate(cluster))
    run = HpaWorld(world)
    run.run(BEFORE)
    return run, world.save(), copy_memory(run.memory)


def restore(run: HpaWorld, snapshot: WorldSnapshot, memory: HpaState) -> None:
    run.world.restore(snapshot)
    # A copy, because the run changes it and tests restore more than once.
    run.memory = copy_memory(memory)


def test_a_restored_world_continues_bit_for_bit() -> None:
    run, snapshot, memory = saved()
    run.run(AFTER)
    first = digest(run.world)
    restore(run, snapshot, memory)
    run.run(AFTER)
    assert digest(run.world) == first


def test_a_snapshot_continues_in_another_world_of_the_same_shape() -> None:
    run, snapshot, memory = saved()
    run.run(AFTER)
    here = run.world
    other = World(here.cluster, here.scenario, [1, 2], here.population)
    there = HpaWorld(other)
    restore(there, snapshot, memory)
    there.run(AFTER)
    assert digest(other) == digest(here)


def test_a_fork_that_decides_differently_diverges_and_can_be_restored() -> None:
    run, snapshot, memory = saved()
    world, at_fork = run.world, digest(run.world)
    run.run(AFTER)
    first = digest(world)
    restore(run, snapshot, memory)
    assert digest(world) == at_fork
    for _ in range(AFTER):
        world.step(world.hold())
    assert digest(world) != first
    restore(run, snapshot, memory)
    assert digest(world) == at_fork
    run.run(AFTER)
    assert digest(world) == first


def test_a_snapshot_does_not_change_with_the_world() -> None:
    run, snapshot, _ = saved()
    parts = [part.copy() for part in (*snapshot.state, *snapshot.accounts)]
    run.run(10)
    for kept, part in zip(parts, (*snapshot.state, *snapshot.accounts), strict=True):
        np.testing.assert_array_equal(kept, part)
