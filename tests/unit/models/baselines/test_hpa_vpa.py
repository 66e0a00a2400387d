"""HPA and VPA both on CPU: which one decides what, and the known feedback between them."""

from functools import cache
from typing import NamedTuple

import numpy as np

from models.baselines.hpa.simulated import Hpa
from models.baselines.hpa_vpa import HpaVpa, Parameters, hpa_vpa_of
from models.baselines.vpa import Parameters as VpaParameters
from models.baselines.vpa import Vpa
from models.cluster import rows
from models.cluster.observation import Pipeline
from models.compare.run import run
from models.sim.config.physics import load_sim_cluster, with_apps
from models.sim.config.scenario import Scenario
from models.sim.world import World

TARGET = 0.6
QUICK_H = 0.2
"""A half-life of 12 minutes shows in hours what takes days with VPA's own."""


def make_world(minutes: int) -> World:
    scenario = Scenario(
        name="long", shows="Nothing.", start="Mon 10:00", length_minutes=minutes, warmup_minutes=0
    )
    return World(with_apps(load_sim_cluster(), 40), scenario, [0])


class Pods(NamedTuple):
    """Of the apps that VPA sizes."""

    replicas: int
    cpu: float
    """Median request over that of the start."""


@cache
def after(minutes: int, together: bool) -> Pods:
    world = make_world(minutes)
    inventory = world.inventory
    first = world.state.status[0, rows.CPU_REQUEST].copy()
    both = hpa_vpa_of(world, Parameters(target=TARGET, half_life_h=QUICK_H))
    alone = Hpa(inventory, world.layout.pools, inventory.tick_s, target=TARGET)
    if together:
        run(world, both)
    else:
        run(world, alone)
    sized = inventory.saturation[0] >= VpaParameters().least_saturation
    status = world.state.status[0][:, sized]
    return Pods(
        int(status[rows.REPLICAS].sum()), float(np.median(status[rows.CPU_REQUEST] / first[sized]))
    )


def test_hpa_decides_replicas_and_vpa_decides_cpu_requests() -> None:
    world = make_world(5)
    inventory, pools = world.inventory, world.layout.pools
    both = HpaVpa(inventory, pools)
    hpa, vpa = Hpa(inventory, pools, inventory.tick_s), Vpa(inventory, pools, None, Pipeline.HPA)
    observation = world.observe(both.pipeline)
    states = both.start(observation), hpa.start(observation), vpa.start(observation)
    for _ in range(20):
        observation = world.observe(both.pipeline)
        plan, joint = both.step(observation, None, states[0])
        out, horizontal = hpa.step(observation, None, states[1])
        up, vertical = vpa.step(observation, None, states[2])
        states = joint, horizontal, vertical
        assert (plan.replicas == out.replicas).all()
        assert (plan.cpu == up.cpu).all()
        assert (plan.memory == observation.status[:, rows.MEMORY_REQUEST]).all()
        world.step(plan)


def test_together_they_shrink_pods_and_multiply_them() -> None:
    hour, hours = after(60, together=True), after(240, together=True)
    assert hours.cpu < hour.cpu < 1.0
    assert hours.cpu < 0.6
    assert hours.replicas > 1.5 * after(240, together=False).replicas


def test_hpa_alone_leaves_requests_unchanged() -> None:
    assert after(240, together=False).cpu == 1.0
