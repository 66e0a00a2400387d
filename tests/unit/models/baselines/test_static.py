"""The static baseline: replicas for yesterday's peak, set once, within the bounds."""

import numpy as np
import pytest

from models.baselines.static import Parameters, Static, daily_peak_replicas, static_of
from models.cluster import rows
from models.compare.run import run
from models.sim.config.physics import load_sim_cluster, with_apps
from models.sim.config.scenario import Scenario
from models.sim.results.summary import summarise
from models.sim.world import World


def make_world(minutes: int = 10) -> World:
    scenario = Scenario(
        name="short", shows="Nothing.", start="Mon 10:00", length_minutes=minutes, warmup_minutes=2
    )
    return World(with_apps(load_sim_cluster(), 40), scenario, (0, 1))


def test_static_never_acts_after_its_first_plan() -> None:
    world = make_world()
    by_tick = []
    decisions = run(
        world,
        static_of(world),
        on_tick=lambda now: by_tick.append(now.state.status[:, rows.REPLICAS].copy()),
    )
    assert all((replicas == by_tick[0]).all() for replicas in by_tick)
    assert [row.scaling_actions for row in summarise(world, "static", decisions)] == [0, 0]


def test_static_replicas_are_the_peak_times_the_factor() -> None:
    world = make_world()
    inventory = world.inventory
    peak = np.full((2, 40), 10.0, np.float32)
    controller = Static(inventory, world.layout.pools, peak, Parameters(peak_factor=1.25))
    observation = world.observe()
    plan, _ = controller.step(observation, None, controller.start(observation))
    wanted = np.clip(13, inventory.min_replicas, inventory.max_replicas)
    assert (plan.replicas == wanted).all()


@pytest.mark.parametrize("factor", [0.0, 1e6])
def test_static_stays_within_the_declared_bounds(factor: float) -> None:
    world = make_world()
    inventory = world.inventory
    controller = static_of(world, Parameters(peak_factor=factor))
    observation = world.observe()
    plan, _ = controller.step(observation, None, controller.start(observation))
    assert (plan.replicas >= inventory.min_replicas).all()
    assert (plan.replicas <= inventory.max_replicas).all()


def test_the_daily_peak_needs_at_least_the_replicas_of_the_mean() -> None:
    world = make_world()
    apps = world.population.apps
    peak = daily_peak_replicas(world)
    assert peak.shape == (2, 40)
    assert (peak > 0.9 * apps.start_replicas * (apps.mean_rps > 0.1)).mean() > 0.9
    assert np.median(peak / apps.start_replicas) > 1.0
