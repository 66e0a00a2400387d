"""Timing the stages one after the other simulates what a tick does."""

from models.compare.hpa_worlds import HpaWorld, busy_world, digest
from models.compare.stages import stage_seconds
from models.sim.config.physics import load_sim_cluster, with_apps

TICKS = 130


def test_staged_ticks_give_the_same_world_as_whole_ones() -> None:
    cluster = with_apps(load_sim_cluster(), 40)
    whole, staged = HpaWorld(busy_world(cluster, 2)), HpaWorld(busy_world(cluster, 2))
    whole.run(TICKS)
    # One tick more than it times, which compiles the stages.
    spent = stage_seconds(staged, TICKS - 1)
    assert digest(staged.world) == digest(whole.world)
    assert all(seconds > 0 for seconds in spent.values())
