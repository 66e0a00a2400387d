"""Which model serves: the learned one, until a simple one has been better for long enough.

Candidates are compared by running means of absolute errors over all horizons, per row. A row
leaves the learned model when a simple one is better by a margin, returns when that is no longer
so, and keeps its model for a while after each change, so that noise cannot make it flap.
"""

from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64, I64, Mask
from models.forecaster.outcomes import add_to_means
from models.inputs.errors import InputError

LEARNED: Final = 0
"""Index of the learned model among the candidates."""


class Reason(IntEnum):
    """Why a row is served by its model."""

    DEFAULT = 0
    """No simple model is better."""
    FEW = 1
    """Too few outcomes to compare: the default serves."""
    STAY = 2
    """Another is better, but the last change is too recent."""
    SIMPLE_BETTER = 3
    """A simple model is better by the margin."""
    WITHIN_HYSTERESIS = 4
    """A simple model serves, and the learned one is not yet good enough to return."""


class Settings(NamedTuple):
    """When the serving model changes."""

    # Chosen by hand. On short files with few requests the choice is wrong for one cell in fifteen,
    # and no margin mends that (decision 0007).
    window_min: float = 240.0
    """Length of the running means of errors, in outcomes, one a minute."""
    margin: float = 0.05
    """Share by which the error of a simple model must be lower than the learned one's."""
    hysteresis: float = 0.03
    """Part of the margin that must be lost again before the learned model returns."""
    least_outcomes: int = 60
    """Outcomes of a candidate before its error counts."""
    stay_min: int = 60
    """Minutes after a change during which the model stays."""
    default: int = LEARNED
    """Candidate that serves while there are too few outcomes."""


class State(NamedTuple):
    """R rows, C candidates."""

    error: F64
    """[R, C] running mean absolute error."""
    outcomes: I64
    """[R, C] number of outcomes."""
    serving: I64
    """[R] candidate that serves."""
    reason: I64
    """[R] a Reason."""
    changed_min: I64
    """[R] minute of the last change."""


DEFAULTS: Final = Settings()
# Far enough for the first change to be allowed, and subtracted from a minute without overflow.
_NEVER: Final = -(2**40)


def start(rows: int, candidates: int, settings: Settings = DEFAULTS) -> State:
    """Start with the default."""
    _check(candidates, settings)
    return State(
        error=np.zeros((rows, candidates)),
        outcomes=np.zeros((rows, candidates), np.int64),
        serving=np.full(rows, settings.default, np.int64),
        reason=np.full(rows, Reason.FEW, np.int64),
        changed_min=np.full(rows, _NEVER, np.int64),
    )


def step(state: State, errors: F64, minute: int, settings: Settings = DEFAULTS) -> State:
    """Add the errors [R, C, H] of the forecasts about a minute, NaN where one is unknown.

    Rows without any new error keep their model.
    """
    valid = ~np.isnan(errors)
    count = valid.sum(axis=2)
    is_new = count > 0
    mean = np.where(valid, errors, 0.0).sum(axis=2) / np.maximum(count, 1)
    error, outcomes = add_to_means(state.error, state.outcomes, mean, is_new, settings.window_min)
    updated = state._replace(error=error, outcomes=outcomes)
    return _with_choice(updated, is_new.any(axis=1), minute, settings)


def _with_choice(state: State, is_new: Mask, minute: int, settings: Settings) -> State:
    """Change the model of rows with new outcomes, unless the last change is too recent."""
    wanted, reason = _wanted(state, settings)
    settled = minute - state.changed_min >= settings.stay_min
    differs = is_new & (wanted != state.serving)
    change = differs & settled
    # Report why the better model does not serve yet, not that it would be better.
    reason = np.where(differs & ~settled, Reason.STAY, reason)
    return state._replace(
        serving=np.where(change, wanted, state.serving),
        reason=np.where(is_new, reason, state.reason),
        changed_min=np.where(change, minute, state.changed_min),
    )


def _wanted(state: State, settings: Settings) -> tuple[I64, I64]:
    """[R] the candidate that should serve, and why."""
    rows, away = np.arange(state.serving.size), state.serving != LEARNED
    trusted = state.outcomes >= settings.least_outcomes
    # A candidate with few outcomes must not win by luck.
    error = np.where(trusted, state.error, np.inf)
    simple = _simple(error, state.serving, settings.hysteresis)
    best, learned = error[rows, simple], state.error[:, LEARNED]
    needed = np.where(away, settings.margin - settings.hysteresis, settings.margin)
    # Strictly smaller: where no model errs, as at standstill, the learned one stays.
    better = best < (1.0 - needed) * learned
    few = ~(trusted[:, LEARNED] & trusted[rows, simple])
    wanted = np.where(few, settings.default, np.where(better, simple, LEARNED))
    clearly = best < (1.0 - settings.margin) * learned
    why = np.where(clearly, Reason.SIMPLE_BETTER, Reason.WITHIN_HYSTERESIS)
    return wanted, np.where(few, Reason.FEW, np.where(better, why, Reason.DEFAULT))


def _simple(error: F64, serving: I64, hysteresis: float) -> I64:
    """[R] the best simple model; the one that serves stays if it is about as good."""
    rows, best = np.arange(serving.size), 1 + np.argmin(error[:, 1:], axis=1)
    good = (1.0 - hysteresis) * error[rows, serving] <= error[rows, best]
    keeps = (serving != LEARNED) & good & np.isfinite(error[rows, serving])
    return np.where(keeps, serving, best)


def _check(candidates: int, settings: Settings) -> None:
    if candidates < 2 or not 0 <= settings.default < candidates:
        raise InputError(
            f"cannot choose among {candidates} models with default {settings.default}: "
            "give the learned one, at least one simple one, and a default among them"
        )
    if not 0.0 <= settings.hysteresis <= settings.margin < 1.0 or settings.window_min < 1.0:
        raise InputError("expected 0 <= hysteresis <= margin < 1 and a window of at least a minute")
