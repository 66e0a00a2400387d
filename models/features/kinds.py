"""The kinds of sums that are kept per tier group and domain."""

from typing import Final

from models.cluster.arrays import I32
from models.features.apps import U32
from models.features.table import AGES
from models.jit import kernel

(
    APPS,
    SEEN,
    TRAFFIC,
    MEAN_TRAFFIC,
    FAILING,
    CPU_USED,
    CPU_ASKED,
    MEMORY_USED,
    MEMORY_ASKED,
    USE,
    USE_SQUARED,
    SLACK,
    SLACK_SQUARED,
    SLACK_TRAFFIC,
    LATENCY,
    TARGET,
    TARGET_TRAFFIC,
    AT_RISK,
    RESTARTED,
    UP,
    WANTED,
    WAITING,
    HELD_CPU,
    HELD_MEMORY,
    WAITING_CPU,
    MISSING,
    AGE_S,
    FLIGHT,
) = range(28)
"""FLIGHT is the first of the age buckets."""
SUMS: Final = FLIGHT + len(AGES)


@kernel
def end_of_run(order: U32, group: I32, start: int) -> int:
    """One past the last app of the group that `start` begins."""
    end = start + 1
    while end < order.size and group[order[end]] == group[order[start]]:
        end += 1
    return end
