"""Small files of traffic, and a session with fixed forecasts."""

import datetime as dt
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from models.cluster.arrays import F64
from models.forecaster.learned.inputs import NetworkInputs
from models.forecaster.learned.serving import NetworkOutput
from models.forecaster.port import HORIZONS_MIN

START = dt.datetime(2024, 5, 1, tzinfo=dt.UTC)


def daily(minutes: int, seed: int = 0) -> F64:
    """A day's wave with noise, in whole requests."""
    wave = 100 + 20 * np.sin(2 * np.pi * np.arange(minutes) / 1440)
    noise = np.random.default_rng(seed).normal(0, 6, minutes)
    values: F64 = np.maximum(wave + noise, 0).round()
    return values


def written(file: Path, columns: Mapping[str, ArrayLike], step_min: int = 1) -> Path:
    """A CSV file with a column of times; NaN is an empty cell."""
    values = {name: np.asarray(column, np.float64) for name, column in columns.items()}
    rows = [",".join(("timestamp", *values))]
    for index, cells in enumerate(zip(*values.values(), strict=True)):
        when = START + dt.timedelta(minutes=step_min * index)
        numbers = ("" if np.isnan(cell) else f"{cell:g}" for cell in cells)
        rows.append(",".join((f"{when:%Y-%m-%d %H:%M:%S}", *numbers)))
    file.write_text("\n".join(rows) + "\n")
    return file


class FixedSession(NamedTuple):
    """A session whose median is the recent level times a factor."""

    factor: float = 1.0
    spread: float = 0.1

    def predict(self, inputs: NetworkInputs) -> NetworkOutput:
        level = self.factor * inputs.scale[:, None] * np.ones(len(HORIZONS_MIN))
        values = level[:, :, None] * np.array([1 - self.spread, 1.0, 1 + self.spread])
        peak = (1 + 2 * self.spread) * level
        return NetworkOutput(values, peak, np.zeros((*level.shape, 1)))
