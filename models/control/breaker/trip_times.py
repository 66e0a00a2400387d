"""How long a breaker takes to trip or to fall back, by cause and priority."""

from typing import Final

import numpy as np

from models.cluster import rows
from models.cluster.arrays import F32
from models.cluster.description import PRIORITIES
from models.cluster.observation import POOL_STATUS, Observation
from models.control.breaker.actions import Cause, Phase
from models.control.breaker.fallback import advance_levels, start_fallback
from models.control.breaker.forecasts import (
    add_forecast,
    end_minute,
    forecast_readings,
    start_record,
)
from models.control.breaker.limits import Thresholds, fallback_table, graded, table_of
from models.control.breaker.phases import advance, start, windows_of
from models.control.breaker.readings import Readings
from models.control.fallback import Level
from models.forecaster.port import HORIZONS_MIN, QUANTILES

_WORST: Final = 1.0
_MOST_TICKS: Final = 10_000
_TICKS_PER_MINUTE: Final = 6
_HEALTHY_MIN: Final = 60
_BAD_FORECASTS: Final = {Cause.SKILL: 3.0, Cause.OUTPUT: np.nan}
"""Factors on a correct forecast."""


def trip_times(limits: Thresholds) -> dict[Cause, tuple[int, ...]]:
    """Ticks from the first bad tick to the trip for P0 to P3, by cause, all apps being affected.

    Frames that stop are counted from the last frame: a gap shows when the next one arrives. Bad
    forecasts are counted from the first: three times the traffic, and no numbers.
    """
    priorities = range(len(PRIORITIES))
    causes = [Cause(cause) for cause in table_of([limits]).causes.tolist()]
    times = {
        cause: tuple(_trip_time(graded(limits, priority), column) for priority in priorities)
        for column, cause in enumerate(causes)
    }
    for cause, factor in _BAD_FORECASTS.items():
        times[cause] = tuple(_fall_time(graded(limits, one), factor) for one in priorities)
    return times


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


def _fall_time(limits: Thresholds, factor: float) -> int:
    """Steady traffic, forecast correctly for an hour and then wrong by a factor."""
    table, record = fallback_table([limits]), start_record(_nothing(), 1)
    memory = start_fallback(1, table)
    for tick in range(_MOST_TICKS):
        minute, rest = divmod(tick, _TICKS_PER_MINUTE)
        if rest == 0:
            record = end_minute(minute, np.ones((1, 1)), record)
            record = add_forecast(minute, _forecast(factor, minute), record)
        memory = advance_levels(forecast_readings(record), memory, table)
        if memory.level[0, 0] != Level.POLICY:
            return tick - _HEALTHY_MIN * _TICKS_PER_MINUTE + 1
    raise ValueError(f"a forecast of {factor:g} times the traffic: never falls back")


def _forecast(factor: float, minute: int) -> F32:
    shape = (1, 1, len(HORIZONS_MIN), len(QUANTILES))
    # No two alike: a constant forecast is another fault.
    correct = 1.0 + 1e-3 * (minute % 2)
    return np.full(shape, correct if minute < _HEALTHY_MIN else correct * factor, np.float32)


def _nothing() -> Observation:
    return Observation(
        np.zeros(1, np.int32),
        np.zeros((1, rows.SAMPLES, 0), np.float32),
        np.zeros((1, 0), np.int8),
        np.zeros((1, rows.STATUS, 0), np.int32),
        np.zeros((1, 0), POOL_STATUS),
    )
