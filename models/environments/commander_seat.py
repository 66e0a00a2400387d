"""The Commander's seat: each minute, how cautious and how urgent every domain is taken to be."""

from typing import Final

import numpy as np

from models.cluster.arrays import F32
from models.cluster.observation import Observation
from models.control.residual import Residual, neutral
from models.environments.heuristic_seat import HeuristicSeat, limits_of
from models.environments.seat import factors
from models.features.normalise import Features
from models.features.table import CLUSTER, POOL, domain_columns
from models.sim.world import World

HEADROOM_SPAN: Final = 1.5
"""Pods and nodes per unit of work, at most times this or divided by it."""
URGENCY_SPAN: Final = 4.0
"""Urgency goes from 0 to 1 and most domains are far from either end."""


class CommanderSeat(HeuristicSeat):
    """Sees domains, pools and the cluster, as the Commander does; no single app."""

    name = "commander-policy"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        domains, pools = self.inventory.priority.size, self.inventory.pool_cpu.size
        self.every = max(1, 60 // self.inventory.tick_s)
        self.actions = 2 * domains
        self.limits = limits_of(
            (*domain_columns(domains) * domains, *POOL.features * pools, *CLUSTER.features)
        )

    def _select(self, features: Features) -> F32:
        rows = features.cluster.shape[0]
        parts = (features.domain.reshape(rows, -1), features.pool.reshape(rows, -1))
        return np.concatenate((*parts, features.cluster), axis=1)

    def _residual(self, action: F32, observation: Observation) -> Residual:
        headroom, urgency = np.split(action, 2, axis=1)
        return neutral(observation.tick.size)._replace(
            headroom=factors(headroom, HEADROOM_SPAN), urgency=factors(urgency, URGENCY_SPAN)
        )
