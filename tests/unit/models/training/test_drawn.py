"""Randomised worlds differ in everything that is drawn, and are the same again by their seed."""

from models.sim.config.physics import SimCluster
from models.training.drawn import drawn_worlds

WORLDS = drawn_worlds(0, 40, 60)


def numbers(cluster: SimCluster) -> tuple[float, ...]:
    physics = cluster.physics
    return (
        physics.metrics.lag_s, physics.metrics.window_s, physics.declarations.saturation_sigma,
        physics.pod_start.boot_s, physics.provisioner.boot_s,
    )  # fmt: skip


def test_the_same_seeds_draw_the_same_worlds_and_others_draw_others() -> None:
    assert drawn_worlds(0, 3, 60) == WORLDS[:3] == drawn_worlds(0, 40, 60)[:3]
    assert drawn_worlds(1, 2, 60) == WORLDS[1:3]
    assert len({world.scenario.name for world in WORLDS}) == len(WORLDS)


def test_everything_that_should_vary_does() -> None:
    columns = zip(*(numbers(world.cluster) for world in WORLDS), strict=True)
    assert all(len(set(column)) > 2 for column in columns)
    sizes = {len(world.cluster.domains) for world in WORLDS}
    assert min(sizes) == 3
    assert max(sizes) == 12
    assert len({world.scenario.start for world in WORLDS}) > 30
    kinds = {type(event).__name__ for world in WORLDS for event in world.scenario.events}
    assert len(kinds) >= 6


def test_many_hours_are_quiet_and_announcements_are_wrong() -> None:
    quiet = [world for world in WORLDS if not (world.scenario.events or world.scenario.calendar)]
    assert 0.2 < len(quiet) / len(WORLDS) < 0.6
    announced = [
        (world.scenario.calendar[0].at_minute, world.scenario.events[0].at_minute)
        for world in WORLDS
        if world.scenario.calendar and world.scenario.events
    ]
    assert announced
    assert all(said != real for said, real in announced)


def test_worlds_have_the_size_that_was_asked_for() -> None:
    assert {world.cluster.apps for world in WORLDS} == {60}
