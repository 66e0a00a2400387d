"""The rules engine: which priorities yield, how far, and for how long."""

from typing import NamedTuple

import numpy as np
import pytest

from models.baselines.hpa.simulated import Hpa
from models.baselines.rules import Parameters, RulesEngine, RulesState, overflow_pools
from models.cluster import rows
from models.cluster.inventory import Inventory
from models.cluster.observation import Observation, Pipeline
from models.cluster.plan import Plan
from models.sim.apps import declare
from models.sim.config.physics import load_sim_cluster, with_apps
from models.sim.config.scenario import load_scenario
from models.sim.observe import empty_observation
from models.sim.world import World

APPS = 40
BUSY, IDLE = 1.0, 0.05


class Bench(NamedTuple):
    """A rules engine and an observation that a test fills: 40 apps of 20 pods of one core."""

    rules: RulesEngine
    inventory: Inventory
    observation: Observation

    @property
    def priority(self) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        return self.inventory.priority[self.inventory.domain]

    def show(self, utilisation: float) -> None:
        status = self.observation.status
        for row in (rows.REPLICAS, rows.READY):
            status[:, row] = 20
        status[:, (rows.STARTING, rows.PENDING)] = 0
        status[:, rows.CPU_REQUEST], status[:, rows.DOMAIN] = 1000, self.inventory.domain
        self.observation.measured[:, rows.PODS] = 20
        self.observation.measured[:, rows.CPU] = 20 * utilisation * self.inventory.saturation
        self.observation.missing[:] = 0
        self.observation.pool["free_cpu"] = 1e6

    def add_waiting(self, priority: int, pods: int = 1) -> None:
        self.observation.status[:, rows.PENDING] = np.where(self.priority == priority, pods, 0)

    def steps(self, state: RulesState, first: int, last: int) -> tuple[Plan, RulesState]:
        """Apply every plan; the last one is returned."""
        for tick in range(first, last):
            self.observation.tick[:] = tick
            plan, state = self.rules.step(self.observation, None, state)
            self.observation.status[:, rows.REPLICAS] = plan.replicas
        return plan, state


def bench(**values: float) -> Bench:
    cluster = with_apps(load_sim_cluster(), APPS)
    world = World(cluster, load_scenario("calm", cluster), [0])
    inventory = declare(world.population, cluster)._replace(
        min_replicas=np.full(APPS, 4, np.int32), max_replicas=np.full(APPS, 400, np.int32)
    )
    blank = empty_observation(world.state)
    observation = blank._replace(status=world.state.status.copy())
    made = Bench(
        RulesEngine(inventory, world.layout.pools, Parameters(**values)), inventory, observation
    )
    made.show(BUSY)
    return made


def grown(test: Bench, waiting: int | None) -> list[bool]:
    """By priority: whether all of its busy apps have grown after three minutes."""
    state = test.rules.start(test.observation)
    if waiting is not None:
        test.add_waiting(waiting)
        test.observation.measured[:, rows.CPU] = 20 * IDLE
        _, state = test.steps(state, 0, 6)
        test.show(BUSY)
        test.add_waiting(waiting)
    plan, _ = test.steps(state, 6, 24)
    more = plan.replicas[0] > 20
    return [bool(more[test.priority == priority].all()) for priority in range(4)]


def test_every_app_grows_while_no_pod_waits() -> None:
    assert grown(bench(), None) == [True, True, True, True]


@pytest.mark.parametrize(
    ("waiting", "grow"),
    [
        (0, [True, True, False, False]),
        (1, [True, True, False, False]),
        (2, [True, True, True, False]),
        (3, [True, True, True, True]),
    ],
)
def test_p2_and_p3_stop_growing_while_a_higher_priority_waits(
    waiting: int, grow: list[bool]
) -> None:
    assert grown(bench(shed_step=0.0), waiting) == grow


def test_p3_releases_replicas_in_steps_down_to_its_floor_while_p0_waits() -> None:
    test = bench(shed_step=0.1, shed_floor=0.5)
    state = test.rules.start(test.observation)
    test.show(Parameters().target_p3)
    test.add_waiting(0)
    lowest = []
    for minute in range(12):
        plan, state = test.steps(state, 6 * minute, 6 * minute + 6)
        lowest.append(int(plan.replicas[0][test.priority == 3].min()))
    assert lowest[0] == 20  # patience
    assert lowest[1:4] == [18, 16, 14]
    assert lowest[-1] == 10
    assert (plan.replicas[0][test.priority == 2] == 20).all()


def test_a_few_waiting_pods_cause_no_pressure() -> None:
    test = bench(pressing_share=0.5)
    state = test.rules.start(test.observation)
    test.add_waiting(0)
    plan, _ = test.steps(state, 0, 24)
    assert (plan.replicas[0][test.priority == 3] > 20).all()


def test_p3_grows_again_after_the_release_time() -> None:
    test = bench(release_s=60.0, shed_step=0.0)
    state = test.rules.start(test.observation)
    test.add_waiting(0)
    _, state = test.steps(state, 0, 6)
    test.show(BUSY)
    held, state = test.steps(state, 6, 10)
    assert (held.replicas[0][test.priority == 3] <= 20).all()
    freed, _ = test.steps(state, 10, 24)
    assert (freed.replicas[0][test.priority == 3] > 20).all()


def test_p0_takes_larger_steps_while_its_domain_waits() -> None:
    plain, boosted = bench(boost=1.0), bench(boost=2.0)
    most = []
    for test in (plain, boosted):
        state = test.rules.start(test.observation)
        test.show(0.62)
        test.add_waiting(0)
        _, state = test.steps(state, 0, 4)
        test.show(0.9)
        test.add_waiting(0)
        plan, _ = test.steps(state, 4, 7)
        most.append(plan.replicas[0][test.priority == 0])
    assert (most[1] >= most[0]).all()
    assert (most[1] > most[0]).any()


def test_lower_targets_give_p0_more_replicas_than_p3() -> None:
    test = bench()
    plan, _ = test.steps(test.rules.start(test.observation), 0, 3)
    p0, p3 = (plan.replicas[0][test.priority == priority] for priority in (0, 3))
    assert p0.min() > p3.max()


def test_spare_nodes_are_requested_once_in_the_overflow_pool() -> None:
    test = bench(headroom_p0=0.5, headroom_p1=0.0)
    state = test.rules.start(test.observation)
    test.observation.pool["free_cpu"] = 0
    plan, state = test.steps(state, 0, 1)
    shared = int(overflow_pools(test.inventory)[0])
    wanted = int(plan.nodes[0, shared, 0])
    assert wanted > 0
    assert plan.nodes.sum() == wanted
    test.observation.pool["coming"][0, shared] = wanted
    plan, _ = test.steps(state, 1, 2)
    assert plan.nodes.sum() == 0


def test_replicas_stay_within_the_declared_bounds() -> None:
    test = bench(boost=2.0, shed_floor=0.2, shed_step=0.4)
    state = test.rules.start(test.observation)
    for level in (BUSY, IDLE):
        test.observation.measured[:, rows.CPU] = 20 * level
        test.add_waiting(0)
        plan, state = test.steps(state, int(state.pressed.max(initial=0)), 120)
        assert plan.replicas.min() >= 4
        assert plan.replicas.max() <= 400


def test_zero_samples_count_as_valid_like_in_hpa() -> None:
    test = bench()
    plain = Hpa(test.inventory, test.inventory.pool_cpu.size, test.inventory.tick_s)
    assert test.rules.pipeline == plain.pipeline == Pipeline.HPA
    state = test.rules.start(test.observation)
    test.observation.measured[:, rows.CPU] = 0.0
    plan, _ = test.steps(state, 0, 60)
    assert (plan.replicas == 4).all()
