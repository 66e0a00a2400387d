"""The interface of a peer model, and running peers over the windows of a series.

A peer is fitted on the minutes before the test, then predicts at many origins at once.
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, Protocol

import numpy as np

from models.cluster.arrays import F64, I64
from models.forecaster.port import HORIZONS_MIN, QUANTILES
from models.forecaster.score.metrics import Scores, score
from models.forecaster.score.windows import Windows, sample
from models.forecaster.series import Series

H: Final = len(HORIZONS_MIN)
Q: Final = len(QUANTILES)
Progress = Callable[[float], None]
"""Slow peers call it with the share of their work that is done."""


def no_progress(_: float) -> None:
    """Ignore progress."""


class Fitted(Protocol):
    """A peer that is ready to predict."""

    def predict(self, series: Series, at: I64) -> F64:
        """[B, H, Q] forecasts made at the end of minutes `at`, without using later minutes."""
        ...


class Absent(NamedTuple):
    """Why a peer cannot forecast a series."""

    reason: str


class Peer(Protocol):
    """A model that the learned one is compared with."""

    @property
    def name(self) -> str:
        """Name in tables."""
        ...

    @property
    def most_origins(self) -> int | None:
        """Largest number of origins, for slow peers; None for any number."""
        ...

    def fit(self, series: Series, until_min: int) -> Fitted | Absent:
        """Learn from the minutes before `until_min`."""
        ...


class Evaluation(NamedTuple):
    """Forecasts of several models for the same windows of a series."""

    series: Series
    windows: Windows
    forecasts: dict[str, F64]
    """[B, H, Q] by model; NaN at origins that a slow model skips."""
    absent: dict[str, str]
    """Models that cannot forecast the series, with the reason."""

    def scores(self) -> Scores:
        """Rows of all models, in the order they ran."""
        each = [
            score(self.series, model, self.windows, forecast)
            for model, forecast in self.forecasts.items()
        ]
        # A note about the series itself comes from every model and is kept once.
        return Scores(
            tuple(row for scores in each for row in scores.rows),
            tuple(dict.fromkeys(note for scores in each for note in scores.notes)),
        )


def run(series: Series, windows: Windows, peers: Iterable[Peer]) -> Evaluation:
    """Fit each peer on the minutes before the test and predict at the windows' origins."""
    forecasts: dict[str, F64] = {}
    absent: dict[str, str] = {}
    for peer in peers:
        fitted = peer.fit(series, windows.test_from)
        if isinstance(fitted, Absent):
            absent[peer.name] = fitted.reason
        else:
            forecasts[peer.name] = predicted(fitted, series, windows, peer.most_origins)
    return Evaluation(series, windows, forecasts, absent)


def predicted(fitted: Fitted, series: Series, windows: Windows, most: int | None = None) -> F64:
    """[B, H, Q] forecasts at the windows' origins, at most `most` of them; NaN at the others."""
    if most is None:
        return fitted.predict(series, windows.at)
    chosen = sample(windows.at, most)
    forecast = np.full((windows.at.size, H, Q), np.nan)
    forecast[chosen] = fitted.predict(series, windows.at[chosen])
    return forecast
