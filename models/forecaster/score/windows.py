"""Which forecasts are scored: from which minutes on, and against what."""

from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64, I64
from models.cluster.calendar import DAY_MINUTES
from models.forecaster.port import HORIZONS_MIN, LEAST_HISTORY_MIN
from models.forecaster.series import Series

TEST_SHARE: Final = 0.2
"""The last part of a series is scored unless somebody says from when on."""


class Windows(NamedTuple):
    """B origins, each the last minute that is known, and what came H horizons later."""

    test_from: int
    """Peers that learn use what is before this minute."""
    at: I64
    """[B] rising."""
    target: F64
    """[B, H] NaN where it is missing or finer than the series' step."""


class Skipped(NamedTuple):
    """A series that is not scored, and why."""

    series: str
    reason: str


def windows(series: Series, test_from: int | None = None) -> Windows | Skipped:
    """The windows from minute `test_from` on, or why there are none."""
    minutes = series.rps.size
    start = round(minutes * (1 - TEST_SHARE)) if test_from is None else test_from
    if start < LEAST_HISTORY_MIN:
        before = max(0, start)
        reason = f"{before} minutes before the test, expected at least {LEAST_HISTORY_MIN}"
        return Skipped(series.name, reason)
    coarse = too_coarse(series)
    if coarse is not None:
        return Skipped(series.name, coarse)
    first = max(start, DAY_MINUTES) if minutes > 2 * DAY_MINUTES else start
    at = origins(series, first, minutes)
    target = targets(series, at)
    scored = ~np.isnan(target).all(axis=1)
    if not scored.any():
        return Skipped(series.name, f"no known values to score from minute {first} on")
    return Windows(start, at[scored], target[scored])


def too_coarse(series: Series) -> str | None:
    """Why nothing can be said of a series, if its values stand for too long."""
    if series.step_min <= max(HORIZONS_MIN):
        return None
    return f"a step of {series.step_min} minutes is longer than every horizon"


def origins(series: Series, first: int, until: int) -> I64:
    """Known minutes in first..until-1 at which a step of the series ends."""
    at = np.arange(max(first, 0), min(until, series.rps.size))
    ends = (at + 1) % series.step_min == 0
    known: I64 = at[ends & ~np.isnan(series.rps[at])]
    return known


def targets(series: Series, at: I64) -> F64:
    """[B, H] the values of the minutes t+h, NaN beyond the end and for horizons below the step."""
    found = np.full((at.size, len(HORIZONS_MIN)), np.nan)
    for place, horizon in enumerate(HORIZONS_MIN):
        inside = at + horizon < series.rps.size
        if horizon >= series.step_min:
            found[inside, place] = series.rps[at[inside] + horizon]
    return found


def sample(at: I64, most: int) -> I64:
    """Places of at most `most` origins, evenly spaced."""
    count = min(most, at.size)
    places: I64 = np.linspace(0, at.size - 1, count).round().astype(np.int64)
    return places
