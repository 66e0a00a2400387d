import msgspec
import numpy as np
import pytest

from models.cluster.calendar import DAY_MINUTES
from models.sim.config.physics import load_sim_cluster, with_apps
from models.sim.config.scenario import load_scenario
from models.sim.state import RATE
from models.sim.world import World, app_history, domain_history


def _world(scenario: str = "flash-sale-20-min-early", seeds: tuple[int, ...] = (3, 4)) -> World:
    cluster = with_apps(load_sim_cluster(), 40)
    return World(cluster, load_scenario(scenario, cluster), list(seeds))


def test_history_ends_where_the_scenario_begins() -> None:
    world = _world()
    own = world.population.apps.own_rps > 0
    before = app_history(world, 0, 2)
    world.step(world.hold())
    # History includes calls, RATE does not.
    uncalled = own & ~np.isin(np.arange(own.size), world.population.calls.callee)
    now = world.state.flow[0, RATE]
    ratio = now[uncalled] / before[-1, uncalled]
    assert 0.5 < np.median(ratio) < 2.0


def test_history_contains_nothing_of_the_events() -> None:
    world = _world()
    quiet = msgspec.structs.replace(world.scenario, events=())
    without = World(world.cluster, quiet, [3, 4], world.population)
    np.testing.assert_array_equal(domain_history(world, 60), domain_history(without, 60))


def test_history_of_an_environment_does_not_depend_on_its_neighbours() -> None:
    both = domain_history(_world(), 120)
    alone = domain_history(_world(seeds=(4,)), 120)
    np.testing.assert_array_equal(both[1], alone[0])


def test_a_weekday_resembles_the_same_weekday_a_week_before() -> None:
    history = domain_history(_world(seeds=(0,)), 8 * DAY_MINUTES)[0].sum(axis=0)
    last, week_before = history[-DAY_MINUTES:], history[-8 * DAY_MINUTES : -7 * DAY_MINUTES]
    assert np.corrcoef(last, week_before)[0, 1] > 0.8


def test_more_than_the_recorded_history_is_refused() -> None:
    with pytest.raises(ValueError, match="expected 1 to"):
        app_history(_world(), 0, 15 * DAY_MINUTES)
