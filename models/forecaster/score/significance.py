"""Whether one model is better than another, or was lucky: a moving block bootstrap.

Errors of neighbouring minutes are alike, so whole stretches of windows are drawn again, and
always the errors of both models together: what the stretches differ in cancels out.
"""

from typing import Final

import numpy as np

from models.cluster.arrays import F64, I64
from models.cluster.calendar import DAY_MINUTES
from models.forecaster.port import HORIZONS_MIN, MEDIAN
from models.forecaster.score.outcome import Outcome
from models.statistics import DRAWS, NOTHING, Interval

_SEED: Final = 2024
_TAILS: Final = (0.025, 0.975)
_LEAST_BLOCKS: Final = 8


def compared(outcome: Outcome, ours: str, theirs: str, horizon_min: int) -> Interval:
    """Our absolute error over theirs on the windows that both forecast; below 1 is better."""
    place = HORIZONS_MIN.index(horizon_min)
    target = outcome.windows.target[:, place]
    mine = np.abs(target - outcome.forecasts[ours][:, place, MEDIAN])
    reference = np.abs(target - outcome.forecasts[theirs][:, place, MEDIAN])
    known = ~np.isnan(mine) & ~np.isnan(reference)
    at = outcome.windows.at[known]
    return block_ratio(mine[known], reference[known], block_length(at))


def block_length(at: I64) -> int:
    """Windows in a day, or an eighth of all, whichever is less."""
    gaps = np.diff(at)
    day = DAY_MINUTES // max(1, int(np.median(gaps))) if gaps.size else 1
    return max(1, min(day, at.size // _LEAST_BLOCKS))


def block_ratio(ours: F64, theirs: F64, length: int) -> Interval:
    """Sum of ours over the sum of theirs, with its 95 % interval over drawn blocks."""
    if not theirs.sum() > 0:
        return NOTHING
    value = float(ours.sum() / theirs.sum())
    starts = ours.size - length + 1
    if starts < 2:
        return Interval(value, np.nan, np.nan)
    blocks = -(-ours.size // length)
    drawn = np.random.default_rng(_SEED).integers(0, starts, (DRAWS, blocks))
    wholes = _block_sums(theirs, length)[drawn].sum(axis=1)
    parts = _block_sums(ours, length)[drawn].sum(axis=1)
    # A draw without any error of theirs says nothing about a ratio.
    ratios = parts[wholes > 0] / wholes[wholes > 0]
    if not ratios.size:
        return Interval(value, np.nan, np.nan)
    low, high = np.quantile(ratios, _TAILS, method="inverted_cdf")
    return Interval(value, float(low), float(high))


def _block_sums(errors: F64, length: int) -> F64:
    """[N - length + 1] sums of every stretch."""
    sums: F64 = np.lib.stride_tricks.sliding_window_view(errors, length).sum(axis=1)
    return sums
