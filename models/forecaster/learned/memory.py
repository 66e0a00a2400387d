"""State of serving: pending forecasts, and what their outcomes say about the models."""

from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64, I64
from models.forecaster.learned import choice, conformal, corrector, scores
from models.forecaster.outcomes import add_to_means, forecasts_about
from models.forecaster.port import HIGH, HORIZONS_MIN, LOW

RAW, LEARNED, SIMPLE, LOWER, UPPER = range(5)
"""Columns of a pending forecast: the network's median as it is and corrected, the simple model's
median, and the served interval."""
_COLUMNS: Final = 5
_NEVER: Final = -(2**40)
"""As in `scores.py`: no forecast was made in this minute."""
_HORIZONS: Final = np.array(HORIZONS_MIN)


class Settings(NamedTuple):
    """How a trained model is served."""

    choosing: choice.Settings = choice.DEFAULTS
    calibration: conformal.Settings = conformal.DEFAULTS
    corrects: bool = True
    """Whether the model's corrector is used, if it has one that helps."""


DEFAULTS: Final = Settings()


class ForecastMemory(NamedTuple):
    """R rows, S slots of minutes, H horizons. `made` and `pending` are updated in place."""

    made: I64
    """[S] minute in which a slot's forecast was made."""
    pending: F64
    """[R, S, H, 5] forecasts of that minute; NaN where there is none."""
    errors: F64
    """[R, H, 12] log of actual traffic over the network's raw median, the newest first."""
    covered: F64
    """[R, H] running share of outcomes inside the served interval."""
    outcomes: I64
    """[R, H] number of outcomes."""
    calibration: scores.State
    choosing: choice.State


class PendingForecast(NamedTuple):
    """A forecast that waits for its outcome. R rows, H horizons, Q quantiles."""

    raw: F64
    """[R, H] median of the network; NaN where it is unusable."""
    learned: F64
    """[R, H] the same, corrected."""
    simple: F64
    """[R, H] median of the simple model; NaN where it was not queried."""
    served: F64
    """[R, H, Q]."""


def start(rows: int, settings: Settings = DEFAULTS) -> ForecastMemory:
    """An empty memory, before the first forecast."""
    horizons = len(HORIZONS_MIN)
    return ForecastMemory(
        made=np.full(scores.SLOTS, _NEVER, np.int64),
        pending=np.full((rows, scores.SLOTS, horizons, _COLUMNS), np.nan),
        errors=np.full((rows, horizons, corrector.ERRORS), np.nan),
        covered=np.zeros((rows, horizons)),
        outcomes=np.zeros((rows, horizons), np.int64),
        calibration=scores.start(rows),
        choosing=choice.start(rows, 2, settings.choosing),
    )


def add_outcome(
    memory: ForecastMemory, minute: int, actual: F64, settings: Settings
) -> ForecastMemory:
    """Update errors and coverage with the traffic [R] of a minute."""
    about, now = _about(memory, minute), actual[:, None]
    newest = corrector.log_error(now, about[..., RAW])[..., None]
    covered, outcomes = _coverage(memory, about, now, settings.choosing.window_min)
    return memory._replace(
        errors=np.concatenate([newest, memory.errors[..., :-1]], axis=2),
        covered=covered,
        outcomes=outcomes,
    )


def choose(memory: ForecastMemory, minute: int, actual: F64, settings: Settings) -> ForecastMemory:
    """Compare both models by the traffic [R] of a minute, and choose the one that serves."""
    medians = np.moveaxis(_about(memory, minute)[..., (LEARNED, SIMPLE)], 2, 1)
    errors: F64 = np.abs(medians - actual[:, None, None])
    return memory._replace(choosing=choice.step(memory.choosing, errors, minute, settings.choosing))


def add_pending(memory: ForecastMemory, minute: int, forecast: PendingForecast) -> None:
    """Store a forecast that was made at the end of a minute."""
    # Overwrites the forecast of 31 minutes ago, which no horizon waits for any more.
    slot = minute % scores.SLOTS
    memory.made[slot] = minute
    edges = forecast.served[..., LOW], forecast.served[..., HIGH]
    columns = (forecast.raw, forecast.learned, forecast.simple, *edges)
    memory.pending[:, slot] = np.stack(columns, axis=-1)


def skill(memory: ForecastMemory) -> F64:
    """[R] share by which the network errs less than the simple model; NaN if unknown."""
    error, compared = memory.choosing.error, (memory.choosing.outcomes > 0).all(axis=1)
    # A simple model that never errs has no finite ratio.
    ratio = error[:, 0] / np.where(error[:, 1] > 0, error[:, 1], np.nan)
    return np.where(compared, 1.0 - ratio, np.nan)


def coverage(memory: ForecastMemory) -> F64:
    """[R, H] NaN before the first outcome."""
    return np.where(memory.outcomes > 0, memory.covered, np.nan)


def _about(memory: ForecastMemory, minute: int) -> F64:
    """[R, H, 5] forecasts about a minute, at each horizon; NaN where there is none."""
    return forecasts_about(memory.made, memory.pending, minute, _HORIZONS)


def _coverage(memory: ForecastMemory, about: F64, actual: F64, window: float) -> tuple[F64, I64]:
    valid = np.isfinite(about[..., LOWER] + about[..., UPPER] + actual)
    inside = valid & (actual >= about[..., LOWER]) & (actual <= about[..., UPPER])
    # The same window as for the choice between models.
    return add_to_means(memory.covered, memory.outcomes, inside, valid, window)
