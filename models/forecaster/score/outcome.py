"""What several models said about one series, on the same windows."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from models.cluster.arrays import F64
from models.forecaster.score.metrics import Scores, score
from models.forecaster.score.peers.port import Absent, Fitted, H, Peer, Q
from models.forecaster.score.windows import Windows, sample
from models.forecaster.series import Series


class Outcome(NamedTuple):
    """Forecasts of a series' windows by model."""

    series: Series
    windows: Windows
    forecasts: dict[str, F64]
    """[B, H, Q] each; NaN at origins that a model cannot afford."""
    absent: dict[str, str]
    """Models that have nothing to say about it, with the reason."""

    def scores(self) -> Scores:
        """Rows of all models, in the order they were asked."""
        each = [
            score(self.series, model, self.windows, forecast)
            for model, forecast in self.forecasts.items()
        ]
        return Scores(
            tuple(row for scores in each for row in scores.rows),
            tuple(dict.fromkeys(note for scores in each for note in scores.notes)),
        )


def run(series: Series, windows: Windows, peers: Iterable[Peer]) -> Outcome:
    """Fit each peer on what is before the test and ask it at the windows' origins."""
    forecasts: dict[str, F64] = {}
    absent: dict[str, str] = {}
    for peer in peers:
        fitted = peer.fit(series, windows.test_from)
        if isinstance(fitted, Absent):
            absent[peer.name] = fitted.reason
        else:
            forecasts[peer.name] = asked(fitted, series, windows, peer.most_origins)
    return Outcome(series, windows, forecasts, absent)


def asked(fitted: Fitted, series: Series, windows: Windows, most: int | None = None) -> F64:
    """[B, H, Q] a fitted model's forecasts at the windows' origins, at most `most` of them."""
    if most is None:
        return fitted.predict(series, windows.at)
    places = sample(windows.at, most)
    forecast = np.full((windows.at.size, H, Q), np.nan)
    forecast[places] = fitted.predict(series, windows.at[places])
    return forecast
