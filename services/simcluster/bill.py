"""What the pools have cost since the cluster's origin; the accounts begin after the warm-up."""

import numpy as np

from models.cluster.arrays import F64
from models.sim.accounting import RESERVED
from models.sim.world import World

_HOUR_S = 3600.0


class Bill:
    """Adds up what every node of a pool costs, tick by tick."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.spent: F64 = np.zeros(world.layout.pools)
        """[P] money."""

    def add_tick(self) -> None:
        """Bill the tick that has just ended; reserved nodes are paid for, there or not."""
        rules = self._world.given.rules
        nodes = self._world.state.pool_market[0].astype(np.float64)
        nodes[:, RESERVED] = np.maximum(nodes[:, RESERVED], rules.pools["reserved"])
        hours = self._world.cluster.tick_seconds / _HOUR_S
        self.spent = self.spent + (nodes * rules.pool_price).sum(axis=1) * hours
