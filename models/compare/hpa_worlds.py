"""Worlds that HPA scales, for checks and measurements that need some controller."""

import hashlib
from collections.abc import Callable

from models.baselines.hpa.simulated import Hpa, HpaState, hpa_of
from models.sim.config.events import (
    Crash,
    Deploy,
    Event,
    Inventory,
    Leak,
    MetricsOutage,
    Mix,
    Payload,
    SpotReclaim,
    Target,
    Traffic,
    ZoneLoss,
)
from models.sim.config.physics import SimCluster, load_sim_cluster, with_apps
from models.sim.config.scenario import Scenario, load_scenario
from models.sim.world import World

Watch = Callable[[World], None]


class HpaWorld:
    """A world and the HPA that scales it."""

    def __init__(self, world: World, hpa: Hpa | None = None) -> None:
        self.world = world
        self.hpa = hpa or hpa_of(world)
        self.memory: HpaState = self.hpa.start(world.observe(self.hpa.pipeline))

    def run(self, ticks: int, watch: Watch | None = None) -> None:
        """Advance; call `watch` with the world after each tick."""
        for _ in range(ticks):
            observation = self.world.observe(self.hpa.pipeline)
            plan, self.memory = self.hpa.step(observation, None, self.memory)
            self.world.step(plan)
            if watch is not None:
                watch(self.world)


def copy_memory(memory: HpaState) -> HpaState:
    """An independent copy, to restore together with a saved world."""
    # A step overwrites the memory in place, so keeping a reference would not be enough.
    return HpaState(*(part.copy() for part in memory))


def digest(world: World, environment: int | None = None) -> str:
    """A fingerprint of the state and accounts of a world, or of one environment."""
    sha = hashlib.sha256()
    for array in (*world.state, *world.accounts):
        part = array if environment is None else array[environment]
        sha.update(part.tobytes())
    return sha.hexdigest()[:16]


def digest_of_run(apps: int, seeds: list[int], ticks: int, scenario: str = "cascade") -> str:
    """The fingerprint after a run; another process must reproduce it."""
    cluster = with_apps(load_sim_cluster(), apps)
    hpa_world = HpaWorld(World(cluster, load_scenario(scenario, cluster), seeds))
    hpa_world.run(ticks)
    return digest(hpa_world.world)


def busy_world(cluster: SimCluster, envs: int) -> World:
    """An hour with an event of every kind, in `envs` environments."""
    return World(cluster, busy_scenario(cluster), list(range(envs)))


def busy_scenario(cluster: SimCluster) -> Scenario:
    """The scenario of the busy world."""
    return Scenario(
        name="everything",
        shows="What a tick costs when every mechanism has something to do.",
        start="Tue 14:00",
        length_minutes=60,
        warmup_minutes=0,
        events=_events(cluster),
    )


def _events(cluster: SimCluster) -> tuple[Event, ...]:
    first, *_, last = (Target(domains=(name,)) for name in cluster.domain_names)
    few = Target(domains=cluster.domain_names, share=0.05)
    return (
        Traffic(name="spike", target=first, factor=2.0, at_minute=10.0, hold_minutes=5.0),
        Payload(name="slow", target=few, factor=2.0, at_minute=12.0, hold_minutes=5.0),
        Mix(name="export", target=few, from_type="api", to_type="batch", share=0.3,
            at_minute=14.0, hold_minutes=5.0),
        Deploy(name="release", target=last, at_minute=15.0, over_minutes=10.0),
        MetricsOutage(name="zero", target=few, pipeline="exporter", mode="zero",
                      at_minute=18.0, length_minutes=10.0),
        Leak(name="leak", target=few, requests_per_hour=6.0, at_minute=8.0, length_minutes=20.0),
        Crash(name="crash", target=few, share_per_minute=0.2, at_minute=13.0, length_minutes=8.0),
        SpotReclaim(name="spot", share=0.5, at_minute=20.0),
        ZoneLoss(name="zone", zone=cluster.physics.zones[0], at_minute=35.0, length_minutes=5.0),
        Inventory(name="gone", target=Target(apps=(1,)), change="vanish", at_minute=22.0),
    )  # fmt: skip
