"""The rules of one domain, compiled for its priority."""

from functools import cache
from typing import NamedTuple

import numpy as np

from models.cluster.arrays import I32
from models.control.breaker.limits import (
    GRADES,
    Table,
    Thresholds,
    fallback_table,
    graded,
    table_of,
)
from models.control.breaker.phases import BurnWindows, windows_of


class DomainRules(NamedTuple):
    """The rules of one domain."""

    table: Table
    fallback: Table
    windows: BurnWindows
    mismatch_apps: I32
    stale_part: float
    """On the wall time without frames."""


@cache
def rules_of(limits: Thresholds, priority: int) -> DomainRules:
    """The rules of a domain of this priority, 0 for P0."""
    own = graded(limits, priority)
    return DomainRules(
        table=table_of([own]),
        fallback=fallback_table([own]),
        windows=windows_of((own,)),
        mismatch_apps=np.array([own.mismatch_apps], np.int32),
        stale_part=GRADES[priority].stale,
    )
