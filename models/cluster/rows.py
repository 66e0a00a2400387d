"""Rows of the tables in an `Observation`, named once for production and simulator.

Import the module, not its names (`status[rows.REPLICAS]`): `CPU` alone could be any CPU.
"""

from typing import Final

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
