"""Fits a corrector: replays past forecasts, compares them with the outcomes, and regresses.

It is fitted on the earlier part of each series and evaluated on the later part. Its inputs are
only those errors that were known at each moment.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64, I64, Mask
from models.forecaster.learned.corrector import (
    ERRORS,
    LARGEST,
    Corrector,
    apply,
    features,
    log_error,
)
from models.forecaster.learned.encode import encode
from models.forecaster.learned.serving import Network
from models.forecaster.port import HORIZONS_MIN, MEDIAN
from models.forecaster.series import Series
from models.inputs.errors import InputError

FITTED_SHARE: Final = 0.7
"""Share of the minutes of each series that it is fitted on; the rest evaluates it."""
_LAST: Final = max(HORIZONS_MIN)


class Settings(NamedTuple):
    """What a corrector is fitted on, and how far it may go."""

    recent_min: float = 240.0
    """Age up to which data is recent."""
    recent_share: float = 0.3
    """Share of recent data in the sample; old data keeps the corrector from forgetting."""
    sample: int = 20_000
    """Largest number of moments to fit on."""
    ridge: float = 3.0
    """Weight of the penalty, on features of spread 1, per moment."""
    seed: int = 0
    most_rate: float = 0.15
    """Largest correction that is applied, as a share of the raw forecast."""


DEFAULTS: Final = Settings()


class Gain(NamedTuple):
    """Root mean square error of the median, without and with correction."""

    raw: float
    corrected: float


class Moments(NamedTuple):
    """N moments of one series, H horizons, Q quantiles, d hidden."""

    hidden: F64
    """[N, H, d]."""
    errors: F64
    """[N, H, 12] errors that were known at the moment, the newest first."""
    forecast: F64
    """[N, H, Q]."""
    actual: F64
    """[N, H] NaN where unknown."""
    age_min: F64
    """[N] minutes before the newest moment."""

    @property
    def target(self) -> F64:
        """[N, H] log error of the median, which the corrector predicts."""
        return log_error(self.actual, self.forecast[..., MEDIAN])


class Made(NamedTuple):
    """A corrector, and its gain on data it was not fitted on."""

    corrector: Corrector
    gains: dict[str, Gain]
    """By series; root mean square errors in the unit of each."""


def make(
    network: Network, series: Sequence[tuple[Series, int, int]], trained_on: str, until_min: int
) -> Made:
    """Fit on the earlier part of each stretch (series, first minute, end), evaluate on the rest."""
    early, late = [], []
    for each, first, end in series:
        middle = first + int((end - first) * FITTED_SHARE)
        early.append(moments(network, each, first, middle))
        late.append((each.name, moments(network, each, middle, end)))
    # One corrector for all series, because one network serves all of them.
    joined = Moments(*(np.concatenate(columns) for columns in zip(*early, strict=True)))
    fitted = fit(joined.hidden, joined.errors, joined.target, joined.age_min, trained_on, until_min)
    gains = {
        name: gain(fitted, some.hidden, some.errors, some.forecast, some.actual)
        for name, some in late
    }
    return Made(evaluated(fitted, _pooled(list(gains.values()))), gains)


def moments(network: Network, series: Series, first: int, end: int) -> Moments:
    """Every minute from `first` to `end` - 1 of a series with a step of one minute."""
    if series.step_min != 1:
        raise InputError(f"{series.name}: a corrector learns from minutes, not from longer steps")
    # The first moment already needs errors, so forecasts are replayed from earlier on.
    made = np.arange(max(0, first - _LAST - ERRORS), min(end, series.rps.size))
    output = network.predict(encode(series, made))
    medians = output.values[..., MEDIAN]
    actual = np.stack([_at(series.rps, made + horizon) for horizon in HORIZONS_MIN], axis=1)
    errors = log_error(actual, medians)
    recent = np.stack(
        [_known_errors(errors[:, h], HORIZONS_MIN[h]) for h in range(actual.shape[1])], axis=1
    )
    # Moments before `first` only provide the errors of the first ones after it.
    chosen = made >= first
    return Moments(
        hidden=output.hidden[chosen],
        errors=recent[chosen],
        forecast=output.values[chosen],
        actual=actual[chosen],
        age_min=(made[-1] - made[chosen]).astype(np.float64),
    )


def fit(
    hidden: F64,
    errors: F64,
    target: F64,
    age_min: F64,
    trained_on: str,
    until_min: int,
    settings: Settings = DEFAULTS,
) -> Corrector:
    """Fit to N moments: hidden [N, H, d], errors [N, H, 12], target [N, H], age [N].

    Errors and targets are logs of actual over forecast median, NaN where unknown. The result is
    not used before it was evaluated.
    """
    chosen = _sample(age_min, settings)
    inputs, wanted = features(hidden[chosen], errors[chosen]), target[chosen]
    parts = [
        _ridge(inputs[:, at], wanted[:, at], settings.ridge) for at in range(len(HORIZONS_MIN))
    ]
    mean, spread, weights = (np.stack(part) for part in zip(*parts, strict=True))
    # NaN compares as false, so a corrector that was not evaluated is not used.
    unknown = np.full(2, np.nan)
    limit = settings.most_rate
    return Corrector(mean, spread, weights, limit, trained_on, until_min, int(chosen.size), unknown)


def gain(corrector: Corrector, hidden: F64, errors: F64, forecast: F64, actual: F64) -> Gain:
    """Errors on N moments with and without correction; `actual` [N, H] is NaN where unknown."""
    found = apply(corrector, hidden, errors, forecast)
    if not np.isfinite(actual).any():
        raise InputError("a corrector can only be judged by outcomes: give moments that have some")
    medians = forecast[..., MEDIAN], found.values[..., MEDIAN]
    return Gain(*(float(np.sqrt(np.nanmean((actual - median) ** 2))) for median in medians))


def evaluated(corrector: Corrector, gain: Gain) -> Corrector:
    """The corrector with its gain, which decides whether it is used."""
    return corrector._replace(rmse=np.array(gain))


def _pooled(gains: Sequence[Gain]) -> Gain:
    """The geometric mean of the series' ratios: units differ, so errors cannot be added."""
    ratios = [gain.corrected / gain.raw for gain in gains if gain.raw > 0]
    return Gain(1.0, float(np.exp(np.mean(np.log(ratios)))) if ratios else 1.0)


def _at(values: F64, minutes: I64) -> F64:
    inside = minutes < values.size
    return np.where(inside, values[np.minimum(minutes, values.size - 1)], np.nan)


def _known_errors(errors: F64, horizon: int) -> F64:
    """[N, 12] errors of earlier forecasts whose outcome is known at each of N minutes."""
    # The outcome of a forecast is known `horizon` minutes after it was made.
    ages = np.arange(horizon, horizon + ERRORS)
    indices = np.arange(errors.size)[:, None] - ages
    return np.where(indices >= 0, errors[np.maximum(indices, 0)], np.nan)


def _sample(age_min: F64, settings: Settings) -> I64:
    """Indices of the moments to fit on, old and recent ones in the configured share."""
    recent, old = (np.flatnonzero(side) for side in _by_age(age_min, settings.recent_min))
    share = settings.recent_share
    # Where one side is scarce, the whole sample shrinks so that the shares stay.
    most = min(settings.sample, recent.size / share, old.size / (1.0 - share))
    if most * min(share, 1.0 - share) < 1.0:
        raise InputError(
            f"{recent.size} recent and {old.size} old moments: a corrector is fitted on both"
        )
    draw = np.random.default_rng(settings.seed)
    recent_sample = draw.choice(recent, round(most * share), replace=False)
    old_sample = draw.choice(old, round(most * (1.0 - share)), replace=False)
    return np.concatenate([recent_sample, old_sample])


def _by_age(age_min: F64, recent_min: float) -> tuple[Mask, Mask]:
    return age_min <= recent_min, age_min > recent_min


def _ridge(inputs: F64, target: F64, ridge: float) -> tuple[F64, F64, F64]:
    """Mean, spread and weights in closed form; features without variance get no weight."""
    valid = np.isfinite(target) & np.isfinite(inputs).all(axis=1)
    if not valid.any():
        raise InputError("no moment has both a forecast and its outcome: fit on a longer past")
    chosen, wanted = inputs[valid], np.clip(target[valid], -LARGEST, LARGEST)
    mean, spread = chosen.mean(axis=0), chosen.std(axis=0)
    spread = np.where(spread > 1e-9, spread, 1.0)
    # The constant is not part of the penalised weights.
    scaled, centre = (chosen - mean) / spread, wanted.mean()
    # In proportion to the moments, so that its strength does not depend on their number.
    penalty = ridge * valid.sum() * np.eye(mean.size)
    weights = np.linalg.solve(scaled.T @ scaled + penalty, scaled.T @ (wanted - centre))
    return mean, spread, np.append(weights, centre)
