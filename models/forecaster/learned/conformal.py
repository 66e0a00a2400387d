"""Conformal calibration: widens or narrows intervals until they cover what they should.

Each edge of the 80 % interval, and the peak, is placed as far from the median as 90 % of the
locally scaled errors of the last day and a half were (rolling conformal quantiles, one for each
side, after Gibbs and Candes 2021; the local scale after Lei et al. 2018). The local scale makes it
fast: the outcome of a 30-minute forecast is half an hour away, but five-minute forecasts show
after five minutes, for all horizons, that a calm hour is over.
"""

import math
from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64, Mask
from models.forecaster.learned.scores import (
    DOWN,
    PEAK,
    SCORES,
    UP,
    Pace,
    State,
    add_minute,
    half_width,
    last_minute,
    local_scale,
    log_shift,
    start,
)
from models.forecaster.port import HIGH, HORIZONS_MIN, LOW, MEDIAN, QUANTILES
from models.inputs.errors import InputError
from models.jit import kernel

# Each side leaves out 10 %, so that both together cover 80 %.
_WITHIN: Final = QUANTILES[HIGH]


class Settings(NamedTuple):
    """How fast the calibration adapts, and how wide intervals may get."""

    pace: Pace = Pace()
    least_scores: int = 20
    """With fewer scores the forecast's own width is used, at the local scale."""
    most_factor: float = 6.0
    """Limit of the high quantile and the peak, as a multiple of the median or the usual level."""


class Calibrated(NamedTuple):
    """R rows (in a replay the minutes of one row), H horizons, Q quantiles."""

    values: F64
    """[R, H, Q], not crossing and not negative."""
    peak: F64
    """[R, H] .9 quantile of the highest minute until then; at least the high quantile."""
    bound: Mask
    """[R, H] where the interval or the peak was limited."""


DEFAULTS: Final = Settings()


def step(
    state: State, forecast: F64, peak: F64, actual: F64, minute: int, settings: Settings = DEFAULTS
) -> tuple[Calibrated, State]:
    """Add the traffic [R] of a minute, and calibrate the forecast [R, H, Q] of its end.

    Traffic is NaN where it is missing; invalid rates count as missing. A minute that is not later
    than the last one is not added again.
    """
    forecast, peak, actual = _checked(forecast), _checked(peak), _valid_or_nan(actual)
    found = _blank(forecast, peak)
    _step(state, minute, actual, forecast, peak, settings, found)
    return found, state


def replay(
    forecast: F64,
    actual: F64,
    start_min: int = 0,
    peak: F64 | None = None,
    settings: Settings = DEFAULTS,
) -> Calibrated:
    """The steps of one series: forecasts [T, H, Q] of consecutive minutes, and traffic [T]."""
    forecast, actual = _checked(forecast), _valid_or_nan(actual)
    peaks = _checked(forecast[..., HIGH] if peak is None else peak)
    found = _blank(forecast, peaks)
    _steps(start(1), start_min, actual, forecast, peaks, settings, found)
    return found


def _blank(forecast: F64, peak: F64) -> Calibrated:
    bound = np.zeros(peak.shape, np.bool_)
    return Calibrated(np.empty(forecast.shape), np.empty(peak.shape), bound)


def _valid_or_nan(actual: F64) -> F64:
    return np.where(np.isfinite(actual) & (actual >= 0.0), actual, np.nan)


def _checked(forecast: F64) -> F64:
    """Reject values that cannot be scored; the caller replaces unusable forecasts before this."""
    if not (np.isfinite(forecast).all() and (forecast >= 0.0).all()):
        raise InputError(_UNUSABLE)
    # numba compiles a kernel again for every other memory layout.
    return np.ascontiguousarray(forecast, np.float64)


_UNUSABLE: Final = (
    "a forecast has values that are negative or not finite: serve another model there"
)


@kernel
def _steps(
    state: State,
    first: int,
    actual: F64,
    forecast: F64,
    peak: F64,
    settings: Settings,
    found: Calibrated,
) -> None:
    """Step along the first axis, which is time."""
    for t in range(actual.size):
        now = Calibrated(found.values[t : t + 1], found.peak[t : t + 1], found.bound[t : t + 1])
        _step(
            state,
            first + t,
            actual[t : t + 1],
            forecast[t : t + 1],
            peak[t : t + 1],
            settings,
            now,
        )


@kernel
def _step(
    state: State,
    minute: int,
    actual: F64,
    forecast: F64,
    peak: F64,
    settings: Settings,
    found: Calibrated,
) -> None:
    # A repeated minute is calibrated again, but must not be scored twice.
    if minute > last_minute(state):
        add_minute(state, minute, actual, forecast, peak, settings.pace)
    for row in range(actual.size):
        for at in range(len(HORIZONS_MIN)):
            _calibrate(state, row, at, forecast[row], peak[row, at], settings, found)


@kernel
def _calibrate(
    state: State,
    row: int,
    at: int,
    forecast: F64,
    peak: float,
    settings: Settings,
    found: Calibrated,
) -> None:
    """Place the edges; the low one needs no limit because it ends at zero."""
    shift, median = log_shift(state, row, forecast), forecast[at, MEDIAN]
    least, values = settings.least_scores, found.values[row, at]
    # The usual level counts too: at standstill a multiple of the median would be zero.
    most = settings.most_factor * max(median, state.level[row])
    down_half = half_width(forecast[at], peak, shift, DOWN)
    up_half = half_width(forecast[at], peak, shift, UP)
    peak_half = half_width(forecast[at], peak, shift, PEAK)
    down = _distance(state, row, at, DOWN, down_half, least)
    up = _distance(state, row, at, UP, up_half, least)
    # The highest minute until a horizon is at least the minute at the horizon.
    top = max(up, _distance(state, row, at, PEAK, peak_half, least))
    # In this form an edge at distance 0 equals the median, bit for bit.
    values[LOW] = max(median + (median + shift) * math.expm1(-down), 0.0)
    values[MEDIAN] = median
    values[HIGH] = min(median + (median + shift) * math.expm1(up), most)
    highest = median + (median + shift) * math.expm1(top)
    found.peak[row, at] = min(highest, most)
    found.bound[row, at] = highest > most


@kernel
def _distance(state: State, row: int, at: int, edge: int, half: float, least: int) -> float:
    """Distance of an edge from the median in log space."""
    return _reach(state, row, at, edge, least) * half * local_scale(state, row, at)


@kernel
def _reach(state: State, row: int, at: int, edge: int, least_scores: int) -> float:
    """Scaled half widths that 90 % of the errors stayed within; at least 0."""
    count = min(state.stored[row, at, edge], SCORES)
    if count < least_scores:
        return 1.0
    # The finite-sample quantile of conformal prediction: `count` + 1 includes the coming outcome.
    index = min(math.ceil(_WITHIN * (count + 1)), count) - 1
    # A negative reach would move the edge across the median.
    return max(float(state.ordered[row, at, edge, index]), 0.0)
