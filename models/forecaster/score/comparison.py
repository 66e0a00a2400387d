"""Comparison with the best simple rule: a ratio of errors per model, and whether it is luck.

Ratios are per series and horizon, on the windows that the model itself forecast, and their
geometric mean is taken over series: pooled errors would be those of the busiest series alone.

Significance is a moving block bootstrap. Errors of neighbouring minutes are correlated, so whole
blocks of windows are resampled, for both models together: differences between blocks cancel out.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec
import numpy as np

from models.cluster.arrays import F64, I64
from models.cluster.calendar import DAY_MINUTES
from models.forecaster.port import HORIZONS_MIN, MEDIAN, QUANTILES
from models.forecaster.score.evaluation import Evaluation
from models.forecaster.score.metrics import q_risk
from models.statistics import DRAWS, NOTHING, Interval

FLOORS: Final = ("last", "mean5", "mean15", "day", "week")
_LEAST: Final = 1e-3
"""Smallest ratio that counts, because one perfect cell must not decide a geometric mean."""
_SEED: Final = 2024
"""Fixed, so that a repeated benchmark prints the same interval."""
_TAILS: Final = (0.025, 0.975)
_LEAST_BLOCKS: Final = 8
"""Blocks of a short test; with fewer, resampling them says nothing about their spread."""


class Cell(msgspec.Struct, frozen=True):
    """A model's P50 q-risk on a series at a horizon, over that of the best floor."""

    series: str
    model: str
    horizon_min: int
    ratio: float
    floor: str
    """The best rule on these windows."""
    windows: int


class Headline(msgspec.Struct, frozen=True):
    """The geometric mean of a model's ratios at a horizon."""

    model: str
    horizon_min: int
    ratio: float
    series: int


class Cells(NamedTuple):
    """Cells, and notes about those without a ratio."""

    cells: tuple[Cell, ...]
    left_out: tuple[str, ...]


def cells(evaluation: Evaluation) -> Cells:
    """The cells of a series for every model, the simple rules included."""
    found: list[Cell] = []
    left_out: dict[tuple[int, str], list[str]] = {}
    for model in evaluation.forecasts:
        for index, horizon in enumerate(HORIZONS_MIN):
            cell = _cell(evaluation, model, index)
            if isinstance(cell, Cell):
                found.append(cell)
            elif cell is not None:
                left_out.setdefault((horizon, cell), []).append(model)
    lines = (
        f"{evaluation.series.name}: {', '.join(models)}: {horizon} min: no ratio, {reason}"
        for (horizon, reason), models in left_out.items()
    )
    return Cells(tuple(found), tuple(lines))


def headlines(found: Iterable[Cell]) -> tuple[Headline, ...]:
    """Geometric means over series, by model and horizon, in the order of the cells."""
    ratios: dict[tuple[str, int], list[float]] = {}
    for cell in found:
        ratios.setdefault((cell.model, cell.horizon_min), []).append(cell.ratio)
    return tuple(
        Headline(model, horizon, geometric_mean(values), len(values))
        for (model, horizon), values in ratios.items()
    )


def geometric_mean(ratios: Iterable[float]) -> float:
    """Geometric mean; ratios below _LEAST count as _LEAST."""
    return float(np.exp(np.mean(np.log(np.maximum(list(ratios), _LEAST)))))


def _cell(evaluation: Evaluation, model: str, index: int) -> Cell | str | None:
    """A cell, the reason it has no ratio, or None if the model has no forecast at this horizon."""
    target = evaluation.windows.target[:, index]
    median = evaluation.forecasts[model][:, index, MEDIAN]
    valid = ~np.isnan(target) & ~np.isnan(median)
    if not valid.any():
        return None
    # On the windows of this model: a slow one that runs at few origins may have met easier ones.
    floors = {
        name: _risk(target[valid], evaluation.forecasts[name][valid, index, MEDIAN])
        for name in FLOORS
        if name in evaluation.forecasts
    }
    if not floors:
        return "none of the simple rules was run"
    best = min(floors, key=lambda name: floors[name])
    if not floors[best] > 0:
        return "all values are zero" if np.isnan(floors[best]) else f"{best} is never wrong"
    ratio = _risk(target[valid], median[valid]) / floors[best]
    horizon = HORIZONS_MIN[index]
    return Cell(evaluation.series.name, model, horizon, ratio, best, int(valid.sum()))


def _risk(target: F64, median: F64) -> float:
    return q_risk(target, median, QUANTILES[MEDIAN])


def compared(evaluation: Evaluation, ours: str, theirs: str, horizon_min: int) -> Interval:
    """Our absolute error over theirs on the windows that both forecast; below 1 is better."""
    index = HORIZONS_MIN.index(horizon_min)
    target = evaluation.windows.target[:, index]
    our_errors = np.abs(target - evaluation.forecasts[ours][:, index, MEDIAN])
    their_errors = np.abs(target - evaluation.forecasts[theirs][:, index, MEDIAN])
    valid = ~np.isnan(our_errors) & ~np.isnan(their_errors)
    at = evaluation.windows.at[valid]
    return block_ratio(our_errors[valid], their_errors[valid], block_length(at))


def block_length(at: I64) -> int:
    """Windows per block: those of a day, or an eighth of all if that is less."""
    gaps = np.diff(at)
    # Errors of a day are correlated; with too few blocks their spread would be unknown.
    day = DAY_MINUTES // max(1, int(np.median(gaps))) if gaps.size else 1
    return max(1, min(day, at.size // _LEAST_BLOCKS))


def block_ratio(ours: F64, theirs: F64, length: int) -> Interval:
    """Sum of our errors over the sum of theirs, with its 95 % interval over resampled blocks."""
    if not theirs.sum() > 0:
        return NOTHING
    value = float(ours.sum() / theirs.sum())
    starts = ours.size - length + 1
    # A single block has no spread.
    if starts < 2:
        return Interval(value, np.nan, np.nan)
    blocks = -(-ours.size // length)
    drawn = np.random.default_rng(_SEED).integers(0, starts, (DRAWS, blocks))
    wholes = _block_sums(theirs, length)[drawn].sum(axis=1)
    # The same blocks for both models.
    parts = _block_sums(ours, length)[drawn].sum(axis=1)
    # A sample without any error of theirs has no ratio.
    ratios = parts[wholes > 0] / wholes[wholes > 0]
    if not ratios.size:
        return Interval(value, np.nan, np.nan)
    low, high = np.quantile(ratios, _TAILS, method="inverted_cdf")
    return Interval(value, float(low), float(high))


def _block_sums(errors: F64, length: int) -> F64:
    """[N - length + 1] sum of every block."""
    sums: F64 = np.lib.stride_tricks.sliding_window_view(errors, length).sum(axis=1)
    return sums
