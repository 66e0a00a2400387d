"""The clairvoyant: better than HPA in a spike, deterministic, and within the declared bounds."""

import numpy as np
import pytest

from models.baselines.clairvoyant.controller import clairvoyant_of
from models.baselines.clairvoyant.need import deploying
from models.baselines.clairvoyant.nodes import due_nodes
from models.baselines.hpa.simulated import hpa_of
from models.cluster import rows
from models.compare.run import run
from models.control.controller import Controller
from models.sim.config.events import Deploy, Target, Traffic
from models.sim.config.scenario import Scenario
from models.sim.results.summary import Result, summarise
from models.sim.world import World
from tests.unit.models.forecaster.observations import PER_MINUTE, world_of

SPIKE = Traffic(
    name="spike", target=Target(domains=("payments",)), at_minute=10, jitter_minutes=2,
    factor=1.8, ramp_minutes=1, hold_minutes=6, decay_minutes=2,
)  # fmt: skip
RELEASE = Deploy(name="release", target=Target(apps=(0, 1)), at_minute=3)
SCENARIO = Scenario(
    name="surprise", shows="An unannounced spike.", start="Tue 10:00", length_minutes=22,
    warmup_minutes=4, events=(SPIKE, RELEASE),
)  # fmt: skip


def _played(controller: Controller[None], world: World) -> list[Result]:
    return summarise(world, controller.name, run(world, controller))


@pytest.fixture(scope="module")
def results() -> list[Result]:
    world = world_of(SCENARIO, (0, 1))
    return _played(clairvoyant_of(world), world)


def test_it_beats_hpa_in_an_unannounced_spike(results: list[Result]) -> None:
    reacting = world_of(SCENARIO, (0, 1))
    others = summarise(reacting, "hpa", run(reacting, hpa_of(reacting)))
    for mine, other in zip(results, others, strict=True):
        assert mine.objective < other.objective
        assert mine.violation_minutes["P0"] < other.violation_minutes["P0"]


def test_its_result_depends_only_on_the_seed(results: list[Result]) -> None:
    world = world_of(SCENARIO, (1,))
    alone = _played(clairvoyant_of(world), world)
    assert alone[0].objective == results[1].objective


def test_it_changes_no_requests_and_stays_within_the_bounds() -> None:
    world = world_of(SCENARIO, (0,))
    controller, apps = clairvoyant_of(world), world.population.apps
    observation = world.observe(controller.pipeline)
    plan, _ = controller.step(observation, None, None)
    np.testing.assert_array_equal(plan.cpu, observation.status[:, rows.CPU_REQUEST])
    np.testing.assert_array_equal(plan.memory, observation.status[:, rows.MEMORY_REQUEST])
    assert (plan.replicas >= apps.min_replicas).all()
    assert (plan.replicas <= apps.max_replicas).all()


def test_it_foresees_scripted_deploys() -> None:
    world = world_of(SCENARIO, (0,))
    found = deploying(world, 26, PER_MINUTE)[0]
    begins = world.given.script.deploy_tick[0, :2] // PER_MINUTE
    for app, minute in enumerate(begins):
        # The minute after it began; when it ends depends on the pods.
        assert found[minute + 1 : minute + 2, app].all()


def test_nodes_are_requested_just_early_enough_for_the_launch_rate() -> None:
    short = np.array([[0.0, 0.0], [0.0, 2.0], [60.0, 2.0]])
    ahead = np.array([0, 6, 12], np.int32)
    assert due_nodes(short, ahead, per_tick=10.0).tolist() == [0, 0]
    assert due_nodes(short, ahead, per_tick=5.0).tolist() == [60, 2]
    assert due_nodes(short, ahead - 6, per_tick=10.0).tolist() == [60, 2]
