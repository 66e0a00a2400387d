"""Two controllers on the same seeds: ratios and differences with bootstrap intervals.

A seed gives both controllers the same traffic, churn and faults. So the bootstrap draws whole
seeds, never the two figures of a seed apart: differences between seeds cancel out.
"""

from functools import cache
from typing import Final

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

F64 = NDArray[np.float64]

DRAWS: Final = 10_000
_SEED: Final = 2024
_TAILS: Final = (0.025, 0.975)
_DOUBT: Final = 0.05
"""Share of draws without a gap to close above which the gap itself is in doubt."""


class Interval(msgspec.Struct, frozen=True):
    """An estimate with its 95 % interval; NaN where the figures allow none."""

    value: float
    low: float
    high: float


NOTHING: Final = Interval(np.nan, np.nan, np.nan)


def mean(values: ArrayLike) -> Interval:
    """The mean over the seeds."""
    figures = _figures(values)
    return _interval(float(figures.mean()), _sums(figures) / figures.size, figures.size)


def ratio(ours: ArrayLike, theirs: ArrayLike) -> Interval:
    """Sum over the seeds of ours, over the sum of theirs.

    A ratio of sums, not a mean of ratios: a seed in which hardly anything happened would count as
    much as the worst one.
    """
    mine, reference = _figures(ours), _figures(theirs)
    whole = float(reference.sum())
    if whole <= 0:
        return NOTHING
    with np.errstate(divide="ignore", invalid="ignore"):
        draws = _sums(mine) / _sums(reference)
    return _interval(float(mine.sum()) / whole, draws, mine.size)


def relative_difference(ours: ArrayLike, theirs: ArrayLike) -> Interval:
    """Mean paired difference over their mean; below zero, ours is less."""
    found = ratio(ours, theirs)
    return Interval(found.value - 1, found.low - 1, found.high - 1)


def gap_closed(ours: ArrayLike, theirs: ArrayLike, best: ArrayLike) -> Interval:
    """Share of the gap between theirs and the best possible that ours closes; 1 is all of it."""
    mine, reference, ideal = _figures(ours), _figures(theirs), _figures(best)
    won, gap = reference - mine, reference - ideal
    whole = float(gap.sum())
    if whole <= 0:
        return NOTHING
    value, wins, gaps = float(won.sum()) / whole, _sums(won), _sums(gap)
    # A share of a gap of zero or less has no meaning; with many such draws no interval has.
    real = gaps > 0
    if real.mean() < 1 - _DOUBT:
        return Interval(value, np.nan, np.nan)
    return _interval(value, wins[real] / gaps[real], gap.size)


def _figures(values: ArrayLike) -> F64:
    return np.asarray(values, np.float64)


def _sums(figures: F64) -> F64:
    """[DRAWS] sums over seeds drawn with replacement."""
    return _draws(figures.size) @ figures


@cache
def _draws(seeds: int) -> F64:
    """[DRAWS, seeds] how often each seed was drawn; the same for every figure."""
    # The same draws for every figure and every run: reports can be compared and repeated.
    generator = np.random.default_rng(_SEED)
    return generator.multinomial(seeds, np.full(seeds, 1 / seeds), DRAWS).astype(np.float64)


def _interval(value: float, draws: F64, seeds: int) -> Interval:
    """Percentiles of the draws; one seed has no spread, so it gives no interval."""
    known = draws[~np.isnan(draws)]
    if seeds < 2 or known.size == 0:
        return Interval(value, np.nan, np.nan)
    # Don't interpolate: a draw without any violations of theirs is infinite.
    low, high = np.quantile(known, _TAILS, method="inverted_cdf")
    return Interval(value, float(low), float(high))
