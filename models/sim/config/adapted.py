"""A shipped scenario for another cluster than the example.

The shipped scenarios name the domains, tiers and zones of the example cluster. In another cluster
the domains of the same priority take their part, so that every benchmark runs on any cluster.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from models.cluster.description import PRIORITIES, Cluster, Domain, load_cluster
from models.sim.config.events import Event, Inventory, Replay, SpotReclaim, Target, ZoneLoss
from models.sim.config.physics import SimCluster
from models.sim.config.timeline import CalendarEntry

_ZONES: Final = ("a", "b", "c")
"""Zones of the example cluster, see its physics file."""


class _Cast(NamedTuple):
    """Who plays which part."""

    example: Cluster
    cluster: SimCluster
    parts: dict[str, tuple[Domain, ...]]
    """By domain of the example cluster."""

    def domains(self, names: Sequence[str]) -> tuple[str, ...]:
        found = (domain.name for name in names for domain in self.parts[name])
        return tuple(dict.fromkeys(found))

    def zone(self, name: str) -> str:
        zones = self.cluster.physics.zones
        return zones[_ZONES.index(name) % len(zones)]

    def target(self, target: Target) -> Target:
        tiers = tuple(dict.fromkeys(self._tiers(target)))
        return replace(target, domains=self.domains(target.domains), tiers=tiers)

    def _tiers(self, target: Target) -> list[str]:
        """Tiers at the same depth: the outermost stays the outermost."""
        found = []
        for domain in self.example.domains:
            if domain.name not in target.domains:
                continue
            depths = [domain.tiers.index(name) for name in target.tiers if name in domain.tiers]
            for part in self.parts[domain.name]:
                steps = max(1, len(domain.tiers) - 1)
                found += [
                    part.tiers[round(depth * (len(part.tiers) - 1) / steps)] for depth in depths
                ]
        return found


def adapted(
    calendar: tuple[CalendarEntry, ...],
    events: tuple[Event, ...],
    replays: tuple[Replay, ...],
    cluster: SimCluster,
) -> tuple[tuple[CalendarEntry, ...], tuple[Event, ...], tuple[Replay, ...]]:
    """The parts of a shipped scenario that name domains, tiers or zones, for `cluster`."""
    cast = cast_of(cluster)
    return (
        tuple(replace(entry, domains=cast.domains(entry.domains)) for entry in calendar),
        tuple(_event(event, cast) for event in events),
        tuple(replace(entry, target=cast.target(entry.target)) for entry in replays),
    )


def cast_of(cluster: SimCluster) -> _Cast:
    """Domains of the same priority, or of the nearest one. Two parts of a priority share them."""
    example = load_cluster()
    parts: dict[str, tuple[Domain, ...]] = {}
    for priority in PRIORITIES:
        roles = [domain.name for domain in example.domains if domain.priority == priority]
        players = _nearest(cluster, PRIORITIES.index(priority))
        for index, role in enumerate(roles):
            # In turn from the largest, so that both parts have about their share of the pods.
            parts[role] = tuple(players[index :: len(roles)]) or tuple(players[:1])
    return _Cast(example, cluster, parts)


def _nearest(cluster: SimCluster, priority: int) -> list[Domain]:
    def distance(domain: Domain) -> int:
        return abs(PRIORITIES.index(domain.priority) - priority)

    nearest = min(distance(domain) for domain in cluster.domains)
    players = [domain for domain in cluster.domains if distance(domain) == nearest]
    return sorted(players, key=lambda domain: -cluster.physics_of(domain).pod_share)


def _event(event: Event, cast: _Cast) -> Event:
    if isinstance(event, SpotReclaim):
        return event
    if isinstance(event, ZoneLoss):
        return replace(event, zone=cast.zone(event.zone))
    if isinstance(event, Inventory) and event.to_domain is not None:
        moved = cast.domains((event.to_domain,))[0]
        return replace(event, target=cast.target(event.target), to_domain=moved)
    return replace(event, target=cast.target(event.target))
