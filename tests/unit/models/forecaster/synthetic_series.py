"""Synthetic traffic with a daily cycle, as series of the learned forecaster."""

import numpy as np
from numpy.typing import NDArray

from models.cluster.calendar import DAY_MINUTES
from models.forecaster.series import Announced, Series

MONDAY = 27_000_000 // (7 * DAY_MINUTES) * 7 * DAY_MINUTES + 4 * DAY_MINUTES


def series(rps: NDArray[np.float64], *calendar: Announced) -> Series:
    return Series("made up", MONDAY, 1, rps, calendar)


def days(count: float, seed: int = 0) -> NDArray[np.float64]:
    minutes = np.arange(int(count * DAY_MINUTES))
    noise = np.random.default_rng(seed).normal(0, 2, minutes.size)
    rates: NDArray[np.float64] = 100 + 50 * np.sin(2 * np.pi * minutes / DAY_MINUTES) + noise
    return rates
