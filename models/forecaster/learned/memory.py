"""What serving remembers: forecasts that wait for their outcome, and what came of others."""

from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64, I64
from models.forecaster.learned import choice, conformal, corrector, scores
from models.forecaster.port import HIGH, HORIZONS_MIN, LOW

RAW, LEARNED, SIMPLE, LOWER, UPPER = range(5)
"""What waits: the medians as the network said it, as corrected, and of the simple model; and the
interval that was served."""
_WAITING: Final = 5
_NEVER: Final = -(2**40)
_HORIZONS: Final = np.array(HORIZONS_MIN)


class Settings(NamedTuple):
    """How a learned model is served."""

    choosing: choice.Settings = choice.DEFAULTS
    calibration: conformal.Settings = conformal.DEFAULTS
    corrects: bool = True
    """Whether a corrector that is shipped with the model, and helps, is used."""


DEFAULTS: Final = Settings()


class Memory(NamedTuple):
    """R rows, S slots of minutes, H horizons. Arrays of slots are updated in place."""

    made: I64
    """[S] minute in which a slot's forecast was made."""
    waiting: F64
    """[R, S, H, 5] what was said then; NaN where nothing was."""
    errors: F64
    """[R, H, 12] logarithms of what came over what the network said, the newest first."""
    covered: F64
    """[R, H] share of the last outcomes in the interval that was served."""
    outcomes: I64
    """[R, H] how many there were."""
    calibration: scores.State
    choosing: choice.State


class Noted(NamedTuple):
    """A forecast that is to be held against what comes. R rows, H horizons, Q quantiles."""

    raw: F64
    """[R, H] median of the network, NaN where it has nothing to say."""
    learned: F64
    """[R, H] the same, corrected."""
    simple: F64
    """[R, H] of the simple model; NaN where it was not asked."""
    served: F64
    """[R, H, Q]."""


def start(rows: int, settings: Settings = DEFAULTS) -> Memory:
    """Nothing was said yet."""
    horizons = len(HORIZONS_MIN)
    return Memory(
        made=np.full(scores.SLOTS, _NEVER, np.int64),
        waiting=np.full((rows, scores.SLOTS, horizons, _WAITING), np.nan),
        errors=np.full((rows, horizons, corrector.ERRORS), np.nan),
        covered=np.zeros((rows, horizons)),
        outcomes=np.zeros((rows, horizons), np.int64),
        calibration=scores.start(rows),
        choosing=choice.start(rows, 2, settings.choosing),
    )


def learn(memory: Memory, minute: int, came: F64, settings: Settings) -> Memory:
    """Hold what came [R] in a minute against what the network said and what was served."""
    about, now = _about(memory, minute), came[:, None]
    newest = _log_error(now, about[..., RAW])[..., None]
    covered, outcomes = _counted(memory, about, now, settings.choosing.window_min)
    return memory._replace(
        errors=np.concatenate([newest, memory.errors[..., :-1]], axis=2),
        covered=covered,
        outcomes=outcomes,
    )


def choose(memory: Memory, minute: int, came: F64, settings: Settings) -> Memory:
    """Hold what came [R] in a minute against what both models said, and choose between them."""
    said = np.moveaxis(_about(memory, minute)[..., (LEARNED, SIMPLE)], 2, 1)
    errors: F64 = np.abs(said - came[:, None, None])
    return memory._replace(choosing=choice.step(memory.choosing, errors, minute, settings.choosing))


def note(memory: Memory, minute: int, noted: Noted) -> None:
    """Let a forecast wait for its outcome."""
    slot = minute % scores.SLOTS
    memory.made[slot] = minute
    edges = noted.served[..., LOW], noted.served[..., HIGH]
    columns = (noted.raw, noted.learned, noted.simple, *edges)
    memory.waiting[:, slot] = np.stack(columns, axis=-1)


def skill(memory: Memory) -> F64:
    """[R] share by which the learned model errs less than the simple one; NaN if unknown."""
    error, known = memory.choosing.error, (memory.choosing.outcomes > 0).all(axis=1)
    ratio = error[:, 0] / np.where(error[:, 1] > 0, error[:, 1], np.nan)
    return np.where(known, 1.0 - ratio, np.nan)


def coverage(memory: Memory) -> F64:
    """[R, H] NaN before the first outcome."""
    return np.where(memory.outcomes > 0, memory.covered, np.nan)


def _about(memory: Memory, minute: int) -> F64:
    """[R, H, 5] what was said about a minute, at each horizon; NaN where nothing was."""
    made = minute - _HORIZONS
    slots = made % scores.SLOTS
    said = memory.waiting[:, slots, np.arange(_HORIZONS.size)]
    return np.where((memory.made[slots] == made)[:, None], said, np.nan)


def _counted(memory: Memory, about: F64, came: F64, window: float) -> tuple[F64, I64]:
    known = np.isfinite(about[..., LOWER] + about[..., UPPER] + came)
    inside = known & (came >= about[..., LOWER]) & (came <= about[..., UPPER])
    outcomes = memory.outcomes + known
    weight = known / np.clip(outcomes, 1.0, window)
    return memory.covered + weight * (inside - memory.covered), outcomes


def _log_error(came: F64, said: F64) -> F64:
    """NaN where one is unknown or zero, as for the corrector's training."""
    with np.errstate(divide="ignore", invalid="ignore"):
        error: F64 = np.log(came) - np.log(said)
    return np.where(np.isfinite(error), error, np.nan)
