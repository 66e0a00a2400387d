"""`hirl world failures`: the three failure modes under a controller, with their figures.

A bystander is an app that no call path leads to from the apps that spike; an unrelated one does
not call them either, so that only shared nodes can connect the two. What the spike did to them is
their violations minus those of the same seed without the spike: the same traffic, deploys and
faults happen in both runs.
"""

from collections.abc import Callable, Sequence
from typing import Annotated

import msgspec
import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from models.compare.catalogue import enter, entrant_of
from models.sim.accounting import MINUTES, P0_WAIT_TICKS, P3_HELD, P3_HELD_OF_P0_POOLS
from models.sim.apps import Calls
from models.sim.describe.events import Deploy, Traffic
from models.sim.describe.physics import SimCluster, load_sim_cluster
from models.sim.describe.scenario import Scenario, load_scenario
from models.sim.describe.targeting import select
from models.sim.outcome.results import quantile_s
from models.sim.population.calls import reachable
from models.sim.population.generate import generate
from models.sim.world import World
from services.cli.named_options import ControllerOption
from services.cli.options import ClusterOption, JsonOption
from services.cli.output import progress, table, write_json

STAMPEDE, CASCADE = "flash-sale-20-min-early", "cascade"
INVERSION, CALM = "priority-inversion", "calm"
EXAMPLES = (
    "Examples: [bold]hirl world failures[/bold], "
    "[bold]hirl world failures --seeds 10 --json failures.json[/bold]"
)
Mask = NDArray[np.bool_]
PerSeed = list[float]

SeedsOption = Annotated[
    int, typer.Option("--seeds", metavar="N", min=1, help="Seeds 0 to N-1, side by side.")
]


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """One number per seed; times are 95th percentiles from need to ready, in seconds."""

    controller: str
    seeds: int
    world_hash: dict[str, str]
    stampede_s: PerSeed
    """Pods of the domain whose sale it is."""
    cascade_s: PerSeed
    """Pods of the spiking domain and of the P0 domain that rolls deploys beside it."""
    bystander_apps: int
    bystander_minutes: PerSeed
    """Violation minutes an hour in the cascade, minus the same seed without the spike."""
    calm_minutes: PerSeed
    """Violation minutes an hour of the same apps on a calm day."""
    unrelated_apps: int
    unrelated_minutes: PerSeed
    unrelated_calm_minutes: PerSeed
    """The same three for the bystanders that do not call the spiking apps."""
    p3_share_while_p0_waits: PerSeed
    """Of the whole cluster's ready CPU."""
    p3_share_of_p0_pools_while_p0_waits: PerSeed
    """Of the ready CPU in the pools that the waiting pods may use."""
    p0_wait_ticks: PerSeed


def failures(
    controller: ControllerOption = "hpa",
    seeds: SeedsOption = 6,
    cluster: ClusterOption = None,
    json: JsonOption = None,
) -> None:
    """Measure stampede, cascade and priority inversion under a controller."""
    entrant_of(controller)
    described = load_sim_cluster(cluster)
    console = Console()
    with progress("stampede, cascade with and without its spike, inversion, calm", 5) as advance:
        found = measure(described, controller, range(seeds), advance)
    console.print(_table(found))
    if json is not None:
        write_json(json, found)


def measure(
    cluster: SimCluster, controller: str, seeds: Sequence[int], advance: Callable[[int], None]
) -> Figures:
    """Run the scenarios that show the failures and take their figures."""
    population = generate(cluster)

    def play(scenario: Scenario) -> World:
        contest = enter(controller, cluster, scenario, seeds, population)
        contest.play()
        advance(1)
        return contest.world

    stampede = play(load_scenario(STAMPEDE, cluster))
    cascade = play(load_scenario(CASCADE, cluster))
    without = play(without_spikes(cascade.scenario))
    inversion = play(load_scenario(INVERSION, cluster))
    calm = play(load_scenario(CALM, cluster))
    spiking = spiking_apps(cascade)
    bystander = ~reachable(population.calls, spiking.size, spiking)
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
    return calls._replace(caller=calls.callee[::-1], callee=calls.caller[::-1])


def without_spikes(scenario: Scenario) -> Scenario:
    """The same day without its traffic events."""
    kept = tuple(event for event in scenario.events if not isinstance(event, Traffic))
    return msgspec.structs.replace(scenario, events=kept)


def spiking_apps(world: World) -> Mask:
    """[apps] whose traffic the scenario raises."""
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


def _table(found: Figures) -> Table:
    rows = [
        _row("stampede: need to ready, p95, s", found.stampede_s, "180 to 240"),
        _row("cascade: need to ready, p95, s", found.cascade_s, "240 to 480"),
        _row("cascade: bystander violation minutes an hour", found.bystander_minutes, ""),
        _row("calm: the same apps' violation minutes an hour", found.calm_minutes, ""),
        _ratio("cascade over calm, bystanders", found.bystander_minutes, found.calm_minutes),
        _row(f"the same, {found.unrelated_apps} unrelated apps", found.unrelated_minutes, ""),
        _row("calm: unrelated apps", found.unrelated_calm_minutes, ""),
        _ratio(
            "cascade over calm, unrelated", found.unrelated_minutes, found.unrelated_calm_minutes
        ),
        _row(
            "inversion: P3's share of the cluster while P0 waits, %",
            _percent(found.p3_share_while_p0_waits),
            "about 18",
        ),
        _row(
            "inversion: P3's share of the pools P0 waits for, %",
            _percent(found.p3_share_of_p0_pools_while_p0_waits),
            "",
        ),
        _row("inversion: ticks in which P0 waits", found.p0_wait_ticks, "above 0"),
    ]
    title = f"{found.controller}, seeds 0 to {found.seeds - 1}, {found.bystander_apps} bystanders"
    return table(title, ("failure", "mean", "over seeds", "expected"), rows)


def _row(label: str, values: PerSeed, expected: str) -> tuple[str, str, str, str]:
    return label, f"{np.mean(values):.1f}", f"{min(values):.1f} to {max(values):.1f}", expected


def _ratio(label: str, spike: PerSeed, calm: PerSeed) -> tuple[str, str, str, str]:
    return label, f"{np.mean(spike) / max(1e-9, float(np.mean(calm))):.1f}", "", "at least 5"


def _percent(shares: PerSeed) -> PerSeed:
    return [100 * share for share in shares]
