"""The learned forecaster as it is served: frozen, its intervals calibrated by what came."""

from typing import Final, NamedTuple

import numpy as np

from models.forecaster.data.series import I64, Series
from models.forecaster.learned.artefact import NAME
from models.forecaster.learned.conformal import Calibrated, replay
from models.forecaster.learned.encode import encode
from models.forecaster.learned.session import Said, Session
from models.forecaster.score.peers.port import Absent, Fitted
from models.sim.apps import F64
from models.sim.describe.timeline import DAY_MINUTES

WARM_UP_MIN: Final = DAY_MINUTES
"""Minutes before the first origin in which calibration already learns."""


class Learned(NamedTuple):
    """The peer; it has learned all it knows before it meets a series."""

    session: Session
    name: str = NAME
    most_origins: int | None = None

    def fit(self, series: Series, until_min: int) -> Fitted | Absent:  # noqa: ARG002  frozen
        """Nothing is learned from the series."""
        return self

    def predict(self, series: Series, at: I64) -> F64:
        """[B, H, Q] at rising origins."""
        return said_at(self.session, series, at).values


def said_at(session: Session, series: Series, at: I64) -> Calibrated:
    """Calibrated forecasts at rising origins, from nothing later than each of them.

    Calibration is replayed minute by minute from a day before the first origin: at each one it
    knows the outcomes of forecasts that were about that minute or earlier. Origins are minutes
    with a value.
    """
    first = max(0, int(at[0]) - WARM_UP_MIN)
    minutes = np.arange(first, int(at[-1]) + 1)
    said = _each_minute(session, series, minutes)
    start = int(np.argmax(~np.isnan(said.values).any(axis=(1, 2))))
    values, peak = _held(said.values[start:]), _held(said.peak[start:])
    found = replay(values, series.rps[minutes[start:]], int(minutes[start]), peak)
    return Calibrated(*(each[at - minutes[start]] for each in found))


def _each_minute(session: Session, series: Series, minutes: I64) -> Said:
    """Within a step of the series everything is said as at its end, where its value is known."""
    step = series.step_min
    ends = np.minimum(minutes - minutes % step + step - 1, minutes[-1])
    asked, places = np.unique(ends, return_inverse=True)
    said = session.say(encode(series, asked))
    return Said(*(each[places] for each in said))


def _held(values: F64) -> F64:
    """[T, ...] where nothing can be said, after a day of silence, what was said last stands."""
    known = ~np.isnan(values).reshape(values.shape[0], -1).any(axis=1)
    places = np.maximum.accumulate(np.where(known, np.arange(known.size), 0))
    return values[places]
