"""The practitioner: triggers by priority, spare nodes, and floors for announced events."""

from typing import NamedTuple

import numpy as np
import pytest

from models.baselines.practitioner import Parameters, Practitioner, PractitionerState
from models.baselines.triggers import MEASURED_MIN
from models.cluster import rows
from models.cluster.calendar import Announcement
from models.cluster.inventory import Inventory
from models.cluster.observation import Observation
from models.cluster.plan import Plan
from models.sim.config.physics import load_sim_cluster, with_apps
from models.sim.config.scenario import load_scenario
from models.sim.observe import empty_observation
from models.sim.world import World

APPS, PODS, RPS = 40, 20, 400.0
TICKS = 6 * MEASURED_MIN
"""Ticks until the triggers on request rate have a target."""
TARGETS = (0.5, 0.6, 0.75, 0.85)


class Bench(NamedTuple):
    """A practitioner and an observation that a test fills: apps of 20 pods of one core."""

    practitioner: Practitioner
    inventory: Inventory
    observation: Observation

    def show(self, utilisation: float, rps: float = RPS) -> None:
        """Every pod uses that share of its declared saturation."""
        status, measured = self.observation.status, self.observation.measured
        status[:, rows.READY] = status[:, rows.REPLICAS]
        measured[:, rows.CPU] = PODS * utilisation * self.inventory.saturation
        measured[:, rows.RPS] = rps
        self.observation.missing[:] = 0

    def run(
        self, state: PractitionerState, first: int, last: int
    ) -> tuple[Plan, PractitionerState]:
        """Apply every plan; the last one is returned."""
        for tick in range(first, last):
            self.observation.tick[:] = tick
            plan, state = self.practitioner.step(self.observation, None, state)
            self.observation.status[:, rows.REPLICAS] = plan.replicas
        return plan, state

    def replicas(self, priority: int) -> list[int]:
        chosen = self.inventory.priority[self.inventory.domain] == priority
        return sorted(set(self.observation.status[0, rows.REPLICAS, chosen].tolist()))


def bench(*announced: Announcement, **values: float) -> Bench:
    cluster = with_apps(load_sim_cluster(), APPS)
    world = World(cluster, load_scenario("calm", cluster), [0])
    inventory = world.inventory._replace(
        min_replicas=np.full(APPS, 2, np.int32),
        max_replicas=np.full(APPS, 400, np.int32),
        saturation=np.full(APPS, 0.8, np.float32),
    )
    status = world.state.status.copy()
    status[:, (rows.STARTING, rows.PENDING)] = 0
    status[:, (rows.REPLICAS, rows.READY)] = PODS
    status[:, rows.CPU_REQUEST], status[:, rows.DOMAIN] = 1000, inventory.domain
    observation = empty_observation(world.state)._replace(status=status)
    observation.pool["ready"], observation.pool["free_cpu"] = 100, 1e4
    parameters = Parameters(**values)
    return Bench(
        Practitioner(inventory, world.layout.pools, announced, parameters), inventory, observation
    )


def settled(test: Bench, utilisation: float = 0.5) -> PractitionerState:
    test.show(utilisation)
    _, state = test.run(test.practitioner.start(test.observation), 0, TICKS)
    return state


def test_each_priority_has_its_own_target() -> None:
    test = bench()
    settled(test)
    for priority, target in enumerate(TARGETS):
        assert test.replicas(priority) == [int(np.ceil(PODS * 0.5 / target))]


def test_requests_scale_out_even_if_cpu_is_at_its_limit() -> None:
    test = bench()
    state = settled(test)
    test.show(0.5, rps=3 * RPS)
    test.run(state, TICKS, TICKS + 12)
    assert test.replicas(0) == [3 * PODS]


def test_heavier_requests_scale_out_by_cpu() -> None:
    test = bench()
    state = settled(test)
    test.show(1.0)
    test.run(state, TICKS, TICKS + 12)
    assert test.replicas(0) == [2 * PODS]


def test_an_exporter_that_answers_zero_does_not_scale_in_while_cpu_is_used() -> None:
    test = bench()
    state = settled(test)
    test.show(0.5, rps=0.0)
    test.run(state, TICKS, TICKS + 60)
    assert test.replicas(0) == [PODS]


def test_missing_samples_hold() -> None:
    test = bench()
    state = settled(test)
    test.observation.missing[:] = 1
    test.observation.measured[:] = 0
    test.run(state, TICKS, TICKS + 60)
    assert test.replicas(0) == [PODS]


@pytest.mark.parametrize(("stabilisation_s", "held"), [(60.0, False), (600.0, True)])
def test_scaling_in_waits_for_the_window(stabilisation_s: float, held: bool) -> None:
    test = bench(stabilisation_s=stabilisation_s)
    state = settled(test)
    test.show(0.2, rps=0.4 * RPS)
    test.run(state, TICKS, TICKS + 24)
    assert (test.replicas(0) == [PODS]) == held


def test_a_floor_holds_from_the_lead_to_the_announced_end() -> None:
    start, end = TICKS + 120, TICKS + 180
    sale = Announcement("sale", (0,), start, end, 2.0)
    test = bench(sale, lead_min=10.0, stabilisation_s=60.0)
    state = settled(test)
    named = test.inventory.domain == 0
    _, state = test.run(state, TICKS, start - 60)
    assert set(test.observation.status[0, rows.REPLICAS, named]) == {PODS}
    # Two ticks of three have a sync.
    _, state = test.run(state, start - 60, start - 54)
    assert set(test.observation.status[0, rows.REPLICAS, named]) == {2 * PODS}
    others = set(test.observation.status[0, rows.REPLICAS, ~named].tolist())
    _, state = test.run(state, start - 54, end)
    assert set(test.observation.status[0, rows.REPLICAS, named]) == {2 * PODS}
    assert set(test.observation.status[0, rows.REPLICAS, ~named].tolist()) == others
    test.run(state, end, end + 24)
    assert set(test.observation.status[0, rows.REPLICAS, named]) == {PODS}


def test_placeholders_request_the_room_that_they_lack_and_keep_what_they_hold() -> None:
    test = bench(spare_share=0.1)
    pool, cpu = test.observation.pool, test.inventory.pool_cpu
    # 90 nodes are used: placeholders want nine more.
    for free, coming, nodes, keep in ((2, 0, 7, 92), (2, 7, 0, 92), (30, 0, 0, 99)):
        pool["ready"], pool["coming"], pool["free_cpu"] = 90 + free, coming, free * cpu
        test.show(0.5)
        plan, _ = test.practitioner.step(
            test.observation, None, test.practitioner.start(test.observation)
        )
        assert set(plan.nodes[0, :, 3].tolist()) == {nodes}
        assert plan.nodes[0, :, :3].sum() == 0
        assert set(plan.keep[0].tolist()) == {keep}
