"""One figure per model: how its error compares with the best simple rule.

Per series and horizon, on the windows that the model itself forecast, and then the geometric
mean over series. Pooled errors would be those of the busiest series alone.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec
import numpy as np

from models.cluster.arrays import F64
from models.forecaster.port import HORIZONS_MIN, MEDIAN, QUANTILES
from models.forecaster.score.metrics import q_risk
from models.forecaster.score.outcome import Outcome

FLOORS: Final = ("last", "mean5", "mean15", "day", "week")
_LEAST: Final = 1e-3
"""A ratio below this counts as this: one perfect cell must not decide a geometric mean."""


class Cell(msgspec.Struct, frozen=True):
    """A model's P50 q-risk on a series at a horizon, over that of the best floor."""

    series: str
    model: str
    horizon_min: int
    ratio: float
    floor: str
    """Which rule was the best on these windows."""
    windows: int


class Headline(msgspec.Struct, frozen=True):
    """The geometric mean of a model's ratios at a horizon."""

    model: str
    horizon_min: int
    ratio: float
    series: int


class Cells(NamedTuple):
    """Cells, and lines about those that could not be made."""

    cells: tuple[Cell, ...]
    left_out: tuple[str, ...]


def cells(outcome: Outcome) -> Cells:
    """A series' cells of every model, the floors included."""
    found: list[Cell] = []
    left_out: dict[tuple[int, str], list[str]] = {}
    for model in outcome.forecasts:
        for place, horizon in enumerate(HORIZONS_MIN):
            cell = _cell(outcome, model, place)
            if isinstance(cell, Cell):
                found.append(cell)
            elif cell is not None:
                left_out.setdefault((horizon, cell), []).append(model)
    lines = (
        f"{outcome.series.name}: {', '.join(models)}: {horizon} min: no ratio, {reason}"
        for (horizon, reason), models in left_out.items()
    )
    return Cells(tuple(found), tuple(lines))


def headlines(found: Iterable[Cell]) -> tuple[Headline, ...]:
    """Geometric means over series, by model and horizon in the order they came."""
    ratios: dict[tuple[str, int], list[float]] = {}
    for cell in found:
        ratios.setdefault((cell.model, cell.horizon_min), []).append(cell.ratio)
    return tuple(
        Headline(model, horizon, geometric_mean(values), len(values))
        for (model, horizon), values in ratios.items()
    )


def geometric_mean(ratios: Iterable[float]) -> float:
    """The mean of what multiplies."""
    return float(np.exp(np.mean(np.log(np.maximum(list(ratios), _LEAST)))))


def _cell(outcome: Outcome, model: str, place: int) -> Cell | str | None:
    """A cell, why it has no ratio, or None where the model said nothing at this horizon."""
    target = outcome.windows.target[:, place]
    said = outcome.forecasts[model][:, place, MEDIAN]
    known = ~np.isnan(target) & ~np.isnan(said)
    if not known.any():
        return None
    floors = {
        name: _risk(target[known], outcome.forecasts[name][known, place, MEDIAN])
        for name in FLOORS
        if name in outcome.forecasts
    }
    if not floors:
        return "none of the simple rules was run"
    best = min(floors, key=lambda name: floors[name])
    if not floors[best] > 0:
        return "all values are zero" if np.isnan(floors[best]) else f"{best} is never wrong"
    ratio = _risk(target[known], said[known]) / floors[best]
    horizon = HORIZONS_MIN[place]
    return Cell(outcome.series.name, model, horizon, ratio, best, int(known.sum()))


def _risk(target: F64, said: F64) -> float:
    return q_risk(target, said, QUANTILES[MEDIAN])
