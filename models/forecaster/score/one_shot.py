"""A single forecast of a series, by the model that would serve now."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from models.cluster.arrays import F64, I64
from models.cluster.calendar import DAY_MINUTES
from models.forecaster.port import HIGH, HORIZONS_MIN, LEAST_HISTORY_MIN, MEDIAN, QUANTILES
from models.forecaster.score.contest import Served, choose
from models.forecaster.score.evaluation import Absent, Fitted, Peer
from models.forecaster.score.peers.learned import Learned, with_shared_cache
from models.forecaster.score.windows import origins, too_coarse
from models.forecaster.series import Series
from models.inputs.errors import InputError

_AHEAD: Final = max(HORIZONS_MIN)
_PEAK_DAYS: Final = 7
"""Days over which peaks are compared with the rule: each weekday once."""


class SeriesForecast(NamedTuple):
    """A forecast of one series; H horizons, Q quantiles."""

    series: Series
    at: int
    """The last minute with a value."""
    silent_min: int
    """Minutes without a value between that and the requested time."""
    served: Served
    values: F64
    """[H, Q]; NaN at horizons shorter than the series' step."""
    peak: F64
    """[H] .9 quantile of the highest minute until then."""


def forecast_series(series: Series, until_min: int, peers: Sequence[Peer]) -> SeriesForecast:
    """Forecast as of the end of minute `until_min` - 1."""
    coarse = too_coarse(series)
    if coarse is not None:
        raise InputError(f"{series.name}: {coarse}")
    past = series.until(until_min)
    valid = origins(past, 0, until_min)
    if valid.size == 0 or int(valid[-1]) + 1 < LEAST_HISTORY_MIN:
        minutes = 0 if valid.size == 0 else int(valid[-1]) + 1
        raise InputError(
            f"{series.name}: {minutes} minutes of history, expected at least {LEAST_HISTORY_MIN}"
        )
    at, silent = valid[-1:], until_min - 1 - int(valid[-1])
    if silent >= _AHEAD:
        raise InputError(
            f"{series.name}: no value in the {silent} minutes before, expected one in the last "
            f"{_AHEAD}; forecast as of an earlier time"
        )
    # From the last value on: the silent minutes after it are no traffic of zero.
    past = past.until(int(at[0]) + 1)
    peers = with_shared_cache(peers, past)
    served = choose(past, past.rps.size, peers)
    model = next(peer for peer in peers if peer.name == served.model)
    values, peak = _predict(model, past, at)
    too_short = np.array(HORIZONS_MIN) < series.step_min
    values[too_short], peak[too_short] = np.nan, np.nan
    # fmax skips horizons below the step, which have no peak.
    return SeriesForecast(series, int(at[0]), silent, served, values, np.fmax.accumulate(peak))


def _predict(model: Peer, past: Series, at: I64) -> tuple[F64, F64]:
    if isinstance(model, Learned):
        forecast = model.predict_with_peaks(past, at)
        return forecast.values[0], forecast.peak[0]
    fitted = model.fit(past, past.rps.size)
    if isinstance(fitted, Absent):
        raise InputError(f"{past.name}: {model.name} cannot serve: {fitted.reason}")
    values = fitted.predict(past, at)[0]
    return values, np.maximum(values[:, HIGH], _peak(fitted, past, values[:, MEDIAN]))


def _peak(fitted: Fitted, past: Series, median: F64) -> F64:
    """[H] from how far the highest minutes of the last week exceeded the rule."""
    at = origins(past, past.rps.size - _PEAK_DAYS * DAY_MINUTES, past.rps.size - _AHEAD)
    ahead = sliding_window_view(past.rps, _AHEAD)[at + 1]
    highest = np.fmax.accumulate(ahead, axis=1)[:, np.array(HORIZONS_MIN) - 1]
    medians = fitted.predict(past, at)[:, :, MEDIAN]
    return np.array([_reach(*each) for each in zip(medians.T, highest.T, median, strict=True)])


def _reach(medians: F64, highest: F64, median: float) -> float:
    """Widen the rule by a ratio, or where the rule is zero, by the values after zeros."""
    valid = ~np.isnan(medians) & ~np.isnan(highest)
    moving = valid & (medians > 0)
    if median > 0 and moving.any():
        return median * float(np.quantile(highest[moving] / medians[moving], QUANTILES[HIGH]))
    still = valid & (medians == 0)
    return float(np.quantile(highest[still], QUANTILES[HIGH])) if still.any() else median
