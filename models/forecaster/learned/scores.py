"""What calibration remembers: forecasts that wait for their outcome, and how wrong others were.

An error is the distance of what came from the median, in log space. Its score is that distance
in units of the half width that was said and of the local scale: how wrong five-minute forecasts
were in the minutes before, against how wrong forecasts usually are.
"""

import math
from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F32, F64, I64
from models.forecaster.port import HIGH, HORIZONS_MIN, LOW, MEDIAN
from models.jit import kernel

SCORES: Final = 288
"""Scores that are remembered per row, horizon and edge."""
EDGES: Final = 3
DOWN, UP, PEAK = range(EDGES)
"""The low quantile, the high quantile, and the high quantile of the peak."""
SLOTS: Final = max(HORIZONS_MIN) + 1
_NEVER: Final = -(2**40)
_SHIFT: Final = 0.05
"""Of the usual level, added before logarithms are taken: zero is not infinitely far away."""
_TINY: Final = 1e-9
_LEAST_HALF: Final = 0.01
_LEAST_SCALE: Final = 0.02
_LEAST_ROOT: Final = 0.1
_MEAN_ROOT: Final = 0.726
"""Mean root of an error over the half width of an 80 % interval, where errors are normal."""
_CARRIED: Final = (1.0, 0.95, 0.9)
"""Power of the local scale that is believed at each horizon: unrest does not always last."""
_CALM: Final = 0.8
"""The same where it is calm: what was swinging an hour ago still has to swing back."""
_MOST_SCORE: Final = 100.0
_WHOLE: Final = 0.8
"""Share of the minutes until a peak's horizon that must be known for it to be judged."""


class Pace(NamedTuple):
    """How fast is learnt."""

    local_min: float = 10.0
    """Minutes of which the local scale is a mean: shorter is quicker, and wider on average."""
    usual_min: float = 1440.0
    """Minutes of which the usual scale and level are means."""
    most_wrong: float = 2.0
    """Times the usual root, or that of the last minutes where it is larger, that the root of one
    error counts at most: a jump is not unrest. What has become eight times as wild is followed
    some minutes later for it."""
    keep_every: int = 7
    """Of the scores every n-th is remembered; coprime to 60, so that no minute is left out."""


class State(NamedTuple):
    """R rows, S slots of minutes, H horizons, 3 edges, N scores. Updated in place."""

    made: I64
    """[S] minute in which a slot's forecast was made."""
    came: F64
    """[R, S] what came in that minute; NaN where it is missing."""
    median: F64
    """[R, S, H] as it was said."""
    shift: F64
    """[R, S] added before logarithms are taken."""
    half: F64
    """[R, S, H, 3] distance of the edges from the median, as it was said, in log space."""
    scale: F64
    """[R, S, H] local scale at that time."""
    level: F64
    """[R] usual level."""
    minutes: I64
    """[R] minutes with a value."""
    local: F64
    """[R] how wrong five-minute forecasts were lately, as a mean of roots; 1 is as said."""
    usual: F64
    """[R, H] how wrong forecasts usually are."""
    outcomes: I64
    """[R, H] forecasts whose outcome is known."""
    recent: F32
    """[R, H, 3, N] remembered scores, in a ring."""
    ordered: F32
    """[R, H, 3, N] the same by size."""
    kept: I64
    """[R, H, 3] scores ever remembered."""


def start(rows: int) -> State:
    """Nothing is known, and what is said is believed."""
    horizons = len(HORIZONS_MIN)
    by_slot = (rows, SLOTS, horizons)
    by_edge = (rows, horizons, EDGES)
    return State(
        made=np.full(SLOTS, _NEVER, np.int64),
        came=np.full((rows, SLOTS), np.nan),
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
        kept=np.zeros(by_edge, np.int64),
    )


@kernel
def latest(state: State) -> int:
    """The last minute that was taken in."""
    found = _NEVER
    for slot in range(SLOTS):
        found = max(found, state.made[slot])
    return found


@kernel
def take_in(state: State, minute: int, came: F64, said: F64, peak: F64, pace: Pace) -> None:
    """Learn from what came [R] in a minute, then note what is said [R, H, Q] at its end."""
    slot = minute % SLOTS
    state.made[slot] = minute
    for row in range(came.size):
        state.came[row, slot] = came[row]
        if came[row] >= 0.0:
            state.minutes[row] += 1
            weight = 1.0 / min(float(state.minutes[row]), pace.usual_min)
            state.level[row] += weight * (came[row] - state.level[row])
            _judge(state, row, minute, came[row], pace)
        _note(state, row, slot, said[row], peak[row])


@kernel
def _judge(state: State, row: int, minute: int, came: float, pace: Pace) -> None:
    """Each horizon has one forecast that was about this minute, if it was made."""
    for at in range(len(HORIZONS_MIN)):
        slot = (minute - HORIZONS_MIN[at]) % SLOTS
        if state.made[slot] != minute - HORIZONS_MIN[at]:
            continue
        error = _distance(state, row, slot, at, came)
        _rescale(state, row, slot, at, abs(error), pace)
        # A standstill that was foreseen teaches nothing about the time after it.
        still = state.scale[row, slot, at] <= _LEAST_SCALE
        if state.outcomes[row, at] % pace.keep_every != 0 or still:
            continue
        _remember(state, row, slot, at, DOWN, -error)
        _remember(state, row, slot, at, UP, error)
        highest = _highest(state.came[row], state.made, minute, HORIZONS_MIN[at])
        if highest >= 0.0:
            _remember(state, row, slot, at, PEAK, _distance(state, row, slot, at, highest))


@kernel
def _distance(state: State, row: int, slot: int, at: int, came: float) -> float:
    shift = state.shift[row, slot]
    return math.log((came + shift) / (state.median[row, slot, at] + shift))


@kernel
def _rescale(state: State, row: int, slot: int, at: int, error: float, pace: Pace) -> None:
    """Running means; the first outcomes weigh more, as there is nothing before them."""
    half = 0.5 * (state.half[row, slot, at, DOWN] + state.half[row, slot, at, UP])
    # Roots, because one odd minute does not make an hour of unrest.
    wrong = math.sqrt(error / half) / _MEAN_ROOT
    known = max(state.usual[row, at], state.local[row], _LEAST_ROOT)
    wrong = min(wrong, pace.most_wrong * known)
    state.outcomes[row, at] += 1
    # One more than were seen: what was said counts as the first.
    seen = float(state.outcomes[row, at] + 1)
    state.usual[row, at] += (wrong - state.usual[row, at]) / min(seen, pace.usual_min)
    if at == 0:
        state.local[row] += (wrong - state.local[row]) / min(seen, pace.local_min)


@kernel
def _highest(came: F64, made: I64, minute: int, horizon: int) -> float:
    """The highest of the minutes of a horizon that ends now; -1 where too few are known."""
    highest, known = -1.0, 0
    for back in range(horizon):
        slot = (minute - back) % SLOTS
        if made[slot] == minute - back and came[slot] >= 0.0:
            highest = max(highest, came[slot])
            known += 1
    return highest if known >= _WHOLE * horizon else -1.0


@kernel
def _remember(state: State, row: int, slot: int, at: int, edge: int, error: float) -> None:
    """Put a score in the place of the oldest, in both orders."""
    reach = state.half[row, slot, at, edge] * state.scale[row, slot, at]
    score = np.float32(min(max(error / reach, -_MOST_SCORE), _MOST_SCORE))
    recent, ordered = state.recent[row, at, edge], state.ordered[row, at, edge]
    kept = state.kept[row, at, edge]
    place = kept % SCORES
    count = min(kept, SCORES)
    if kept >= SCORES:
        count -= 1
        _drop(ordered, recent[place])
    _insert(ordered, count, score)
    recent[place] = score
    state.kept[row, at, edge] = kept + 1


@kernel
def _drop(ordered: F32, score: np.float32) -> None:
    """Remove a score from a full row; its last place is then free."""
    place = 0
    while ordered[place] != score:
        place += 1
    for index in range(place, ordered.size - 1):
        ordered[index] = ordered[index + 1]


@kernel
def _insert(ordered: F32, count: int, score: np.float32) -> None:
    place = count
    while place > 0 and ordered[place - 1] > score:
        ordered[place] = ordered[place - 1]
        place -= 1
    ordered[place] = score


@kernel
def _note(state: State, row: int, slot: int, said: F64, peak: F64) -> None:
    """What is said waits for its outcome."""
    shift = shift_of(state, row, said)
    state.shift[row, slot] = shift
    for at in range(len(HORIZONS_MIN)):
        state.median[row, slot, at] = said[at, MEDIAN]
        state.scale[row, slot, at] = scale_of(state, row, at)
        for edge in range(EDGES):
            state.half[row, slot, at, edge] = half_of(said[at], peak[at], shift, edge)


@kernel
def shift_of(state: State, row: int, said: F64) -> float:
    """What is added before logarithms are taken; before the first minute by what is said."""
    level = state.level[row] if state.minutes[row] > 0 else said[0, MEDIAN]
    return float(max(_SHIFT * level, _TINY))


@kernel
def scale_of(state: State, row: int, at: int) -> float:
    """How wrong forecasts are now, in half widths that were said."""
    usual = max(state.usual[row, at], _LEAST_ROOT)
    lately = max(state.local[row], _LEAST_ROOT) / max(state.usual[row, 0], _LEAST_ROOT)
    power = _CARRIED[at] if lately > 1.0 else _CALM
    return float(max((usual * lately**power) ** 2, _LEAST_SCALE))


@kernel
def half_of(said: F64, peak: float, shift: float, edge: int) -> float:
    """Distance of an edge from the median, as it is said, in log space."""
    median = said[MEDIAN] + shift
    if edge == DOWN:
        return max(math.log(median / (said[LOW] + shift)), _LEAST_HALF)
    return max(math.log(((said[HIGH] if edge == UP else peak) + shift) / median), _LEAST_HALF)
