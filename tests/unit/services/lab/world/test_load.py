"""The second world serves requests as the simulator does, when the pods are the same."""

import numpy as np
import pytest

from models.cluster import rows
from models.cluster.observation import Pipeline
from models.inputs.errors import InputError
from models.sim.config.scenario import load_scenario
from models.sim.world import World
from services.lab.world.load import Load, Pods, PoolNodes, lab_cluster

CLUSTER = lab_cluster(10, 100)
SCENARIO = load_scenario("infra/lab/scenarios/flash-sale.yaml", CLUSTER)
TICKS = 120


def pods_of(world: World) -> Pods:
    status, placed = world.state.status[0].copy(), world.state.placed[0].copy()
    ready = placed.sum(axis=0) - status[rows.STARTING]
    return Pods(status[rows.REPLICAS], ready, status[rows.PENDING], placed)


def nodes_of(world: World) -> dict[str, PoolNodes]:
    ready = world.state.pool["ready"][0].tolist()
    return {
        name: PoolNodes(count, 0, 1000, 1024)
        for name, count in zip(CLUSTER.pool_names, ready, strict=True)
    }


def test_equal_pods_give_equal_samples_and_equal_violations() -> None:
    world, load = World(CLUSTER, SCENARIO, [7]), Load(CLUSTER, SCENARIO, 7)
    for tick in range(TICKS):
        plan = world.hold()
        # Pods that come and go, so that some are cold.
        plan.replicas[:] += (tick // 20) % 2 + 1 if tick % 20 == 0 else 0
        world.step(plan)
        load.step(pods_of(world), nodes_of(world))
        for pipeline in Pipeline:
            expected, found = world.observe(pipeline), load.observe(pipeline)
            np.testing.assert_array_equal(found.measured, expected.measured)
            np.testing.assert_array_equal(found.status, expected.status)
    np.testing.assert_array_equal(load.world.accounts.domain_minutes, world.accounts.domain_minutes)
    assert load.world.accounts.domain_minutes.sum() > 0


def test_what_is_observed_of_pools_is_what_there_is() -> None:
    load = Load(CLUSTER, SCENARIO, 7)
    found = {name: PoolNodes(3, 2, 2500, 4096) for name in CLUSTER.pool_names}
    load.step(pods_of(load.world), found)
    pool = load.observe(Pipeline.OURS).pool[0][0]
    assert (pool["ready"], pool["coming"], pool["free_cpu"], pool["free_memory"]) == (3, 2, 2.5, 4)


def test_a_scenario_that_moves_pods_is_refused() -> None:
    with pytest.raises(InputError, match="ZoneLoss cannot be played"):
        Load(CLUSTER, load_scenario("zone-loss", CLUSTER), 0)


def test_rollouts_begin_at_the_ticks_of_the_simulators_deploys() -> None:
    scenario = load_scenario("infra/lab/scenarios/cascade.yaml", CLUSTER)
    load = Load(CLUSTER, scenario, 7)
    due = load.world.given.script.deploy_tick[0].tolist()
    found: dict[int, int] = {}
    while not load.finished:
        found |= dict.fromkeys(load.deploys(), load.world.tick)
        load.world.state.env["tick"] += 1
    assert found == {app: tick for app, tick in enumerate(due) if tick >= 0}
    assert found
