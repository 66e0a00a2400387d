"""Statistical models of the library statsforecast: AutoETS, AutoTheta and MSTL.

They work on five-minute means (or the series' step if longer) that are counted back from the
origin, so that the last one ends with it. They are fitted once on the week before the test and
updated with the last week at each origin. Their 80 % interval is that of a five-minute mean, which
is narrower than that of single minutes of a noisy series.
"""

from importlib import import_module
from typing import Any, Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64, I64
from models.cluster.calendar import DAY_MINUTES
from models.forecaster.port import HIGH, HORIZONS_MIN, LOW, MEDIAN
from models.forecaster.score.evaluation import Absent, Fitted, H, Q
from models.forecaster.score.peers.floors import forward_filled
from models.forecaster.series import Series
from models.inputs.errors import InputError

MOST_ORIGINS: Final = 200
"""Origins per series, because each takes a model of its own that is updated with a week."""
_BLOCK_MIN: Final = 5
"""As long as the shortest horizon."""
_CONTEXT_DAYS: Final = 7
_LEAST_BLOCKS: Final = 30
_LEVEL: Final = 80
"""Percent between the outer QUANTILES, in the words of the library."""


class FittedEts(NamedTuple):
    """Exponential smoothing with fitted parameters; also Theta, which has the same interface."""

    model: Any
    block: int

    def predict(self, series: Series, at: I64) -> F64:
        """[B, H, Q]."""
        steps = _steps(self.block)
        forecasts = [self._ahead(blocks(series, int(t), self.block), steps) for t in at]
        # These models don't know that traffic is never negative.
        return np.array(forecasts).reshape(at.size, H, Q).clip(0)

    def _ahead(self, values: F64, steps: I64) -> F64:
        if _is_flat(values):
            return np.full((H, Q), values[-1])
        return quantiles(self.model.forward(values, h=int(steps[-1]), level=[_LEVEL]), steps)


class FittedMstl(NamedTuple):
    """The shape of a day, and a model of the remainder; in logarithms."""

    trend: Any
    shape: F64
    """[blocks of a day] from `until_min` on."""
    until_min: int
    block: int

    def predict(self, series: Series, at: I64) -> F64:
        """[B, H, Q]."""
        steps = _steps(self.block)
        logs = [self._ahead(blocks(series, int(t), self.block), int(t), steps) for t in at]
        forecast: F64 = np.expm1(np.array(logs)).reshape(at.size, H, Q).clip(0)
        return forecast

    def _ahead(self, values: F64, at: int, steps: I64) -> F64:
        if _is_flat(values):
            return np.full((H, Q), np.log1p(values[-1]))
        now = round((at + 1 - self.until_min) / self.block)
        # The shape starts at `until_min`; negative indices wrap around to the days before.
        past = self._of_day(now + np.arange(-values.size, 0))
        found = self.trend.forward(np.log1p(values) - past, h=int(steps[-1]), level=[_LEVEL])
        return quantiles(found, steps) + self._of_day(now + steps - 1)[:, None]

    def _of_day(self, indices: I64) -> F64:
        shape: F64 = self.shape[indices % self.shape.size]
        return shape


class Ets(NamedTuple):
    """AutoETS without a season, because the library supports at most 24 steps."""

    name: str = "ets"
    most_origins: int | None = MOST_ORIGINS

    def fit(self, series: Series, until_min: int) -> Fitted | Absent:
        """Select the smoothing that fits the week before `until_min`."""
        block = block_minutes(series)
        values = blocks(series, until_min - 1, block)
        absent = _absent(values, block, _LEAST_BLOCKS)
        if absent is not None:
            return absent
        return FittedEts(_library().AutoETS(season_length=1, model="ZZN").fit(values), block)


class Theta(NamedTuple):
    """AutoTheta with a daily season, if there are two days."""

    name: str = "theta"
    most_origins: int | None = MOST_ORIGINS

    def fit(self, series: Series, until_min: int) -> Fitted | Absent:
        """Select the Theta model that fits the week before `until_min`."""
        block = block_minutes(series)
        values = blocks(series, until_min - 1, block)
        absent = _absent(values, block, _LEAST_BLOCKS)
        if absent is not None:
            return absent
        day = DAY_MINUTES // block
        season = day if values.size >= 2 * day else 1
        return FittedEts(_library().AutoTheta(season_length=season).fit(values), block)


class Mstl(NamedTuple):
    """MSTL with a daily season, and AutoETS for the rest.

    The shape of the day is fitted once: the library's own `forward` would fit it again at each
    origin, which takes a second.
    """

    name: str = "mstl"
    most_origins: int | None = MOST_ORIGINS

    def fit(self, series: Series, until_min: int) -> Fitted | Absent:
        """Decompose the week before `until_min`."""
        block = block_minutes(series)
        values = blocks(series, until_min - 1, block)
        day = DAY_MINUTES // block
        absent = _absent(values, block, 2 * day)
        if absent is not None:
            return absent
        library = _library()
        rest = library.AutoETS(season_length=1, model="ZZN")
        model = library.MSTL(season_length=[day], trend_forecaster=rest).fit(np.log1p(values))
        # The last day, so that the shape starts at the time of day of `until_min`.
        shape = np.asarray(model.model_["seasonal"], np.float64)[-day:]
        return FittedMstl(model.trend_forecaster, shape, until_min, block)


STATISTICAL: Final = (Ets(), Theta(), Mstl())


def block_minutes(series: Series) -> int:
    """Minutes per mean: five, or the series' step if longer."""
    return max(_BLOCK_MIN, series.step_min)


def blocks(series: Series, at: int, block: int) -> F64:
    """Means of the last week, the last one ending with minute `at`; gaps repeat the mean before."""
    count = min(_CONTEXT_DAYS * DAY_MINUTES, at + 1) // block
    values = series.rps[at + 1 - count * block : at + 1].reshape(count, block)
    valid = ~np.isnan(values)
    sums, counts = np.where(valid, values, 0).sum(axis=1), valid.sum(axis=1)
    means = np.full(count, np.nan)
    np.divide(sums, counts, out=means, where=counts > 0)
    return np.nan_to_num(forward_filled(means))


def quantiles(library: dict[str, F64], steps: I64) -> F64:
    """[H, Q] from the library's mean and 80 % interval, at some steps ahead."""
    found = np.empty((steps.size, Q))
    for index, key in ((LOW, f"lo-{_LEVEL}"), (MEDIAN, "mean"), (HIGH, f"hi-{_LEVEL}")):
        found[:, index] = library[key][steps - 1]
    return np.sort(found, axis=1)


def _steps(block: int) -> I64:
    """[H] blocks until the one that contains the minute t+h."""
    return np.array([-(-horizon // block) for horizon in HORIZONS_MIN], np.int64)


def _absent(values: F64, block: int, least: int) -> Absent | None:
    if values.size < least:
        return Absent(f"{values.size} means of {block} minutes, expected {least}")
    if _is_flat(values):
        return Absent("the week before the test is constant, nothing to fit")
    return None


def _is_flat(values: F64) -> bool:
    """A constant series has no variance to divide by, and its next value is obvious."""
    return bool(np.ptp(values) == 0)


def _library() -> Any:
    """Import statsforecast lazily: it is an optional dependency."""
    try:
        return import_module("statsforecast.models")
    except ImportError:
        raise InputError(
            "the statistical peers need statsforecast: pip install 'hirl-scale[peers]'"
        ) from None
