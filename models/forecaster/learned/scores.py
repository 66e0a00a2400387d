"""State of the calibration: pending forecasts, and scores of those whose outcome is known.

An error is the distance of the actual value from the forecast median, in log space. Its score is
the error in units of the forecast's half width times the local scale: how wrong five-minute
forecasts were in the last minutes, relative to how wrong forecasts usually are.
"""

import math
from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F32, F64, I64
from models.forecaster.port import HIGH, HORIZONS_MIN, LOW, MEDIAN
from models.jit import kernel

SCORES: Final = 288
"""Stored scores per row, horizon and edge: a day and a half, as every seventh is stored."""
EDGES: Final = 3
DOWN, UP, PEAK = range(EDGES)
"""The low quantile, the high quantile, and the high quantile of the peak."""
SLOTS: Final = max(HORIZONS_MIN) + 1
"""Minutes whose forecasts wait for their outcome: the longest horizon, and the newest minute."""
_NEVER: Final = -(2**40)
"""Far before every minute, and subtracted from one without overflow."""
_SHIFT: Final = 0.05
"""Share of the usual level that is added before taking logarithms, so that zero is not infinitely
far away."""
_TINY: Final = 1e-9
# Smallest divisors, chosen by hand. A model without any width, or one that was right for a day,
# would otherwise make the next small error an enormous score.
_LEAST_HALF: Final = 0.01
_LEAST_SCALE: Final = 0.02
_LEAST_ROOT: Final = 0.1
# E(sqrt|z|) = 2**(1/4) gamma(3/4) / sqrt(pi) = 0.822, over the root of 1.2816, the .9 quantile.
_MEAN_ROOT: Final = 0.726
"""Mean square root of an error over the half width of an 80 % interval, for normal errors."""
# What was tried instead of following the last ten minutes is in decision 0011; for the two powers
# themselves no comparison is on record.
_CARRIED: Final = (1.0, 0.95, 0.9)
"""Power of the local scale at each horizon, because unrest does not always last."""
_CALM: Final = 0.8
"""The same in calm times, because traffic that swung an hour ago may still swing back."""
_MOST_SCORE: Final = 100.0
"""Bound of a score. Beyond it only the order counts, and quantiles need no more than that."""
_LEAST_PRESENT: Final = 0.8
"""Share of the minutes until a peak's horizon that must have a value for the peak to be scored."""


class Pace(NamedTuple):
    """How fast the calibration adapts."""

    local_min: float = 10.0
    """Minutes that the local scale is a mean of: fewer adapt faster and widen intervals."""
    usual_min: float = 1440.0
    """Minutes that the usual scale and level are means of."""
    most_wrong: float = 2.0
    """Limit of the square root of one error, as a multiple of the usual or the local one, because a
    single jump is not unrest. Traffic that becomes eight times as volatile is followed some minutes
    later for it."""
    store_every: int = 7
    """Every n-th score is stored; coprime to 60, so that all minutes of the hour are covered."""


class State(NamedTuple):
    """R rows, S slots of minutes, H horizons, 3 edges, N scores. Arrays are updated in place."""

    made: I64
    """[S] minute in which a slot's forecast was made."""
    actual: F64
    """[R, S] traffic of that minute; NaN where it is missing."""
    median: F64
    """[R, S, H] forecast median."""
    shift: F64
    """[R, S] added before taking logarithms."""
    half: F64
    """[R, S, H, 3] distance of the forecast edges from the median, in log space."""
    scale: F64
    """[R, S, H] local scale when it was made."""
    level: F64
    """[R] usual level."""
    minutes: I64
    """[R] minutes with a value."""
    local: F64
    """[R] recent error of five-minute forecasts, as a mean of square roots; 1 is as forecast."""
    usual: F64
    """[R, H] usual error, likewise."""
    outcomes: I64
    """[R, H] number of forecasts whose outcome is known."""
    recent: F32
    """[R, H, 3, N] stored scores, as a ring buffer."""
    ordered: F32
    """[R, H, 3, N] the same, sorted."""
    stored: I64
    """[R, H, 3] number of scores stored so far, overwritten ones included."""


def start(rows: int) -> State:
    """A state without outcomes, with which forecasts stay as they are."""
    horizons = len(HORIZONS_MIN)
    by_slot = (rows, SLOTS, horizons)
    by_edge = (rows, horizons, EDGES)
    return State(
        made=np.full(SLOTS, _NEVER, np.int64),
        actual=np.full((rows, SLOTS), np.nan),
        median=np.zeros(by_slot),
        shift=np.full((rows, SLOTS), _TINY),
        half=np.ones((*by_slot, EDGES)),
        scale=np.ones(by_slot),
        level=np.zeros(rows),
        minutes=np.zeros(rows, np.int64),
        local=np.ones(rows),
        usual=np.ones((rows, horizons)),
        outcomes=np.zeros((rows, horizons), np.int64),
        recent=np.zeros((*by_edge, SCORES), np.float32),
        ordered=np.zeros((*by_edge, SCORES), np.float32),
        stored=np.zeros(by_edge, np.int64),
    )


@kernel
def last_minute(state: State) -> int:
    """The last minute that was added."""
    found = _NEVER
    for slot in range(SLOTS):
        found = max(found, state.made[slot])
    return found


@kernel
def add_minute(
    state: State, minute: int, actual: F64, forecast: F64, peak: F64, pace: Pace
) -> None:
    """Score forecasts by the traffic [R] of a minute, then store those [R, H, Q] of its end."""
    slot = minute % SLOTS
    state.made[slot] = minute
    for row in range(actual.size):
        state.actual[row, slot] = actual[row]
        # False for NaN: a missing minute is no outcome.
        if actual[row] >= 0.0:
            state.minutes[row] += 1
            weight = 1.0 / min(float(state.minutes[row]), pace.usual_min)
            state.level[row] += weight * (actual[row] - state.level[row])
            _add_outcome(state, row, minute, actual[row], pace)
        _add_forecast(state, row, slot, forecast[row], peak[row])


@kernel
def _add_outcome(state: State, row: int, minute: int, actual: float, pace: Pace) -> None:
    """Each horizon has at most one forecast about this minute."""
    for at in range(len(HORIZONS_MIN)):
        slot = (minute - HORIZONS_MIN[at]) % SLOTS
        # After skipped minutes a slot still holds an older forecast.
        if state.made[slot] != minute - HORIZONS_MIN[at]:
            continue
        error = _distance(state, row, slot, at, actual)
        _rescale(state, row, slot, at, abs(error), pace)
        # A correctly forecast standstill says nothing about the time after it.
        still = state.scale[row, slot, at] <= _LEAST_SCALE
        if state.outcomes[row, at] % pace.store_every != 0 or still:
            continue
        _add_score(state, row, slot, at, DOWN, -error)
        _add_score(state, row, slot, at, UP, error)
        highest = _highest(state.actual[row], state.made, minute, HORIZONS_MIN[at])
        if highest >= 0.0:
            _add_score(state, row, slot, at, PEAK, _distance(state, row, slot, at, highest))


@kernel
def _distance(state: State, row: int, slot: int, at: int, actual: float) -> float:
    shift = state.shift[row, slot]
    return math.log((actual + shift) / (state.median[row, slot, at] + shift))


@kernel
def _rescale(state: State, row: int, slot: int, at: int, error: float, pace: Pace) -> None:
    """Update the running means; the first outcomes weigh more, as nothing precedes them."""
    half = 0.5 * (state.half[row, slot, at, DOWN] + state.half[row, slot, at, UP])
    # Square roots, so that one odd minute does not count as an hour of unrest.
    wrong = math.sqrt(error / half) / _MEAN_ROOT
    expected = max(state.usual[row, at], state.local[row], _LEAST_ROOT)
    wrong = min(wrong, pace.most_wrong * expected)
    state.outcomes[row, at] += 1
    # The forecast width itself counts as the first outcome.
    count = float(state.outcomes[row, at] + 1)
    state.usual[row, at] += (wrong - state.usual[row, at]) / min(count, pace.usual_min)
    # The shortest horizon sets the local scale of all, because its outcomes are known first.
    if at == 0:
        state.local[row] += (wrong - state.local[row]) / min(count, pace.local_min)


@kernel
def _highest(actual: F64, made: I64, minute: int, horizon: int) -> float:
    """The highest of the minutes of a horizon that ends now; -1 if too few have a value."""
    highest, present = -1.0, 0
    for back in range(horizon):
        slot = (minute - back) % SLOTS
        if made[slot] == minute - back and actual[slot] >= 0.0:
            highest = max(highest, actual[slot])
            present += 1
    return highest if present >= _LEAST_PRESENT * horizon else -1.0


@kernel
def _add_score(state: State, row: int, slot: int, at: int, edge: int, error: float) -> None:
    """Replace the oldest score, in the ring and in sorted order."""
    reach = state.half[row, slot, at, edge] * state.scale[row, slot, at]
    # Rounded before it is stored: `_remove` searches the sorted row for exactly these bits.
    score = np.float32(min(max(error / reach, -_MOST_SCORE), _MOST_SCORE))
    recent, ordered = state.recent[row, at, edge], state.ordered[row, at, edge]
    stored = state.stored[row, at, edge]
    index = stored % SCORES
    count = min(stored, SCORES)
    if stored >= SCORES:
        count -= 1
        _remove(ordered, recent[index])
    _insert(ordered, count, score)
    recent[index] = score
    state.stored[row, at, edge] = stored + 1


@kernel
def _remove(ordered: F32, score: np.float32) -> None:
    """Remove a score from a full row; its last element is then free."""
    found = 0
    while ordered[found] != score:
        found += 1
    for index in range(found, ordered.size - 1):
        ordered[index] = ordered[index + 1]


@kernel
def _insert(ordered: F32, count: int, score: np.float32) -> None:
    index = count
    while index > 0 and ordered[index - 1] > score:
        ordered[index] = ordered[index - 1]
        index -= 1
    ordered[index] = score


@kernel
def _add_forecast(state: State, row: int, slot: int, forecast: F64, peak: F64) -> None:
    """Store a forecast until its outcome is known."""
    shift = log_shift(state, row, forecast)
    state.shift[row, slot] = shift
    for at in range(len(HORIZONS_MIN)):
        state.median[row, slot, at] = forecast[at, MEDIAN]
        state.scale[row, slot, at] = local_scale(state, row, at)
        for edge in range(EDGES):
            state.half[row, slot, at, edge] = half_width(forecast[at], peak[at], shift, edge)


@kernel
def log_shift(state: State, row: int, forecast: F64) -> float:
    """What is added before taking logarithms; before the first minute, from the forecast."""
    level = state.level[row] if state.minutes[row] > 0 else forecast[0, MEDIAN]
    return float(max(_SHIFT * level, _TINY))


@kernel
def local_scale(state: State, row: int, at: int) -> float:
    """How wrong forecasts are now, in half widths of the forecast."""
    usual = max(state.usual[row, at], _LEAST_ROOT)
    # Relative to the usual error of five-minute forecasts, which `local` is a mean of.
    local = max(state.local[row], _LEAST_ROOT) / max(state.usual[row, 0], _LEAST_ROOT)
    power = _CARRIED[at] if local > 1.0 else _CALM
    # Means of square roots are squared to be errors again.
    return float(max((usual * local**power) ** 2, _LEAST_SCALE))


@kernel
def half_width(forecast: F64, peak: float, shift: float, edge: int) -> float:
    """Distance of a forecast edge from the median, in log space."""
    median = forecast[MEDIAN] + shift
    if edge == DOWN:
        return max(math.log(median / (forecast[LOW] + shift)), _LEAST_HALF)
    return max(math.log(((forecast[HIGH] if edge == UP else peak) + shift) / median), _LEAST_HALF)
