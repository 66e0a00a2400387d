"""How pods are placed under a controller: the scheduler is part of what is compared."""

from typing import Final, Literal, NamedTuple

import msgspec

from models.sim.describe.physics import SimCluster, with_physics


class Scheduling(NamedTuple):
    """The order of pending pods, and whether lower classes are evicted for higher ones."""

    order: Literal["fifo", "priority"] = "fifo"
    preemption: bool = False


SCHEDULINGS: Final = {
    "fifo": Scheduling("fifo"),
    "priority": Scheduling("priority"),
    "priority+preemption": Scheduling("priority", preemption=True),
}


def with_scheduling(cluster: SimCluster, scheduling: Scheduling) -> SimCluster:
    """The cluster with another order of placing pods."""
    scheduler = msgspec.structs.replace(
        cluster.physics.scheduler, order=scheduling.order, preemption=scheduling.preemption
    )
    return with_physics(cluster, scheduler=scheduler)
