"""How busy a cluster may be before one domain's spike harms unrelated apps.

The number of nodes is fixed, because the question is what the existing headroom absorbs. Requests
are tightened so that a full cluster is a busy one. Every domain rolls some deploys, because a
bystander that needs no new pods cannot be starved.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec.structs import replace

from models.baselines.hpa.simulated import Hpa
from models.cluster.arrays import F64, Mask
from models.compare.hpa_worlds import HpaWorld
from models.sim.accounting import CPU_CAPACITY, CPU_USED
from models.sim.apps import Population
from models.sim.config.events import Deploy, Target, Traffic
from models.sim.config.physics import SimCluster, load_sim_cluster, with_physics
from models.sim.config.scenario import Scenario
from models.sim.population.generate import generate, reachable
from models.sim.world import World
from models.validate.section import Check, Draw, Effort, Listing, Plot, Section

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_REQUEST_FACTOR = np.float32(0.77)
"""Requests over those of the example cluster; use and limits stay the same."""
_USE_OVER_PACKED = 0.907
"""CPU use under HPA over the share of node capacity that is requested at the start."""
_CASCADE_GROWTH = 0.25
"""A spike cascades when the bystanders' violation minutes grow by this share."""
_FACTOR, _FACTOR_JITTER = 1.8, 0.3
_RELEASED = 0.3
"""Share of the apps that roll a deploy within 15 minutes around the spike."""
_ABSORBED_AT_70, _CASCADING_AT_85 = 0.5, 0.8
_USE_TOLERANCE = 0.01
"""Largest difference between the CPU use that a level is named after and the measured one."""


class _Level(NamedTuple):
    """One cluster size."""

    utilisation: float
    """Measured without a spike."""
    growth: F64
    """[spikes] extra violation minutes of bystanders over those without the spike."""

    @property
    def cascading(self) -> float:
        return float((self.growth > _CASCADE_GROWTH).mean())


def examine(effort: Effort) -> Section:
    """Let one domain spike per run, in clusters of different sizes."""
    population = _tightened(generate(load_sim_cluster()))
    levels = [_level(u, population, effort) for u in effort.utilisations]
    by_use = dict(zip(effort.utilisations, levels, strict=True))
    # Every effort has these two levels.
    absorbed, cascading = 1 - by_use[0.70].cascading, by_use[0.85].cascading
    spikes = levels[0].growth.size
    apart = max(abs(level.utilisation - wanted) for wanted, level in by_use.items())
    checks = [
        Check("CPU use of the sweep, measured against wanted", f"{100 * apart:.1f} points apart",
              f"< {100 * _USE_TOLERANCE:.0f} point", apart < _USE_TOLERANCE),
        Check("spikes absorbed at 70 % CPU use", f"{absorbed:.0%} of {spikes}",
              f"most (> {_ABSORBED_AT_70:.0%})", absorbed > _ABSORBED_AT_70),
        Check("spikes that cascade at 85 % CPU use", f"{cascading:.0%} of {spikes}",
              f"nearly each (> {_CASCADING_AT_85:.0%})", cascading > _CASCADING_AT_85),
    ]  # fmt: skip
    columns = ("wanted", "CPU use", "spikes", "cascading", "median growth of bystanders")
    rows = [(f"{u:.0%}", f"{level.utilisation:.1%}", int(level.growth.size),
             f"{level.cascading:.0%}", f"{np.median(level.growth):+.0%}")
            for u, level in by_use.items()]  # fmt: skip
    return Section(
        "Utilisation and cascades",
        f"One domain's traffic grows by {_FACTOR - 1:.0%} (seeds differ) while {_RELEASED:.0%} of "
        "all apps roll a deploy; the number of nodes is fixed, declarations are right and pods "
        "warm. A bystander has no call path to or "
        f"from the spiking apps. A spike cascades when the bystanders' violation minutes exceed "
        f"those of the same seed without the spike by more than {_CASCADE_GROWTH:.0%}. Above 85 % "
        "this says little: bystanders violate without any spike, so a spike adds a smaller share.",
        checks,
        [Plot("share of spikes that cascade, by CPU use", _draw(levels))],
        Listing(columns, list(rows)),
    )


def _tightened(population: Population) -> Population:
    """Lower the requests but not the limits, so that a full node is busier."""
    apps = population.apps
    return population._replace(
        apps=apps._replace(
            cpu_request=apps.cpu_request * _REQUEST_FACTOR,
            cpu_limit_ratio=apps.cpu_limit_ratio / _REQUEST_FACTOR,
            memory_request=apps.memory_request * _REQUEST_FACTOR,
            # Memory use shrinks along with the request: fresh pods must stay below their limits.
            memory_base=apps.memory_base * _REQUEST_FACTOR,
            memory_per_request=apps.memory_per_request * _REQUEST_FACTOR,
            memory_leak=apps.memory_leak * _REQUEST_FACTOR,
        )
    )


def _level(utilisation: float, population: Population, effort: Effort) -> _Level:
    cluster = _sized(load_sim_cluster(), utilisation / _USE_OVER_PACKED)
    seeds = list(range(effort.seeds))
    # The same seeds without a spike: only the difference is due to it.
    calm = _run(cluster, population, seeds, None)
    totals, without = calm.accounts.totals, calm.accounts.violation_minutes
    growth = []
    # Every domain, because the largest nearly always cascades and the smallest seldom does: a
    # share of spikes that leaves some out measures which ones were left out.
    for domain in cluster.domain_names:
        world = _run(cluster, population, seeds, domain)
        spiking = population.apps.domain == cluster.domain_names.index(domain)
        unrelated = _unrelated(population, spiking)
        minutes = world.accounts.violation_minutes[:, unrelated].sum(axis=1)
        # At least a minute, so that a few violations after a quiet run are not a cascade.
        growth.append(minutes / np.maximum(without[:, unrelated].sum(axis=1), 1.0) - 1)
    return _Level(
        float((totals[:, CPU_USED] / totals[:, CPU_CAPACITY]).mean()), np.concatenate(growth)
    )


def _sized(cluster: SimCluster, packed: float) -> SimCluster:
    """A cluster with a fixed number of nodes, of which `packed` is requested at the start."""
    # Neither new nodes nor drains: only the existing headroom counts.
    pools = {
        name: replace(pool, headroom=1 - packed, max_nodes=1.0)
        for name, pool in cluster.physics.pools.items()
    }
    physics = cluster.physics
    return with_physics(
        cluster,
        pools=pools,
        provisioner=replace(physics.provisioner, scale_down_after_s=1e6),
        # Wrong targets and cold deploys make bystanders of a full cluster violate without any
        # spike, which would hide what a spike does to them.
        declarations=replace(physics.declarations, saturation_sigma=0.0),
        pod_start=replace(physics.pod_start, cold_speed=1.0),
    )


def _run(
    cluster: SimCluster, population: Population, seeds: list[int], domain: str | None
) -> World:
    events: list[Traffic | Deploy] = [
        Deploy(
            name="releases",
            target=Target(domains=cluster.domain_names, share=_RELEASED),
            at_minute=4.0,
            over_minutes=15.0,
        )
    ]
    if domain is not None:
        spike = Traffic(
            name="spike",
            target=Target(domains=(domain,)),
            factor=_FACTOR,
            factor_jitter=_FACTOR_JITTER,
            at_minute=5.0,
            jitter_minutes=2.0,
            ramp_minutes=1.0,
            hold_minutes=12.0,
            decay_minutes=5.0,
        )
        events.append(spike)
    scenario = Scenario(
        name="sweep",
        shows="Whether the existing headroom absorbs a spike.",
        start="Tue 14:00",
        length_minutes=30,
        warmup_minutes=15,
        events=tuple(events),
    )
    world = World(cluster, scenario, seeds, population)
    run = HpaWorld(world, _hpa_at_the_limit(world))
    run.run(run.world.timeline.total_ticks)
    return run.world


def _hpa_at_the_limit(world: World) -> Hpa:
    """An HPA whose targets rely on idle cores, which the tightened requests need."""
    declared = world.inventory
    counting = declared._replace(saturation=declared.saturation / _REQUEST_FACTOR)
    return Hpa(counting, world.layout.pools, world.cluster.tick_seconds)


def _unrelated(population: Population, spiking: Mask) -> Mask:
    """Apps without a call path to or from the spiking ones; they only share capacity."""
    calls, apps = population.calls, spiking.size
    # In reverse order, so that edges into an app precede its own again.
    backwards = calls._replace(caller=calls.callee[::-1], callee=calls.caller[::-1])
    return ~(reachable(calls, apps, spiking) | reachable(backwards, apps, spiking))


def _draw(levels: list[_Level]) -> Draw:
    def draw(axis: "Axes") -> None:
        use = [100 * level.utilisation for level in levels]
        axis.plot(use, [100 * level.cascading for level in levels], marker="o")
        axis.set_xlabel("CPU use without a spike, %")
        axis.set_ylabel("%")
        axis.set_ylim(-5, 105)

    return draw
