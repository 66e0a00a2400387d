"""Forecasters that go wrong from some tick on, for measurements of the breakers."""

from typing import Any, Final, NamedTuple

import numpy as np

from models.cluster.arrays import F32
from models.cluster.observation import Observation
from models.forecaster.port import MEDIAN, Forecast, Forecaster

FAULTS: Final = ("constant", "frozen", "nan", "inverted")
_TIMES: Final = np.float32(3.0)
"""A constant forecast is so many times the traffic when the fault begins; an inverted one and the
correct one sum to that."""


class FaultyState(NamedTuple):
    """The state of the sound forecaster, and the last forecast that went wrong."""

    sound: Any
    level: F32
    """[E, D, 1] median of the shortest horizon at the last correct forecast."""
    last: Forecast | None


class FaultyForecaster:
    """A forecaster whose numbers are replaced from a tick on.

    - constant: three times the traffic of that moment, for ever.
    - frozen: the traffic of that moment, for ever.
    - nan: no numbers.
    - inverted: the higher the correct forecast, the lower this one.
    """

    def __init__(self, sound: Forecaster[Any], fault: str, from_tick: int) -> None:
        self.name = sound.name
        self._sound, self._fault, self._from = sound, fault, from_tick

    def start(self, observation: Observation) -> FaultyState:
        """The state before the first step."""
        return FaultyState(self._sound.start(observation), np.zeros((1, 1, 1), np.float32), None)

    def step(self, observation: Observation, state: FaultyState) -> tuple[Forecast, FaultyState]:
        """The correct forecast before the fault."""
        forecast, sound = self._sound.step(observation, state.sound)
        if int(observation.tick[0]) < self._from:
            level = forecast.domain[:, :, 0, MEDIAN, None]
            return forecast, FaultyState(sound, level, None)
        last = state.last
        if last is None or (last.made_tick != forecast.made_tick).any():
            peak = forecast.domain_peak
            last = forecast._replace(
                domain=self._wrong(forecast.domain, state.level[..., None]),
                domain_peak=self._wrong(peak, state.level),
            )
        return last, FaultyState(sound, state.level, last)

    def _wrong(self, values: F32, level: F32) -> F32:
        most = np.broadcast_to(_TIMES * level, values.shape)
        if self._fault == "constant":
            return most.copy()
        if self._fault == "frozen":
            return np.broadcast_to(level, values.shape).copy()
        if self._fault == "nan":
            return np.full_like(values, np.nan)
        # In reverse order, so that quantiles still rise.
        mirrored: F32 = np.maximum(most - values, np.float32(0))[..., ::-1]
        return np.ascontiguousarray(mirrored)
