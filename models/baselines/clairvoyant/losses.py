"""Nodes that will be lost at a known tick, and which share of each app's pods goes with them."""

from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F32, I32
from models.cluster.observation import DOMAIN
from models.sim.nodes import SPOT
from models.sim.world import World

_UNEVEN: Final = 1.2
"""Pods are not spread quite evenly over what is lost and what stays."""
_MOST: Final = 0.6


class Loss(NamedTuple):
    """One happening of one environment."""

    tick: int
    zone: bool
    share: float
    """Of the nodes of a zone's loss, of the spot nodes of a reclaim."""


def losses_of(world: World) -> list[list[Loss]]:
    """The losses that the script has for each environment."""
    script, zones = world.given.script, len(world.cluster.physics.zones)
    found: list[list[Loss]] = []
    for e in range(world.environments):
        lost = [Loss(int(row["start"]), True, 1 / zones) for row in script.zones[e]]
        taken = [Loss(int(row["tick"]), False, float(row["share"])) for row in script.reclaims[e]]
        found.append(lost + taken)
    return found


def lost_share(world: World, e: int, loss: Loss, own_pool: I32) -> F32:
    """[A] share of each app's pods that a loss takes, as the nodes stand now."""
    apps = world.given.apps.size
    if loss.zone:
        return np.full(apps, min(_MOST, loss.share * _UNEVEN), np.float32)
    market = world.state.pool_market[e]
    spot = market[:, SPOT] / np.maximum(1, market.sum(axis=1))
    share = np.minimum(_MOST, spot * loss.share * _UNEVEN)
    return np.asarray(share[own_pool[world.state.status[e, DOMAIN]]], np.float32)
