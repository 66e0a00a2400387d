"""Forecasts that wait for their outcome, and running means of what the outcomes show."""

from typing import Any

import numpy as np

from models.cluster.arrays import F64, I64, Mask


def forecasts_about(made: I64, pending: F64, minute: int, horizons: I64) -> F64:
    """[R, H, ...] what was forecast for a minute at each horizon; NaN where nothing was.

    `pending` is [R, S, H, ...]: a ring of the last S minutes, of which `made` [S] has the numbers.
    """
    origins = minute - horizons
    slots = origins % made.size
    about = pending[:, slots, np.arange(horizons.size)]
    # After skipped minutes a slot still holds an older forecast.
    known = (made[slots] == origins).reshape(-1, *(1,) * (about.ndim - 2))
    return np.where(known, about, np.nan)


def add_to_means(
    means: F64, counts: I64, values: Any, known: Mask, window: float
) -> tuple[F64, I64]:
    """Running means and their counts after new values; those that are not known are skipped.

    A plain mean of the first values, an exponential one once the window is full.
    """
    counts = counts + known
    weight = known / np.clip(counts, 1.0, window)
    return means + weight * (np.where(known, values, 0.0) - means), counts
