"""How pods are placed under a controller: the scheduler is part of what is compared."""

from typing import Final, Literal, NamedTuple

import msgspec

from models.sim.describe.config import Cluster


class Scheduling(NamedTuple):
    """The order of pending pods, and whether lower classes are evicted for higher ones."""

    order: Literal["fifo", "priority"] = "fifo"
    preemption: bool = False


SCHEDULINGS: Final = {
    "fifo": Scheduling("fifo"),
    "priority": Scheduling("priority"),
    "priority+preemption": Scheduling("priority", preemption=True),
}


def with_scheduling(cluster: Cluster, scheduling: Scheduling) -> Cluster:
    """The cluster with another order of placing pods."""
    scheduler = msgspec.structs.replace(
        cluster.scheduler, order=scheduling.order, preemption=scheduling.preemption
    )
    return msgspec.structs.replace(cluster, scheduler=scheduler)
