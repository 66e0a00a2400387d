"""The learned forecaster as it is served: frozen, with intervals calibrated by the outcomes."""

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64, I64
from models.cluster.calendar import DAY_MINUTES
from models.forecaster.learned.artefact import NAME, Session
from models.forecaster.learned.conformal import Calibrated, replay
from models.forecaster.learned.encode import encode
from models.forecaster.score.evaluation import Absent, Fitted, H, Peer, Progress, Q, no_progress
from models.forecaster.series import Series

WARM_UP_MIN: Final = DAY_MINUTES
"""Minutes before the first origin from which the calibration is replayed."""
_PIECE: Final = 2048
"""Minutes per progress report."""


class CachedForecasts:
    """The network's forecasts of one series, computed once per minute.

    A forecast depends only on the series until its minute, so it also holds for the series as of
    any later minute.
    """

    def __init__(self, session: Session, series: Series) -> None:
        self.series = series
        self._session = session
        minutes = series.rps.size
        self._done = np.zeros(minutes, np.bool_)
        self._values = np.empty((minutes, H, Q))
        self._peak = np.empty((minutes, H))

    def at(self, minutes: I64, progress: Progress = no_progress) -> tuple[F64, F64]:
        """[B, H, Q] quantiles and [B, H] peaks; NaN where the last day has no value."""
        new = np.unique(minutes[~self._done[minutes]])
        for first in range(0, new.size, _PIECE):
            self._compute(new[first : first + _PIECE])
            progress(min(1.0, (first + _PIECE) / new.size))
        return self._values[minutes], self._peak[minutes]

    def _compute(self, minutes: I64) -> None:
        output = self._session.predict(encode(self.series, minutes))
        self._values[minutes], self._peak[minutes] = output.values, output.peak
        self._done[minutes] = True


class Learned(NamedTuple):
    """The peer; it is trained before it gets a series."""

    session: Session
    name: str = NAME
    most_origins: int | None = None
    cache: CachedForecasts | None = None
    """Forecasts of the series, or of a longer one that starts with it."""
    progress: Progress = no_progress

    def fit(self, series: Series, until_min: int) -> Fitted | Absent:  # noqa: ARG002  frozen
        """Nothing is learned from the series."""
        return self

    def predict(self, series: Series, at: I64) -> F64:
        """[B, H, Q] at ascending origins."""
        return self.predict_with_peaks(series, at).values

    def predict_with_peaks(self, series: Series, at: I64) -> Calibrated:
        """Calibrated quantiles and peaks at ascending origins."""
        cache = self.cache or CachedForecasts(self.session, series)
        return _calibrated(cache, at, self.progress)


def with_shared_cache(peers: Iterable[Peer], series: Series) -> tuple[Peer, ...]:
    """The peers, with forecasts of the series computed once for all later calls."""
    return tuple(
        peer._replace(cache=CachedForecasts(peer.session, series))
        if isinstance(peer, Learned)
        else peer
        for peer in peers
    )


def _calibrated(cache: CachedForecasts, at: I64, progress: Progress) -> Calibrated:
    """Calibrated forecasts at ascending origins, without using later minutes.

    The calibration is replayed by the minute from a day before the first origin: at each minute it
    has the outcomes of forecasts about that minute or earlier. Origins are minutes with a value.
    """
    # So that intervals are calibrated at the first origin, as in a service that has run for a
    # while.
    first = max(0, int(at[0]) - WARM_UP_MIN)
    minutes = np.arange(first, int(at[-1]) + 1)
    values, peak = cache.at(_step_ends(minutes, cache.series.step_min), progress)
    # The replay begins at the first forecast; before it there is nothing to repeat.
    start = int(np.argmax(~np.isnan(values).any(axis=(1, 2))))
    actual = cache.series.rps[minutes[start:]]
    found = replay(_filled(values[start:]), actual, int(minutes[start]), _filled(peak[start:]))
    return Calibrated(*(each[at - minutes[start]] for each in found))


def _step_ends(minutes: I64, step: int) -> I64:
    """The last minute of each minute's step, because a step's value is known at its end."""
    ends: I64 = np.minimum(minutes - minutes % step + step - 1, minutes[-1])
    return ends


def _filled(values: F64) -> F64:
    """[T, ...] forecasts; where there is none, after a day without values, the last one."""
    valid = ~np.isnan(values).reshape(values.shape[0], -1).any(axis=1)
    indices = np.maximum.accumulate(np.where(valid, np.arange(valid.size), 0))
    return values[indices]
