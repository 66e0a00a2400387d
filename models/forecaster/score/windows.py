"""Which forecasts are scored: their origins and targets."""

from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64, I64
from models.cluster.calendar import DAY_MINUTES
from models.forecaster.port import HORIZONS_MIN, LEAST_HISTORY_MIN
from models.forecaster.series import Series

TEST_SHARE: Final = 0.2
"""Share at the end of a series that is scored by default."""


class Windows(NamedTuple):
    """B origins, each the last minute that a model may use, and the values H horizons later."""

    test_from: int
    """Peers are fitted on the minutes before this one."""
    at: I64
    """[B] ascending."""
    target: F64
    """[B, H] NaN where it is missing or finer than the series' step."""


class Skipped(NamedTuple):
    """A series that is not scored, and why."""

    series: str
    reason: str


def windows(series: Series, test_from: int | None = None) -> Windows | Skipped:
    """The windows from minute `test_from` on, or the reason that there are none."""
    minutes = series.rps.size
    start = round(minutes * (1 - TEST_SHARE)) if test_from is None else test_from
    if start < LEAST_HISTORY_MIN:
        before = max(0, start)
        reason = f"{before} minutes before the test, expected at least {LEAST_HISTORY_MIN}"
        return Skipped(series.name, reason)
    coarse = too_coarse(series)
    if coarse is not None:
        return Skipped(series.name, coarse)
    # Long series start with a day of history, so that all models are scored where they have one.
    first = max(start, DAY_MINUTES) if minutes > 2 * DAY_MINUTES else start
    at = origins(series, first, minutes)
    target = targets(series, at)
    scored = ~np.isnan(target).all(axis=1)
    if not scored.any():
        return Skipped(series.name, f"no values to score from minute {first} on")
    return Windows(start, at[scored], target[scored])


def too_coarse(series: Series) -> str | None:
    """The reason that a series cannot be forecast if its step exceeds every horizon, else None."""
    if series.step_min <= max(HORIZONS_MIN):
        return None
    return f"a step of {series.step_min} minutes is longer than every horizon"


def origins(series: Series, first: int, until: int) -> I64:
    """Minutes with a value in first..until-1 at which a step of the series ends."""
    at = np.arange(max(first, 0), min(until, series.rps.size))
    # A value is known when its step ends, not while it lasts.
    ends = (at + 1) % series.step_min == 0
    valid: I64 = at[ends & ~np.isnan(series.rps[at])]
    return valid


def targets(series: Series, at: I64) -> F64:
    """[B, H] the values of the minutes t+h, NaN beyond the end and for horizons below the step."""
    found = np.full((at.size, len(HORIZONS_MIN)), np.nan)
    for index, horizon in enumerate(HORIZONS_MIN):
        inside = at + horizon < series.rps.size
        if horizon >= series.step_min:
            found[inside, index] = series.rps[at[inside] + horizon]
    return found


def sample(at: I64, most: int) -> I64:
    """Indices of at most `most` origins, evenly spaced."""
    count = min(most, at.size)
    indices: I64 = np.linspace(0, at.size - 1, count).round().astype(np.int64)
    return indices
