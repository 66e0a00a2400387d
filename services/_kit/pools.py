"""The node pools as they were observed last."""

from collections.abc import Mapping, Sequence

import numpy as np

from models.cluster.arrays import Records
from models.cluster.observation import POOL_STATUS
from schemas.pool_observed import PoolObserved


class PoolBook:
    """Learns what is observed of pools; the newest counts."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)
        self._seen: dict[str, PoolObserved] = {}

    def learn(self, observed: PoolObserved) -> None:
        """Take in an observation; an older one says nothing new."""
        last = self._seen.get(observed.pool)
        if last is None or last.tick <= observed.tick:
            self._seen[observed.pool] = observed

    def forget(self, pool: str) -> None:
        """The pool is gone: a tombstone."""
        self._seen.pop(pool, None)

    def records(self) -> Records:
        """[1, P] of POOL_STATUS."""
        return pool_records(self._names, self._seen)


def pool_records(names: Sequence[str], seen: Mapping[str, PoolObserved]) -> Records:
    """[1, P] of POOL_STATUS, in the order of the cluster file; zeros for one never observed."""
    records = np.zeros((1, len(names)), POOL_STATUS)
    for place, name in enumerate(names):
        pool = seen.get(name)
        if pool is not None:
            records[0, place] = (
                pool.ready,
                pool.booting + pool.requested,
                pool.quota,
                pool.free_cores,
                pool.free_memory_gib,
            )
    return records
