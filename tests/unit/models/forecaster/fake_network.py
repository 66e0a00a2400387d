"""A network with fixed forecasts, and a learned forecaster around it."""

from typing import Any

import numpy as np

from models.cluster.arrays import F32, F64
from models.forecaster.calendar import Calendar
from models.forecaster.learned.corrector import Corrector
from models.forecaster.learned.forecaster import Given, Learned, LearnedState
from models.forecaster.learned.inputs import NetworkInputs
from models.forecaster.learned.memory import DEFAULTS, Settings
from models.forecaster.learned.record import Row
from models.forecaster.learned.serving import Model, NetworkOutput
from models.forecaster.port import HORIZONS_MIN, Forecast
from tests.unit.models.forecaster.observations import USUAL, level_past, observed

TICK_S = 60
HIDDEN = 2
HISTORY_MIN = 240
"""Default length of the history before the first tick."""


class FakeNetwork:
    """The recent level, times a factor, with an interval around it."""

    def __init__(self, factor: float = 1.0, width: float = 0.1) -> None:
        self.factor, self.width = factor, width
        self.fails = False
        self.broken_rows: tuple[int, ...] = ()
        self.rows: list[int] = []
        """Of each call."""

    def predict(self, inputs: NetworkInputs) -> NetworkOutput:
        self.rows.append(inputs.scale.size)
        if self.fails:
            raise RuntimeError("the session is broken")
        around = self.factor * np.array([1 - self.width, 1.0, 1 + self.width])
        values = np.repeat(inputs.scale[:, None, None] * around, len(HORIZONS_MIN), axis=1)
        values[list(self.broken_rows)] = np.nan
        hidden = np.zeros((inputs.scale.size, len(HORIZONS_MIN), HIDDEN))
        return NetworkOutput(values, 1.1 * values[..., -1], hidden)


def model_of(network: FakeNetwork, corrector: Corrector | None = None) -> Model:
    return Model("tft/fake", "2026-01-01T00:00:00Z", network, corrector)


def level_history(environments: int = 1, domains: int = 2, minutes: int = HISTORY_MIN) -> F32:
    return np.full((environments, domains, minutes), USUAL, np.float32)


def served_by(
    network: FakeNetwork,
    history: F32 | None = None,
    settings: Settings = DEFAULTS,
    corrector: Corrector | None = None,
) -> Learned:
    """A tick is a minute, and nothing was announced."""
    history = level_history() if history is None else history
    environments, domains = history.shape[:2]
    past = level_past(environments, domains)
    rows = tuple(Row(priority=0, domain=index, calendar=()) for index in range(domains))
    given = Given(history, 0, past.start_minute_of_week, rows, TICK_S)
    return Learned(model_of(network, corrector), Calendar(past, (), TICK_S), given, settings)


def constant(rps: float, shape: tuple[int, int] = (1, 2)) -> F32:
    return np.full(shape, rps, np.float32)


def begin(forecaster: Learned, shape: tuple[int, int] = (1, 2)) -> LearnedState:
    return forecaster.start(observed(0, constant(USUAL, shape)))


def play(
    forecaster: Learned, state: LearnedState, traffic: F32 | F64, first: int = 1, **others: Any
) -> tuple[list[Forecast], LearnedState]:
    """Minute by minute the traffic [minutes, E, D]; NaN is a missing sample."""
    predicted = []
    for minute, rps in enumerate(np.asarray(traffic, np.float32), first):
        observation = observed(minute, np.nan_to_num(rps), **others)
        observation.missing[:] = np.isnan(rps)
        forecast, state = forecaster.step(observation, state)
        predicted.append(forecast)
    return predicted, state


def level(minutes: int, rps: float = USUAL, shape: tuple[int, int] = (1, 2)) -> F32:
    return np.full((minutes, *shape), rps, np.float32)
