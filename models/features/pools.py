"""Features of node pools and of the cluster as a whole."""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from models.cluster.arrays import F64, I32, Records
from models.cluster.inventory import Inventory
from models.features import sums as s
from models.features.memory import FeatureState

_LEAST = 1e-3
"""Smallest divisor, in cores or GiB: an empty cluster has shares of 0."""
_MOST_NODES = 1e6
"""Largest node count of one pool that is believed."""


class PoolReadings:
    """Observed pools, [E, P] each; an impossible value counts as no node, or nothing free.

    Computed when first read: most ticks need the price alone.
    """

    def __init__(self, pool: Records, inventory: Inventory) -> None:
        self._pool, self._inventory = pool, inventory
        self.ready = _plausible(pool["ready"], _MOST_NODES)
        self.coming = _plausible(pool["coming"], _MOST_NODES)
        self.price = inventory.pool_price.astype(np.float64)
        """[P]."""

    @cached_property
    def quota(self) -> F64:
        """Nodes that each pool may have."""
        return _plausible(self._pool["quota"], _MOST_NODES)

    @cached_property
    def cpu(self) -> F64:
        """Cores of ready nodes."""
        return self.ready * self._inventory.pool_cpu

    @cached_property
    def memory(self) -> F64:
        """GiB of ready nodes."""
        return self.ready * self._inventory.pool_memory

    @cached_property
    def coming_cpu(self) -> F64:
        """Cores of coming nodes."""
        return self.coming * self._inventory.pool_cpu

    @cached_property
    def free_cpu(self) -> F64:
        """Free cores, no more than ready nodes have: both come from different readings."""
        return np.minimum(_plausible(self._pool["free_cpu"], np.inf), self.cpu)

    @cached_property
    def free_memory(self) -> F64:
        """Free GiB, likewise."""
        return np.minimum(_plausible(self._pool["free_memory"], np.inf), self.memory)

    @property
    def capacity(self) -> F64:
        """[E, 2] allocatable cores and GiB of all ready nodes."""
        return np.stack([self.cpu.sum(axis=1), self.memory.sum(axis=1)], axis=1)

    @property
    def price_per_hour(self) -> F64:
        """[E] what all nodes cost, coming ones included: clouds bill booting nodes."""
        cost: F64 = ((self.ready + self.coming) * self.price).sum(axis=1)
        return cost


def pool_columns(pools: PoolReadings) -> dict[str, F64]:
    """Columns of POOL, [E, P] each."""
    return {
        "ready": pools.ready,
        "coming": pools.coming / np.maximum(pools.ready, 1.0),
        "free_cpu": pools.free_cpu / np.maximum(pools.cpu, _LEAST),
        "free_memory": pools.free_memory / np.maximum(pools.memory, _LEAST),
        "price": np.broadcast_to(pools.price, pools.ready.shape),
    }


def spend(pools: PoolReadings, elapsed: I32, tick_s: int, state: FeatureState) -> None:
    """Add the cost of the ticks since the last observation, at the current price."""
    hours = elapsed * (tick_s / 3600.0)
    state.spent[:] += pools.price_per_hour * hours
    state.lasted[:] += hours


def cluster_columns(
    pools: PoolReadings, sums: F64, inventory: Inventory, state: FeatureState
) -> dict[str, F64]:
    """Columns of CLUSTER, [E, 1] each."""
    cpu, memory = np.maximum(pools.capacity, _LEAST).T
    total = sums.sum(axis=1)
    rate = pools.price_per_hour / inventory.spend_cap_per_hour
    allowed = state.lasted * inventory.spend_cap_per_hour
    # Before any time has passed, the present rate stands for what was spent.
    spent = np.where(allowed > 0, state.spent / np.where(allowed > 0, allowed, 1.0), rate)
    columns = {
        "free_cpu": pools.free_cpu.sum(axis=1) / cpu,
        "free_memory": pools.free_memory.sum(axis=1) / memory,
        "coming_cpu": pools.coming_cpu.sum(axis=1) / cpu,
        "pending_cpu": total[:, s.WAITING_CPU] / cpu,
        "spend_rate": rate,
        "spend_left": 1.0 - spent,
        "missing": total[:, s.MISSING] / np.maximum(total[:, s.APPS], 1.0),
    }
    return {name: column[:, None] for name, column in columns.items()}


def _plausible(values: NDArray[np.generic], most: float) -> F64:
    # NaN fails both comparisons and becomes 0.
    numbers = values.astype(np.float64)
    return np.where((numbers >= 0) & (numbers <= most), numbers, 0.0)
