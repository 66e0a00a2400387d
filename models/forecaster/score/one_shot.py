"""What is to come of a series, said once: by the model that would serve now."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from models.cluster.arrays import F64, I64
from models.cluster.calendar import DAY_MINUTES
from models.forecaster.port import HIGH, HORIZONS_MIN, LEAST_HISTORY_MIN, MEDIAN, QUANTILES
from models.forecaster.score.contest import Served, choose
from models.forecaster.score.peers.learned import Learned, acquainted
from models.forecaster.score.peers.port import Absent, Fitted, Peer
from models.forecaster.score.windows import origins, too_coarse
from models.forecaster.series import Series
from models.inputs.errors import InputError

_AHEAD: Final = max(HORIZONS_MIN)
_PEAK_DAYS: Final = 7


class Spoken(NamedTuple):
    """A forecast of one series; H horizons, Q quantiles."""

    series: Series
    at: int
    """The last minute that is known."""
    silent_min: int
    """Minutes without a value between that and the time that was asked for."""
    served: Served
    values: F64
    """[H, Q]; NaN at horizons that are finer than the series' step."""
    peak: F64
    """[H] .9 quantile of the highest minute until then."""


def speak(series: Series, until_min: int, peers: Sequence[Peer]) -> Spoken:
    """Forecast from what was known at the end of minute `until_min` - 1."""
    coarse = too_coarse(series)
    if coarse is not None:
        raise InputError(f"{series.name}: {coarse}")
    past = series.until(until_min)
    known = origins(past, 0, until_min)
    if known.size == 0 or int(known[-1]) + 1 < LEAST_HISTORY_MIN:
        seen = 0 if known.size == 0 else int(known[-1]) + 1
        raise InputError(
            f"{series.name}: {seen} minutes of history, expected at least {LEAST_HISTORY_MIN}"
        )
    at, silent = known[-1:], until_min - 1 - int(known[-1])
    if silent >= _AHEAD:
        raise InputError(
            f"{series.name}: nothing was seen in the {silent} minutes before, expected a value in "
            f"the last {_AHEAD}; ask as of an earlier time"
        )
    past = past.until(int(at[0]) + 1)
    peers = acquainted(peers, past)
    served = choose(past, past.rps.size, peers)
    model = next(peer for peer in peers if peer.name == served.model)
    values, peak = _said(model, past, at)
    unasked = np.array(HORIZONS_MIN) < series.step_min
    values[unasked], peak[unasked] = np.nan, np.nan
    return Spoken(series, int(at[0]), silent, served, values, np.fmax.accumulate(peak))


def _said(model: Peer, past: Series, at: I64) -> tuple[F64, F64]:
    if isinstance(model, Learned):
        said = model.said_at(past, at)
        return said.values[0], said.peak[0]
    fitted = model.fit(past, past.rps.size)
    if isinstance(fitted, Absent):
        raise InputError(f"{past.name}: {model.name} cannot serve: {fitted.reason}")
    values = fitted.predict(past, at)[0]
    return values, np.maximum(values[:, HIGH], _peak(fitted, past, values[:, MEDIAN]))


def _peak(fitted: Fitted, past: Series, median: F64) -> F64:
    """[H] by how much the highest minutes of the last week came out above the rule."""
    at = origins(past, past.rps.size - _PEAK_DAYS * DAY_MINUTES, past.rps.size - _AHEAD)
    ahead = sliding_window_view(past.rps, _AHEAD)[at + 1]
    highest = np.fmax.accumulate(ahead, axis=1)[:, np.array(HORIZONS_MIN) - 1]
    said = fitted.predict(past, at)[:, :, MEDIAN]
    return np.array([_reach(*each) for each in zip(said.T, highest.T, median, strict=True)])


def _reach(said: F64, highest: F64, median: float) -> float:
    """A ratio widens the rule, where the rule is not zero."""
    known = ~np.isnan(said) & ~np.isnan(highest)
    moving = known & (said > 0)
    if median > 0 and moving.any():
        return median * float(np.quantile(highest[moving] / said[moving], QUANTILES[HIGH]))
    still = known & (said == 0)
    return float(np.quantile(highest[still], QUANTILES[HIGH])) if still.any() else median
