"""The PID loop settles, does not wind up, stays in its bounds and holds without a sample."""

from typing import NamedTuple

import numpy as np
import pytest

from models.baselines.pid import Parameters, Pid, PidState
from models.cluster import rows
from models.cluster.inventory import Inventory
from models.cluster.observation import Observation
from models.cluster.plan import Reason
from models.sim.config.physics import load_sim_cluster, with_apps
from models.sim.config.scenario import load_scenario
from models.sim.observe import empty_observation
from models.sim.world import World

APPS = 40
CORES = 1.0


class Plant(NamedTuple):
    """One observation that a test fills; every app has pods of one core."""

    inventory: Inventory
    observation: Observation
    pools: int

    def show(self, replicas: int, ready: int, utilisation: float) -> None:
        status, inventory = self.observation.status, self.inventory
        status[:, rows.REPLICAS], status[:, rows.READY] = replicas, ready
        status[:, rows.STARTING], status[:, rows.PENDING] = 0, replicas - ready
        status[:, rows.CPU_REQUEST] = 1000 * CORES
        self.observation.measured[:, rows.PODS] = ready
        self.observation.measured[:, rows.CPU] = utilisation * ready * CORES * inventory.saturation
        self.observation.missing[:] = 0


@pytest.fixture
def plant() -> Plant:
    cluster = with_apps(load_sim_cluster(), APPS)
    world = World(cluster, load_scenario("calm", cluster), [0])
    inventory = world.inventory._replace(
        min_replicas=np.full(APPS, 2, np.int32), max_replicas=np.full(APPS, 1000, np.int32)
    )
    blank = empty_observation(world.state)
    observation = blank._replace(status=world.state.status.copy())
    return Plant(inventory, observation, world.layout.pools)


def follow(plant: Plant, pid: Pid, demand: list[float], delay: int = 6) -> list[int]:
    """Replicas over time of a plant whose pods are ready `delay` ticks later."""
    plant.show(100, 100, demand[0] / 100)
    state = pid.start(plant.observation)
    wanted = [100] * delay
    for load in demand:
        ready = min(wanted[-delay:])
        plant.show(wanted[-1], min(ready, wanted[-1]), min(1.0, load / ready))
        plan, state = pid.step(plant.observation, None, state)
        wanted.append(int(plan.replicas[0, 0]))
    return wanted[delay:]


def test_after_a_step_the_loop_settles_near_its_setpoint(plant: Plant) -> None:
    pid = Pid(plant.inventory, plant.pools)
    replicas = follow(plant, pid, [63.0] * 10 + [100.0] * 300)
    settled = replicas[-60:]
    assert len(set(settled)) == 1
    assert 100.0 / settled[0] == pytest.approx(Parameters().setpoint, rel=0.15)
    assert max(replicas) < 1.35 * settled[0]


def test_steady_load_within_the_deadband_is_left_alone(plant: Plant) -> None:
    pid = Pid(plant.inventory, plant.pools)
    assert set(follow(plant, pid, [100 * Parameters().setpoint * 1.05] * 200)) == {100}


def test_the_integral_does_not_wind_up_while_pods_start(plant: Plant) -> None:
    pid = Pid(plant.inventory, plant.pools)
    plant.show(100, 100, 1.0)
    state = pid.start(plant.observation)
    plant.show(120, 100, 1.0)
    first, state = pid.step(plant.observation, None, state)
    integral = state.integral.copy()
    for _ in range(200):
        last, state = pid.step(plant.observation, None, state)
    assert (state.integral == integral).all()
    assert (last.replicas <= first.replicas).all()


def test_a_loop_at_its_bound_leaves_it_at_once(plant: Plant) -> None:
    pid = Pid(plant.inventory, plant.pools)
    plant.show(1000, 1000, 1.0)
    state = pid.start(plant.observation)
    for _ in range(500):
        plan, state = pid.step(plant.observation, None, state)
        assert (plan.replicas == 1000).all()
    plant.show(1000, 1000, 0.3)
    plan, _ = pid.step(plant.observation, None, state)
    assert (plan.replicas < 1000).all()


@pytest.mark.parametrize(("utilisation", "bound"), [(0.0, 2), (1.0, 1000)])
def test_replicas_stay_within_the_declared_bounds(
    plant: Plant, utilisation: float, bound: int
) -> None:
    pid = Pid(plant.inventory, plant.pools)
    plant.show(bound, bound, utilisation)
    state: PidState = pid.start(plant.observation)
    for _ in range(50):
        plan, state = pid.step(plant.observation, None, state)
        assert (plan.replicas == bound).all()


def test_without_a_sample_the_loop_holds_and_keeps_its_state(plant: Plant) -> None:
    pid = Pid(plant.inventory, plant.pools)
    plant.show(100, 100, 0.95)
    state = pid.start(plant.observation)
    plant.observation.missing[:] = 1
    plan, after = pid.step(plant.observation, None, state)
    assert (plan.replicas == 100).all()
    assert (plan.reason == int(Reason.HOLD_NO_METRICS)).all()
    assert (after.integral == state.integral).all()
