"""A node pool as it is: nodes, room, price."""

from typing import Annotated

from schemas.fields import Cores, Count, GiB, Money, Name, TickEvent, about


class PoolObserved(TickEvent, frozen=True, kw_only=True):
    """The newest of a pool counts."""

    pool: Annotated[Name, about("whose nodes these are")]
    ready: Annotated[Count, about("nodes that take pods")]
    coming: Annotated[Count, about("nodes that boot or wait for the cloud")]
    requested: Annotated[Count, about("of the coming ones, those the cloud has not started")] = 0
    quota: Annotated[Count, about("nodes that the pool may have")]
    free_cpu: Annotated[Cores, about("allocatable on ready nodes and requested by no pod")]
    free_memory: Annotated[GiB, about("allocatable on ready nodes and requested by no pod")]
    node_cpu: Annotated[Cores, about("allocatable of one node")] = 0.0
    node_memory: Annotated[GiB, about("allocatable of one node")] = 0.0
    price_per_hour: Annotated[Money, about("of one node, in the pool's mix of markets")] = 0.0
    spent: Annotated[Money, about("since the cluster's origin; 0 where nobody counts")] = 0.0
