"""The job that makes a corrector: forecasts of the past, what came of them, and a regression.

It is fitted on what the network said about the earlier part of each series and judged on the
later part, by errors of which the network knows only those that had come out by then.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64, I64
from models.forecaster.learned import corrector
from models.forecaster.learned.answer import Network
from models.forecaster.learned.encode import encode
from models.forecaster.port import HORIZONS_MIN, MEDIAN
from models.forecaster.series import Series
from models.inputs.errors import InputError

FITTED_SHARE: Final = 0.7
"""Of the minutes of each series; the others judge."""
_LAST: Final = max(HORIZONS_MIN)


class Moments(NamedTuple):
    """N moments of one series, H horizons, Q quantiles, d hidden."""

    hidden: F64
    """[N, H, d]."""
    errors: F64
    """[N, H, 12] known at the moment, the newest first."""
    said: F64
    """[N, H, Q]."""
    came: F64
    """[N, H] NaN where unknown."""
    age_min: F64
    """[N] minutes before the newest moment."""

    @property
    def target(self) -> F64:
        """[N, H] the error that is to be foreseen."""
        return _log_error(self.came, self.said[..., MEDIAN])


def moments(network: Network, series: Series, first: int, end: int) -> Moments:
    """Each minute from `first` to `end` - 1 of a series that is recorded by the minute."""
    if series.step_min != 1:
        raise InputError(f"{series.name}: a corrector learns from minutes, not from longer steps")
    made = np.arange(max(0, first - _LAST - corrector.ERRORS), min(end, series.rps.size))
    answer = network.predict(encode(series, made))
    medians = answer.values[..., MEDIAN]
    came = np.stack([_at(series.rps, made + horizon) for horizon in HORIZONS_MIN], axis=1)
    errors = _log_error(came, medians)
    known = np.stack([_known(errors[:, h], HORIZONS_MIN[h]) for h in range(came.shape[1])], axis=1)
    kept = made >= first
    age = (made[-1] - made[kept]).astype(np.float64)
    return Moments(answer.hidden[kept], known[kept], answer.values[kept], came[kept], age)


class Made(NamedTuple):
    """A corrector and what it was worth where it was not fitted."""

    artefact: corrector.Artefact
    gains: dict[str, corrector.Gain]
    """By series; root mean square errors in the unit of each."""


def make(
    network: Network, series: Sequence[tuple[Series, int, int]], trained_on: str, until_min: int
) -> Made:
    """Fit on the earlier part of each stretch (series, first minute, end) and judge on the rest."""
    early, late = [], []
    for each, first, end in series:
        middle = first + int((end - first) * FITTED_SHARE)
        early.append(moments(network, each, first, middle))
        late.append((each.name, moments(network, each, middle, end)))
    joined = Moments(*(np.concatenate(columns) for columns in zip(*early, strict=True)))
    fitted = corrector.fit(
        joined.hidden, joined.errors, joined.target, joined.age_min, trained_on, until_min
    )
    gains = {
        name: corrector.gain(fitted, some.hidden, some.errors, some.said, some.came)
        for name, some in late
    }
    return Made(corrector.judged(fitted, _pooled(list(gains.values()))), gains)


def _pooled(gains: Sequence[corrector.Gain]) -> corrector.Gain:
    """The geometric mean of the series' ratios: units differ, so errors cannot be added."""
    ratios = [gain.corrected / gain.raw for gain in gains if gain.raw > 0]
    return corrector.Gain(1.0, float(np.exp(np.mean(np.log(ratios)))) if ratios else 1.0)


def _at(values: F64, minutes: I64) -> F64:
    inside = minutes < values.size
    return np.where(inside, values[np.minimum(minutes, values.size - 1)], np.nan)


def _known(errors: F64, horizon: int) -> F64:
    """[N, 12] the errors of consecutive minutes that have come out at each of them."""
    ages = np.arange(horizon, horizon + corrector.ERRORS)
    places = np.arange(errors.size)[:, None] - ages
    return np.where(places >= 0, errors[np.maximum(places, 0)], np.nan)


def _log_error(came: F64, said: F64) -> F64:
    """NaN where one is unknown or one is zero."""
    with np.errstate(divide="ignore", invalid="ignore"):
        error: F64 = np.log(came) - np.log(said)
    return np.where(np.isfinite(error), error, np.nan)
