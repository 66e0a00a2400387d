"""Worlds driven by an HPA, the way every check that needs a controller drives them."""

import hashlib
from collections.abc import Callable

from models.baselines.hpa.simulated import Hpa, HpaState
from models.compare.catalogue import hpa_of
from models.sim.config.physics import load_sim_cluster, with_apps
from models.sim.config.scenario import load_scenario
from models.sim.world import World

Watch = Callable[[World], None]


class Driven:
    """A world and the HPA that scales it."""

    def __init__(self, world: World, hpa: Hpa | None = None) -> None:
        self.world = world
        self.hpa = hpa or hpa_of(world)
        self.memory: HpaState = self.hpa.start(world.observe(self.hpa.pipeline))

    def run(self, ticks: int, watch: Watch | None = None) -> None:
        """Advance; `watch` looks at the world after each tick."""
        for _ in range(ticks):
            seen = self.world.observe(self.hpa.pipeline)
            plan, self.memory = self.hpa.step(seen, None, self.memory)
            self.world.step(plan)
            if watch is not None:
                watch(self.world)


def copy_memory(memory: HpaState) -> HpaState:
    """An independent copy, to go back to with a saved world."""
    return HpaState(*(part.copy() for part in memory))


def digest(world: World, environment: int | None = None) -> str:
    """A fingerprint of all that changes in a world, or in one of its environments."""
    sha = hashlib.sha256()
    for array in (*world.state, *world.accounts):
        part = array if environment is None else array[environment]
        sha.update(part.tobytes())
    return sha.hexdigest()[:16]


def digest_of_run(apps: int, seeds: list[int], ticks: int, scenario: str = "cascade") -> str:
    """The fingerprint after a run; what another process has to reproduce."""
    cluster = with_apps(load_sim_cluster(), apps)
    driven = Driven(World(cluster, load_scenario(scenario, cluster), seeds))
    driven.run(ticks)
    return digest(driven.world)
