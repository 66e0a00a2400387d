"""The learned forecaster as it is served: frozen, its intervals calibrated by what came."""

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64, I64
from models.cluster.calendar import DAY_MINUTES
from models.forecaster.learned.artefact import NAME, Session
from models.forecaster.learned.conformal import Calibrated, replay
from models.forecaster.learned.encode import encode
from models.forecaster.score.peers.port import Absent, Fitted, H, Peer, Q, Tell, untold
from models.forecaster.series import Series

WARM_UP_MIN: Final = DAY_MINUTES
"""Minutes before the first origin in which calibration already learns."""
_PIECE: Final = 2048
"""Minutes after which somebody who waits is told."""


class Heard:
    """What the network says of one series; it is asked about each minute once.

    What it says at a minute is a matter of what was known then, so that an answer holds for
    the series as it was at any later minute.
    """

    def __init__(self, session: Session, series: Series) -> None:
        self.series = series
        self._session = session
        minutes = series.rps.size
        self._known = np.zeros(minutes, np.bool_)
        self._values = np.empty((minutes, H, Q))
        self._peak = np.empty((minutes, H))

    def at(self, minutes: I64, tell: Tell = untold) -> tuple[F64, F64]:
        """[B, H, Q] quantiles and [B, H] peaks; NaN where nothing was seen in the last day."""
        new = np.unique(minutes[~self._known[minutes]])
        for first in range(0, new.size, _PIECE):
            self._ask(new[first : first + _PIECE])
            tell(min(1.0, (first + _PIECE) / new.size))
        return self._values[minutes], self._peak[minutes]

    def _ask(self, minutes: I64) -> None:
        said = self._session.predict(encode(self.series, minutes))
        self._values[minutes], self._peak[minutes] = said.values, said.peak
        self._known[minutes] = True


class Learned(NamedTuple):
    """The peer; it has learned all it knows before it meets a series."""

    session: Session
    name: str = NAME
    most_origins: int | None = None
    heard: Heard | None = None
    """Of the one series it is asked about, or about whose past."""
    tell: Tell = untold

    def fit(self, series: Series, until_min: int) -> Fitted | Absent:  # noqa: ARG002  frozen
        """Nothing is learned from the series."""
        return self

    def predict(self, series: Series, at: I64) -> F64:
        """[B, H, Q] at rising origins."""
        return self.said_at(series, at).values

    def said_at(self, series: Series, at: I64) -> Calibrated:
        """The same with the peaks."""
        return _calibrated(self.heard or Heard(self.session, series), at, self.tell)


def acquainted(peers: Iterable[Peer], series: Series) -> tuple[Peer, ...]:
    """The same peers, about to be asked about a series more than once."""
    return tuple(
        peer._replace(heard=Heard(peer.session, series)) if isinstance(peer, Learned) else peer
        for peer in peers
    )


def _calibrated(heard: Heard, at: I64, tell: Tell) -> Calibrated:
    """Calibrated forecasts at rising origins, from nothing later than each of them.

    Calibration is replayed minute by minute from a day before the first origin: at each one it
    knows the outcomes of forecasts that were about that minute or earlier. Origins are minutes
    with a value.
    """
    first = max(0, int(at[0]) - WARM_UP_MIN)
    minutes = np.arange(first, int(at[-1]) + 1)
    values, peak = heard.at(_spoken(minutes, heard.series.step_min), tell)
    start = int(np.argmax(~np.isnan(values).any(axis=(1, 2))))
    came = heard.series.rps[minutes[start:]]
    found = replay(_held(values[start:]), came, int(minutes[start]), _held(peak[start:]))
    return Calibrated(*(each[at - minutes[start]] for each in found))


def _spoken(minutes: I64, step: int) -> I64:
    """Within a step of the series everything is said as at its end, where its value is known."""
    ends: I64 = np.minimum(minutes - minutes % step + step - 1, minutes[-1])
    return ends


def _held(values: F64) -> F64:
    """[T, ...] where nothing can be said, after a day of silence, what was said last stands."""
    known = ~np.isnan(values).reshape(values.shape[0], -1).any(axis=1)
    places = np.maximum.accumulate(np.where(known, np.arange(known.size), 0))
    return values[places]
