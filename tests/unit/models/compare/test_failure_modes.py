"""Figures of the failure modes: which apps spike, and what the baseline run leaves out."""

import numpy as np

from models.compare.failure_modes import measure, spiking_apps, without_spikes
from models.sim.config.events import Traffic
from models.sim.config.physics import load_sim_cluster, with_apps
from models.sim.config.scenario import load_scenario
from models.sim.world import World

CLUSTER = with_apps(load_sim_cluster(), 60)


def test_without_spikes_drops_only_traffic_events() -> None:
    scenario = load_scenario("cascade", CLUSTER)
    kept = without_spikes(scenario)
    dropped = [event for event in scenario.events if event not in kept.events]
    assert dropped
    assert all(isinstance(event, Traffic) for event in dropped)
    assert len(kept.events) + len(dropped) == len(scenario.events)


def test_spiking_apps_are_those_targeted_by_the_spike() -> None:
    world = World(CLUSTER, load_scenario("cascade", CLUSTER), [0])
    payments = world.population.apps.domain == CLUSTER.domain_names.index("payments")
    np.testing.assert_array_equal(spiking_apps(world), payments)


def test_every_figure_has_one_number_per_seed() -> None:
    steps: list[int] = []
    found = measure(CLUSTER, "hpa", [0, 1], steps.append)
    assert sum(steps) == 5
    assert found.unrelated_apps <= found.bystander_apps < CLUSTER.apps
    for values in (found.stampede_s, found.cascade_s, found.bystander_minutes, found.p0_wait_ticks):
        assert len(values) == 2
