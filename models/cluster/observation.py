"""What a controller sees of a cluster at one tick, real or simulated: arrays, environment first.

Two tables hold one column per app. `measured` has what metric pipelines deliver: late, noisy,
sometimes missing. `status` has what the API server answers, which is current. The events on the
bus carry the same columns; their names and order are defined once, in `schemas.metrics_sampled`.
"""

from enum import IntEnum
from typing import Final, NamedTuple

from models.cluster.arrays import F32, FLOAT, I8, I32, INT, Records, record_type

POOL_STATUS: Final = record_type(
    ready=INT,  # nodes
    coming=INT,  # nodes that boot or are requested
    quota=INT,  # nodes that the pool may have
    free_cpu=FLOAT,  # cores
    free_memory=FLOAT,  # GiB
)


class Pipeline(IntEnum):
    """The metrics pipeline that delivers measurements to the controller."""

    # HPA reads metrics-server: CPU and pods only, and later than ours.
    OURS = 0
    HPA = 1


class Observation(NamedTuple):
    """E environments, A apps, P pools. In the simulator it is valid until the next tick."""

    tick: I32
    """[E]."""
    measured: F32
    """[E, SAMPLES, A] rows RPS to PODS; HPA's pipeline carries only CPU and PODS."""
    missing: I8
    """[E, A] 1 where no sample arrived; don't use what `measured` has there."""
    status: I32
    """[E, STATUS, A] rows ACTIVE to RESTARTS. Read-only."""
    pool: Records
    """[E, P] of POOL_STATUS."""
