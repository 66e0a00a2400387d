"""Two controllers on the same seeds: ratios and differences with bootstrap intervals.

A seed gives both controllers the same traffic, churn and faults. So the bootstrap draws whole
seeds, never the two figures of a seed apart: differences between seeds cancel out.
"""

from collections.abc import Callable
from functools import cache
from typing import Final

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

F64 = NDArray[np.float64]

DRAWS: Final = 10_000
_NESTED_DRAWS: Final = 2_000
"""Draws of scenarios and seeds; fewer, because each computes its figure anew."""
_SEED: Final = 2024
_TAILS: Final = (0.025, 0.975)
_DOUBT: Final = 0.05
"""Share of draws without a figure above which there is no interval."""


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


def resampled(figure: Callable[[F64], float], shape: tuple[int, int]) -> Interval:
    """A figure of weights [scenarios, seeds], with its interval over draws of both.

    Seeds alone say how much chance moves a result in these scenarios. Drawing scenarios as well
    says how much it depends on which scenarios were chosen, which is usually far more.
    """
    scenarios, seeds = shape
    value = float(figure(np.ones(shape)))
    generator = np.random.default_rng(_SEED)
    draws = np.empty(_NESTED_DRAWS)
    for draw in range(_NESTED_DRAWS):
        chosen = generator.multinomial(scenarios, np.full(scenarios, 1 / scenarios))
        kept = generator.multinomial(seeds, np.full(seeds, 1 / seeds))
        draws[draw] = figure(np.outer(chosen, kept).astype(np.float64))
    # One scenario has no spread between scenarios, but its seeds have.
    if np.isnan(draws).mean() > _DOUBT:
        return Interval(value, np.nan, np.nan)
    return _interval(value, draws, scenarios * seeds)


def ratio_over_scenarios(ours: F64, theirs: F64) -> Interval:
    """Ratio of sums of figures [scenarios, seeds], both drawn with replacement."""

    def figure(weights: F64) -> float:
        whole = float((theirs * weights).sum())
        return float((ours * weights).sum()) / whole if whole > 0 else np.nan

    return resampled(figure, ours.shape)


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
