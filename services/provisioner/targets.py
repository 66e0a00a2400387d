"""How many nodes each pool is to have, from the standing requests of all pools. No IO.

Neither buffers nor autoscalers know the priorities of a request, so they are summed and cut here:
the most urgent nodes of all pools come before the next urgency of any.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from schemas.capacity_requested import CapacityRequested, NodesByUrgency
from schemas.pool_observed import PoolObserved

URGENCIES: Final = NodesByUrgency.__struct_fields__
"""The most urgent first."""


@dataclass(frozen=True)
class Standing:
    """The newest request of a pool."""

    request: CapacityRequested
    existing: int
    """Nodes that the pool had, or would have soon, when the request arrived."""
    expires_at: float
    """Wall time after which it no longer counts, whatever the events say."""


class Limits(NamedTuple):
    """What no request may exceed."""

    per_minute: int
    """Nodes added per request, over all pools: the Commander asks once a minute."""
    spend_per_hour: float


class Target(NamedTuple):
    """What a pool is to have."""

    nodes: int
    """Ready ones and those to come; 0 once nothing is requested any more."""
    cut: Mapping[str, int]
    """Nodes that were requested and are not granted, by reason."""


def targets(
    standing: Mapping[str, Standing],
    pools: Mapping[str, PoolObserved],
    limits: Limits,
    tick: int,
    now: float,
) -> dict[str, Target]:
    """Targets of all pools that are observed."""
    valid = {
        name: one
        for name, one in standing.items()
        if name in pools and tick <= one.request.valid_until_tick and now <= one.expires_at
    }
    granted, cut = _granted(valid, pools, limits)
    found = {}
    for name in pools:
        nodes = 0
        if name in valid:
            one = valid[name]
            grown = one.existing + granted[name] if granted[name] else 0
            # Nodes beyond the minimum may go when nothing is asked for.
            nodes = min(max(grown, one.request.min_nodes), pools[name].quota)
        found[name] = Target(nodes, cut.get(name, {}))
    return found


def _granted(
    valid: Mapping[str, Standing], pools: Mapping[str, PoolObserved], limits: Limits
) -> tuple[dict[str, int], dict[str, dict[str, int]]]:
    """Nodes to add by pool, and those that are cut by pool and reason."""
    granted, cut = dict.fromkeys(valid, 0), dict[str, dict[str, int]]()
    left = limits.per_minute
    # Without the nodes that a request itself has made by now: it is not cut because they come.
    money = limits.spend_per_hour - sum(
        (valid[name].existing if name in valid else _coming(pool)) * pool.price_per_hour
        for name, pool in pools.items()
    )
    for urgency in URGENCIES:
        for name in sorted(valid):
            one, pool = valid[name], pools[name]
            wanted = int(getattr(one.request.nodes, urgency))
            price = pool.price_per_hour
            room = {
                "quota": max(0, pool.quota - one.existing - granted[name]),
                "rate": left,
                "spend-cap": max(0, int(money // price)) if price > 0 else wanted,
            }
            # Of equal limits the first is named.
            reason = min(room, key=lambda limit: room[limit])
            given = min(wanted, room[reason])
            granted[name] += given
            left -= given
            money -= given * price
            if given < wanted:
                reasons = cut.setdefault(name, {})
                reasons[reason] = reasons.get(reason, 0) + wanted - given
    return granted, cut


def _coming(pool: PoolObserved) -> int:
    return pool.ready + pool.booting + pool.requested
