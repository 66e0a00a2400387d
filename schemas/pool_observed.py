"""One node pool: its nodes, its free capacity and its cost."""

from typing import Annotated

from schemas.fields import Cores, Count, GiB, Money, Name, TickEvent, about


class PoolObserved(TickEvent, frozen=True, kw_only=True):
    """The state of a node pool. The newest record of a pool wins."""

    pool: Annotated[Name, about("Name of the pool.")]
    ready: Annotated[Count, about("Nodes that accept pods.")]
    booting: Annotated[Count, about("Nodes that the cloud has started and that are not ready.")]
    requested: Annotated[Count, about("Nodes requested that the cloud has not started.")] = 0
    quota: Annotated[Count, about("Highest number of nodes the pool may have.")]
    free_cores: Annotated[Cores, about("Allocatable cores of ready nodes that no pod requests.")]
    free_memory_gib: Annotated[
        GiB, about("Allocatable memory of ready nodes that no pod requests, in GiB.")
    ]
    node_cores: Annotated[Cores, about("Allocatable cores of one node; 0 if unknown.")] = 0.0
    node_memory_gib: Annotated[
        GiB, about("Allocatable memory of one node in GiB; 0 if unknown.")
    ] = 0.0
    price_per_hour: Annotated[
        Money, about("Mean price of one node per hour, over the pool's purchase options.")
    ] = 0.0
    spent: Annotated[Money, about("Money spent on the pool so far; 0 if unknown.")] = 0.0
