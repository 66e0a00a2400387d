"""The three failure modes under a controller: stampede, cascade and priority inversion.

A bystander is an app that no call path leads to from the spiking apps. An unrelated app does not
call them either, so only shared nodes connect the two. The effect of the spike on an app is its
violation minutes minus those of the same seed without the spike: both runs have the same traffic,
deploys and faults.
"""

from collections.abc import Callable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from models.cluster.arrays import Mask
from models.compare.catalogue import enter
from models.sim.accounting import MINUTES, P0_WAIT_TICKS, P3_HELD, P3_HELD_OF_P0_POOLS
from models.sim.apps import Calls
from models.sim.config.events import Deploy, Traffic
from models.sim.config.physics import SimCluster
from models.sim.config.scenario import Scenario, load_scenario
from models.sim.config.targeting import select
from models.sim.population.calls import reachable
from models.sim.population.generate import generate
from models.sim.results.summary import quantile_s
from models.sim.world import World

# The shipped scenario that is made to show each failure, and a day without any.
STAMPEDE, CASCADE = "flash-sale-20-min-early", "cascade"
INVERSION, CALM = "priority-inversion", "calm"
PerSeed = list[float]


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """One number per seed; times are 95th percentiles from need to ready, in seconds."""

    controller: str
    seeds: int
    world_hash: dict[str, str]
    stampede_s: PerSeed
    """Pods of the domain with the sale."""
    cascade_s: PerSeed
    """Pods of the spiking domain and of the P0 domain that rolls deploys meanwhile."""
    bystander_apps: int
    bystander_minutes: PerSeed
    """Violation minutes per hour in the cascade, minus those of the same seed without the spike."""
    calm_minutes: PerSeed
    """Violation minutes per hour of the same apps on a calm day."""
    unrelated_apps: int
    unrelated_minutes: PerSeed
    unrelated_calm_minutes: PerSeed
    """The same for bystanders that do not call the spiking apps."""
    p3_share_while_p0_waits: PerSeed
    """Of the whole cluster's ready CPU."""
    p3_share_of_p0_pools_while_p0_waits: PerSeed
    """Of the ready CPU in the pools that the waiting pods may use."""
    p0_wait_ticks: PerSeed


def measure(
    cluster: SimCluster, controller: str, seeds: Sequence[int], advance: Callable[[int], None]
) -> Figures:
    """Run the scenarios that show the failures and compute their figures."""
    population = generate(cluster)

    def play(scenario: Scenario) -> World:
        match = enter(controller, cluster, scenario, seeds, population)
        match.play()
        advance(1)
        return match.world

    stampede = play(load_scenario(STAMPEDE, cluster))
    cascade = play(load_scenario(CASCADE, cluster))
    # Deploys, faults and noise are functions of the seed, so the two runs differ by the spike only.
    without = play(without_spikes(cascade.scenario))
    inversion = play(load_scenario(INVERSION, cluster))
    calm = play(load_scenario(CALM, cluster))
    spiking = spiking_apps(cascade)
    bystander = ~reachable(population.calls, spiking.size, spiking)
    # Callers of the spiking apps suffer through their calls, not through shared nodes.
    unrelated = bystander & ~reachable(_reversed(population.calls), spiking.size, spiking)
    return Figures(
        controller=controller,
        seeds=len(seeds),
        world_hash={w.scenario.name: w.hash for w in (stampede, cascade, inversion, calm)},
        stampede_s=_slow_starts(stampede, _hit_domains(stampede, (Traffic,))[:1]),
        cascade_s=_slow_starts(cascade, _hit_domains(cascade, (Traffic, Deploy))[:2]),
        bystander_apps=int(bystander.sum()),
        bystander_minutes=(_hourly(cascade, bystander) - _hourly(without, bystander)).tolist(),
        calm_minutes=_hourly(calm, bystander).tolist(),
        unrelated_apps=int(unrelated.sum()),
        unrelated_minutes=(_hourly(cascade, unrelated) - _hourly(without, unrelated)).tolist(),
        unrelated_calm_minutes=_hourly(calm, unrelated).tolist(),
        p3_share_while_p0_waits=_while_p0_waits(inversion, P3_HELD),
        p3_share_of_p0_pools_while_p0_waits=_while_p0_waits(inversion, P3_HELD_OF_P0_POOLS),
        p0_wait_ticks=inversion.accounts.totals[:, P0_WAIT_TICKS].tolist(),
    )


def _reversed(calls: Calls) -> Calls:
    # In reverse order, too: `reachable` expects edges into an app before those out of it.
    return calls._replace(caller=calls.callee[::-1], callee=calls.caller[::-1])


def without_spikes(scenario: Scenario) -> Scenario:
    """The same scenario without its traffic events."""
    kept = tuple(event for event in scenario.events if not isinstance(event, Traffic))
    return msgspec.structs.replace(scenario, events=kept)


def spiking_apps(world: World) -> Mask:
    """[apps] Whether the scenario raises an app's traffic."""
    apps = world.population.apps
    spikes = [event for event in world.scenario.events if isinstance(event, Traffic)]
    masks = [select(event.target, event.name, world.cluster, apps) for event in spikes]
    chosen: Mask = np.logical_or.reduce(masks)
    return chosen


def _hit_domains(world: World, kinds: tuple[type[Traffic] | type[Deploy], ...]) -> list[int]:
    """Domains that events of these kinds name, in the order of the events."""
    names = [
        name
        for event in world.scenario.events
        if isinstance(event, kinds)
        for name in event.target.domains
    ]
    return [world.cluster.domain_names.index(name) for name in dict.fromkeys(names)]


def _slow_starts(world: World, domains: list[int]) -> PerSeed:
    waits = world.accounts.waits[:, domains].sum(axis=1)
    return [quantile_s(row, 0.95, float(world.cluster.tick_seconds)) for row in waits]


def _hourly(world: World, apps: Mask) -> NDArray[np.float64]:
    """[E] violation minutes of these apps per hour."""
    hours = world.accounts.totals[:, MINUTES] / 60
    minutes: NDArray[np.float64] = world.accounts.violation_minutes[:, apps].sum(axis=1)
    return minutes / hours


def _while_p0_waits(world: World, total: int) -> PerSeed:
    """Mean over the ticks in which P0 waits."""
    totals = world.accounts.totals
    means: PerSeed = (totals[:, total] / totals[:, P0_WAIT_TICKS].clip(1)).tolist()
    return means
