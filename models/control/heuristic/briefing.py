"""What the Commander tells the Soldiers, and what it asks of the pools."""

from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64, I32
from models.control.budget import Budget

_NEVER: Final = -1


class Briefing(NamedTuple):
    """What the Soldiers go by until the next one. E environments, D domains.

    All of it is per domain or the same for all: each domain can be told its own part.
    """

    budget: Budget
    growth: F64
    """[E, D] forecast over now, within the time that pods take to start; 1 at least, and 1 for all
    but the highest priority: nobody gives way to another's announcement."""
    release: F64
    """[E, D] cores that each domain gives back, because others cannot do without."""


class Orders(NamedTuple):
    """What the Commander decides in a minute. P pools."""

    briefing: Briefing
    nodes: I32
    """[E, P, 4] nodes to ask for, by priority of the need."""
    keep: I32
    """[E, P] nodes that are not to be scaled down: they wait for what is coming."""


def no_briefing(environments: int, domains: int, pools: int) -> Briefing:
    """Before the first one: it has expired and knows no floor, so nothing grows by it."""
    nothing = np.zeros((environments, domains))
    never = np.full(environments, _NEVER, np.int32)
    budget = Budget(
        epoch=never,
        valid_until_tick=never,
        share=nothing,
        reserve=np.ones(environments),
        pool_cores=np.zeros((environments, domains, pools)),
        cores=nothing,
        memory=nothing,
        overdraft=nothing,
        floor=nothing,
        urgency=nothing,
        headroom=nothing,
    )
    return Briefing(budget, np.ones((environments, domains)), nothing)


def no_orders(environments: int, domains: int, pools: int) -> Orders:
    """Before the first ones: no nodes are asked for, none are kept."""
    return Orders(
        no_briefing(environments, domains, pools),
        np.zeros((environments, pools, 4), np.int32),
        np.zeros((environments, pools), np.int32),
    )
