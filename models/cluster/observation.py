"""What a controller sees of a cluster at one tick, real or simulated: arrays, environment first.

Two tables hold one column per app. `measured` has what metric pipelines deliver: late, noisy,
sometimes missing. `status` has what the API server answers, which is current. The events on the
bus carry the same columns; their names and order are defined once, in `schemas.metrics_sampled`.
"""

from enum import IntEnum
from typing import Final, NamedTuple

from models.cluster.arrays import F32, FLOAT, I8, I32, INT, Records, record_type
from schemas.metrics_sampled import MEASURED
from schemas.metrics_sampled import PODS as POD_COLUMNS

# Rows of `Observation.measured`, by the column of the same quantity in a sample event.
RPS: Final = MEASURED.index("rps")
THROUGHPUT: Final = MEASURED.index("throughput")
"""Answers per second."""
ERRORS: Final = MEASURED.index("errors")
"""Failing share of the answers."""
P50: Final = MEASURED.index("latency_p50_s")
P99: Final = MEASURED.index("latency_p99_s")
CPU: Final = MEASURED.index("cpu_cores")
"""Used by all measured pods together."""
MEMORY: Final = MEASURED.index("memory_gib")
PODS: Final = MEASURED.index("measured_pods")
SAMPLES: Final = len(MEASURED)

# Rows of `Observation.status`. The first two are not on the wire: a frame holds declared apps of
# one domain only.
ACTIVE: Final = 0
"""1 while the app is declared."""
DOMAIN: Final = 1
"""Domain index at this tick; apps can move between domains."""
_WIRE: Final = 2
REPLICAS: Final = _WIRE + POD_COLUMNS.index("replicas")
"""As last asked for."""
CPU_REQUEST: Final = _WIRE + POD_COLUMNS.index("cpu_request")
"""Millicores per pod."""
MEMORY_REQUEST: Final = _WIRE + POD_COLUMNS.index("memory_request")
"""MiB per pod."""
READY: Final = _WIRE + POD_COLUMNS.index("ready")
STARTING: Final = _WIRE + POD_COLUMNS.index("starting")
"""Bound to a node and not ready."""
PENDING: Final = _WIRE + POD_COLUMNS.index("pending")
"""Without a node."""
RESTARTS: Final = _WIRE + POD_COLUMNS.index("restarts")
"""Container restarts since the start."""
STATUS: Final = _WIRE + len(POD_COLUMNS)

STATUS_COLUMNS: Final = tuple(enumerate(POD_COLUMNS, _WIRE))
"""Row and wire name of what both an observation and a frame hold about an app's pods."""

POOL_STATUS: Final = record_type(
    ready=INT,  # nodes
    coming=INT,  # nodes that boot or are requested
    quota=INT,  # nodes that the pool may have
    free_cpu=FLOAT,  # cores
    free_memory=FLOAT,  # GiB
)


class Pipeline(IntEnum):
    """The metrics pipeline that delivers measurements to the controller."""

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
