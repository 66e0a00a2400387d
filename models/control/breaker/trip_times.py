"""How long a breaker takes to trip, by cause and priority."""

from typing import Final

import numpy as np

from models.cluster.description import PRIORITIES
from models.control.breaker.limits import Thresholds, graded, table_of
from models.control.breaker.orders import Cause, Phase
from models.control.breaker.phases import advance, start, windows_of
from models.control.breaker.readings import Readings

_WORST: Final = 1.0
_MOST_TICKS: Final = 10_000


def trip_times(limits: Thresholds) -> dict[Cause, tuple[int, ...]]:
    """Ticks from the first bad tick to the trip for P0 to P3, by cause, all apps being affected.

    Frames that stop are counted from the last frame: a gap shows when the next one arrives.
    """
    table = table_of([limits])
    return {
        Cause(cause): tuple(
            _trip_time(graded(limits, priority), column) for priority in range(len(PRIORITIES))
        )
        for column, cause in enumerate(table.causes.tolist())
    }


def _trip_time(limits: Thresholds, column: int) -> int:
    table, windows = table_of([limits]), windows_of((limits,))
    memory = start(0, 1, table, windows.longest)
    for tick in range(1, _MOST_TICKS):
        values = np.zeros((len(Readings._fields), 1, 1))
        # The age of the last frame grows with every tick; all other readings are shares.
        values[column] = tick if table.causes[column] == Cause.STALE else _WORST
        memory = advance(np.array([tick], np.int32), Readings(*values), memory, table, windows)
        if memory.phase[0, 0] != Phase.CLOSED:
            return tick
    raise ValueError(f"{Cause(table.causes[column]).label}: never trips")
