"""Randomised worlds to learn in: other clusters, other physics, other events, by a seed.

A policy that has seen one cluster and eight scenarios learns them. Here the topology comes from the
generator, and pods, nodes, metrics and declarations behave otherwise within what is plausible.
What happens, when, how much, and how wrongly it was announced is drawn, too; two of five hours are
quiet. Topologies to judge on have lower seeds (`hirl world generate --seed`).
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from models.sim.config.events import (
    Crash,
    Event,
    MetricsOutage,
    Payload,
    Regime,
    SpotReclaim,
    Target,
    Traffic,
    ZoneLoss,
)
from models.sim.config.physics import SimCluster, load_sim_cluster, with_apps, with_physics
from models.sim.config.scenario import Scenario
from models.sim.config.timeline import WEEKDAYS, CalendarEntry
from models.sim.config.topologies import generate_topology

FIRST_SEED: Final = 1_000_000
"""Of topologies and events that are learned from."""
_MINUTES: Final = 60
_FEWEST, _MOST = 3, 12
"""Domains."""
_QUIET: Final = 0.4
_LAGS_S: Final = (0.0, 10.0, 20.0, 30.0)
_WINDOWS_S: Final = (30.0, 60.0, 90.0)
_MOST_SIGMA: Final = 0.3
"""Log standard deviation of the declared saturation."""
_BOOTS: Final = 0.35
"""Log standard deviation of boot times of pods and of nodes around those of the example."""

Random = np.random.Generator


class DrawnWorld(NamedTuple):
    """A cluster, and an hour in it."""

    cluster: SimCluster
    scenario: Scenario


def drawn_worlds(first: int, count: int, apps: int) -> tuple[DrawnWorld, ...]:
    """`count` worlds of as many apps each; the same arguments give the same worlds."""
    return tuple(_drawn(FIRST_SEED + first + index, apps) for index in range(count))


def _drawn(seed: int, apps: int) -> DrawnWorld:
    rng = np.random.default_rng(seed)
    domains = int(rng.integers(_FEWEST, _MOST + 1))
    # As large as the example first, so that rates are scaled as the example's are.
    whole = generate_topology(seed, domains, load_sim_cluster().apps)
    cluster = _disturbed(rng, with_apps(whole, max(apps, domains)))
    day, minute = WEEKDAYS[int(rng.integers(7))], int(rng.integers(24 * 60))
    calendar, events = _happening(rng, cluster)
    scenario = Scenario(
        name=f"drawn-{seed}",
        shows="Drawn by a seed.",
        start=f"{day} {minute // 60:02}:{minute % 60:02}",
        length_minutes=_MINUTES,
        calendar=calendar,
        events=events,
    )
    return DrawnWorld(cluster, scenario)


def _disturbed(rng: Random, cluster: SimCluster) -> SimCluster:
    """Other metrics, declarations and boot times."""
    physics = cluster.physics
    pods, nodes = np.exp(rng.normal(0.0, _BOOTS, 2))
    start = physics.pod_start
    return with_physics(
        cluster,
        metrics=replace(
            physics.metrics,
            lag_s=float(rng.choice(_LAGS_S)),
            window_s=float(rng.choice(_WINDOWS_S)),
        ),
        declarations=replace(
            physics.declarations, saturation_sigma=float(rng.uniform(0.0, _MOST_SIGMA))
        ),
        pod_start=replace(
            start,
            image_pull_s=start.image_pull_s * float(pods),
            boot_s=start.boot_s * float(pods),
            warm_up_s=start.warm_up_s * float(pods),
        ),
        provisioner=replace(physics.provisioner, boot_s=physics.provisioner.boot_s * float(nodes)),
    )


def _happening(
    rng: Random, cluster: SimCluster
) -> tuple[tuple[CalendarEntry, ...], tuple[Event, ...]]:
    if rng.random() < _QUIET:
        return (), ()
    kind = _KINDS[int(rng.integers(len(_KINDS)))]
    return kind(rng, cluster)


def _target(rng: Random, cluster: SimCluster) -> Target:
    hit = rng.choice(len(cluster.domains), int(rng.integers(1, 3)), replace=False)
    names = tuple(cluster.domains[int(index)].name for index in sorted(hit))
    return Target(domains=names, share=round(float(rng.uniform(0.4, 1.0)), 2))


def _wave(rng: Random) -> dict[str, Any]:
    return {
        "name": "event",
        "at_minute": float(rng.integers(5, 35)),
        "jitter_minutes": 2.0,
        "factor": round(float(rng.uniform(1.3, 2.6)), 2),
        "factor_jitter": 0.2,
        "ramp_minutes": round(float(rng.uniform(0.5, 10.0)), 1),
        "hold_minutes": float(rng.integers(5, 25)),
        "decay_minutes": float(rng.integers(2, 15)),
    }


def _unannounced(rng: Random, cluster: SimCluster) -> Any:
    return (), (Traffic(target=_target(rng, cluster), **_wave(rng)),)


def _announced(rng: Random, cluster: SimCluster) -> Any:
    """At another time, and of another size, than was announced."""
    wave, target = _wave(rng), _target(rng, cluster)
    entry = _entry(rng, target.domains, wave["at_minute"], wave["factor"])
    return (entry,), (Traffic(target=target, **wave),)


def _phantom(rng: Random, cluster: SimCluster) -> Any:
    target = _target(rng, cluster)
    return (_entry(rng, target.domains, float(rng.integers(5, 35)), 1.8),), ()


def _entry(rng: Random, domains: tuple[str, ...], at: float, factor: float) -> CalendarEntry:
    return CalendarEntry(
        name="sale",
        domains=domains,
        at_minute=at + round(float(rng.normal(0.0, 5.0)), 1),
        length_minutes=20.0,
        expected_factor=round(1.0 + (factor - 1.0) * float(rng.uniform(0.5, 1.5)), 2),
    )


def _payload(rng: Random, cluster: SimCluster) -> Any:
    return (), (Payload(target=_target(rng, cluster), **_wave(rng)),)


def _regime(rng: Random, cluster: SimCluster) -> Any:
    event = Regime(
        name="event", target=_target(rng, cluster), at_minute=float(rng.integers(0, 15)),
        high=round(float(rng.uniform(1.2, 1.8)), 2), low=1.0, factor_jitter=0.2,
        high_minutes=float(rng.integers(2, 8)), low_minutes=float(rng.integers(2, 8)),
        ramp_minutes=0.5, cycles=3,
    )  # fmt: skip
    return (), (event,)


def _zone(rng: Random, cluster: SimCluster) -> Any:
    zone = str(rng.choice(cluster.physics.zones))
    event = ZoneLoss(
        name="event", zone=zone, at_minute=float(rng.integers(5, 30)), jitter_minutes=2.0,
        length_minutes=float(rng.integers(15, 45)),
    )  # fmt: skip
    return (), (event,)


def _reclaim(rng: Random, cluster: SimCluster) -> Any:  # noqa: ARG001  as the others
    share = round(float(rng.uniform(0.3, 1.0)), 2)
    return (), (SpotReclaim(name="event", at_minute=float(rng.integers(5, 40)), share=share),)


def _release(rng: Random, cluster: SimCluster) -> Any:
    event = Crash(
        name="event", target=_target(rng, cluster), at_minute=float(rng.integers(5, 35)),
        share_per_minute=round(float(rng.uniform(0.05, 0.4)), 2),
        length_minutes=float(rng.integers(5, 15)),
    )  # fmt: skip
    return (), (event,)


def _outage(rng: Random, cluster: SimCluster) -> Any:
    mode = str(rng.choice(("missing", "zero", "stale")))
    event = MetricsOutage(
        name="event", target=_target(rng, cluster), pipeline="exporter", mode=mode,  # type: ignore[arg-type]
        at_minute=float(rng.integers(5, 35)), length_minutes=float(rng.integers(3, 12)),
    )  # fmt: skip
    return (), (event,)


_KINDS: Final[tuple[Callable[[Random, SimCluster], Any], ...]] = (
    _unannounced, _unannounced, _announced, _announced, _phantom, _payload, _regime, _zone,
    _reclaim, _release, _outage,
)  # fmt: skip
"""Rises of traffic twice as often as the others."""
