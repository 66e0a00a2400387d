"""A world in which everything happens, for whoever measures or recounts it."""

from models.sim.config.events import (
    Deploy,
    Event,
    Inventory,
    MetricsOutage,
    Mix,
    Payload,
    SpotReclaim,
    Target,
    Traffic,
    ZoneLoss,
)
from models.sim.config.physics import SimCluster
from models.sim.config.scenario import Scenario
from models.sim.world import World

_MINUTES = 60


def busy_world(cluster: SimCluster, envs: int) -> World:
    """An hour of a cluster with all of it."""
    return World(cluster, busy_scenario(cluster), list(range(envs)))


def busy_scenario(cluster: SimCluster) -> Scenario:
    """An hour with an event of every kind."""
    return Scenario(
        name="everything",
        shows="What a tick costs when every mechanism has something to do.",
        start="Tue 14:00",
        length_minutes=_MINUTES,
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
        MetricsOutage(name="zero", target=few, mode="zero", at_minute=18.0, length_minutes=10.0),
        SpotReclaim(name="spot", share=0.5, at_minute=20.0),
        ZoneLoss(name="zone", zone=cluster.physics.zones[0], at_minute=35.0, length_minutes=5.0),
        Inventory(name="gone", target=Target(apps=(1,)), change="vanish", at_minute=22.0),
    )  # fmt: skip
