"""Intervals that keep their promise: what is said, widened or narrowed by what came of it.

Each edge of the 80 % interval, and the peak, reaches as far from the median as nine in ten of
the locally scaled errors of the last day and a half did (rolling conformal quantiles, one for
each side, after Gibbs and Candes 2021; the local scale after Lei et al. 2018). The scale makes it
quick: the outcome of a forecast for 30 minutes ahead is half an hour away, but five-minute
forecasts tell after five, and for all horizons, that a calm hour is over.
"""

import math
from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64
from models.forecaster.learned.scores import (
    DOWN,
    PEAK,
    SCORES,
    UP,
    Pace,
    State,
    half_of,
    latest,
    scale_of,
    shift_of,
    start,
    take_in,
)
from models.forecaster.port import HIGH, HORIZONS_MIN, LOW, MEDIAN, QUANTILES
from models.forecaster.series import Mask
from models.inputs.errors import InputError
from models.jit import kernel

_WITHIN: Final = QUANTILES[HIGH]


class Settings(NamedTuple):
    """How fast it learns, and how wide it may get."""

    pace: Pace = Pace()
    least_scores: int = 20
    """Before so many scores the width that was said stands, at the local scale."""
    most_factor: float = 6.0
    """The high quantile and the peak are at most so many times the median or the usual level."""


class Calibrated(NamedTuple):
    """R rows (in a replay the minutes of one), H horizons, Q quantiles."""

    values: F64
    """[R, H, Q], not crossing and not negative."""
    peak: F64
    """[R, H] .9 quantile of the maximum until then; at least the high quantile."""
    bound: Mask
    """[R, H] where the interval or the peak would have been wider than allowed."""


DEFAULTS: Final = Settings()


def step(
    state: State, said: F64, peak: F64, came: F64, minute: int, settings: Settings = DEFAULTS
) -> tuple[Calibrated, State]:
    """Learn from what came [R] in a minute and calibrate what is said [R, H, Q] at its end.

    What came is NaN where it is missing; what is no rate counts as missing. A minute that is not
    later than the last is not learnt from again.
    """
    said, peak, came = _checked(said), _checked(peak), _known(came)
    found = _blank(said, peak)
    _step(state, minute, came, said, peak, settings, found)
    return found, state


def replay(
    said: F64, came: F64, start_min: int = 0, peak: F64 | None = None, settings: Settings = DEFAULTS
) -> Calibrated:
    """The steps of one series: said [T, H, Q] at the end of consecutive minutes, came [T]."""
    said, came = _checked(said), _known(came)
    peaks = _checked(said[..., HIGH] if peak is None else peak)
    found = _blank(said, peaks)
    _steps(start(1), start_min, came, said, peaks, settings, found)
    return found


def _blank(said: F64, peak: F64) -> Calibrated:
    return Calibrated(np.empty(said.shape), np.empty(peak.shape), np.zeros(peak.shape, np.bool_))


def _known(came: F64) -> F64:
    return np.where(np.isfinite(came) & (came >= 0.0), came, np.nan)


def _checked(said: F64) -> F64:
    """What cannot be scored must not be served either; a fallback is chosen before this."""
    if not (np.isfinite(said).all() and (said >= 0.0).all()):
        raise InputError(_UNFIT)
    return np.ascontiguousarray(said, np.float64)


_UNFIT: Final = "a forecast has values that are negative or not finite: serve another model there"


@kernel
def _steps(
    state: State,
    first: int,
    came: F64,
    said: F64,
    peak: F64,
    settings: Settings,
    found: Calibrated,
) -> None:
    """Step by step along the first axis, which is time."""
    for t in range(came.size):
        now = Calibrated(found.values[t : t + 1], found.peak[t : t + 1], found.bound[t : t + 1])
        _step(
            state,
            first + t,
            came[t : t + 1],
            said[t : t + 1],
            peak[t : t + 1],
            settings,
            now,
        )


@kernel
def _step(
    state: State,
    minute: int,
    came: F64,
    said: F64,
    peak: F64,
    settings: Settings,
    found: Calibrated,
) -> None:
    if minute > latest(state):
        take_in(state, minute, came, said, peak, settings.pace)
    for row in range(came.size):
        for at in range(len(HORIZONS_MIN)):
            _calibrate(state, row, at, said[row], peak[row, at], settings, found)


@kernel
def _calibrate(
    state: State,
    row: int,
    at: int,
    said: F64,
    peak: float,
    settings: Settings,
    found: Calibrated,
) -> None:
    """Edges at their distances; that of the low one needs no limit, as it ends at zero."""
    shift, median = shift_of(state, row, said), said[at, MEDIAN]
    least, values = settings.least_scores, found.values[row, at]
    most = settings.most_factor * max(median, state.level[row])
    down = _away(state, row, at, DOWN, half_of(said[at], peak, shift, DOWN), least)
    up = _away(state, row, at, UP, half_of(said[at], peak, shift, UP), least)
    top = max(up, _away(state, row, at, PEAK, half_of(said[at], peak, shift, PEAK), least))
    # In this form an edge at no distance is the median, bit for bit.
    values[LOW] = max(median + (median + shift) * math.expm1(-down), 0.0)
    values[MEDIAN] = median
    values[HIGH] = min(median + (median + shift) * math.expm1(up), most)
    highest = median + (median + shift) * math.expm1(top)
    found.peak[row, at] = min(highest, most)
    found.bound[row, at] = highest > most


@kernel
def _away(state: State, row: int, at: int, edge: int, half: float, least: int) -> float:
    """Distance of an edge from the median in log space."""
    return _reach(state, row, at, edge, least) * half * scale_of(state, row, at)


@kernel
def _reach(state: State, row: int, at: int, edge: int, least_scores: int) -> float:
    """How many scaled half widths nine in ten errors stayed within; never across the median."""
    count = min(state.kept[row, at, edge], SCORES)
    if count < least_scores:
        return 1.0
    place = min(math.ceil(_WITHIN * (count + 1)), count) - 1
    return max(float(state.ordered[row, at, edge, place]), 0.0)
