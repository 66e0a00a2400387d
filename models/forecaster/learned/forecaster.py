"""The learned model at work: each minute one call for all rows, calibrated, and watched.

Beside it runs the forecast from the season and the calendar, which needs no training: it serves
where the network has nothing to say, or has been worse for long enough. A row is a domain of an
environment.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F32, I64
from models.cluster.observation import Observation
from models.forecaster.calendar import Calendar, CalendarState
from models.forecaster.learned import memory as remembered
from models.forecaster.learned.answer import (
    Answer,
    Model,
    ask,
    corrected,
)
from models.forecaster.learned.encode import encode, encode_last
from models.forecaster.learned.inputs import Inputs, joined
from models.forecaster.learned.memory import Memory, Noted, Settings
from models.forecaster.learned.record import (
    Record,
    Row,
    known_minutes,
    record_of,
    series_of,
    with_minute,
)
from models.forecaster.learned.served import Said, account, calibrated, serve
from models.forecaster.minutes import MinuteMeans
from models.forecaster.port import (
    HIGH,
    LEAST_HISTORY_MIN,
    MEDIAN,
    Forecast,
    issue_forecast,
    ticks_per_minute,
)
from models.forecaster.series import Series

NAME: Final = "tft"
WARM_MIN: Final = 360
"""Minutes of the record that are replayed at the start, so that the first forecast is calibrated.

Each costs a forecast of every row; half of it leaves hardly enough scores to be calibrated by.
"""

_ROUGHLY: Final = np.array([0.5, 1.0, 2.0])


class Given(NamedTuple):
    """What was known at tick 0. E environments, D domains."""

    history: F32
    """[E, D, M] minutes that end at tick 0; NaN where nothing is known."""
    first_minute: int
    """Number of the last of them."""
    start_minute_of_week: int
    """Of tick 0."""
    rows: tuple[Row, ...]
    """[D]."""
    tick_s: int


class LearnedState(NamedTuple):
    """What it remembers between ticks."""

    simple: CalendarState
    record: Record
    memory: Memory
    forecast: Forecast | None
    """None before the first step."""

    @property
    def minutes(self) -> MinuteMeans:
        """Of the observations."""
        return self.simple.minutes


class Learned:
    """Knows the past, what it observes, what was announced, and what it was trained on."""

    name = NAME

    def __init__(
        self,
        model: Model,
        simple: Calendar,
        given: Given,
        settings: Settings = remembered.DEFAULTS,
    ) -> None:
        self._model, self._simple, self._given, self._settings = model, simple, given, settings
        self._per_minute = ticks_per_minute(given.tick_s)
        self._rows = given.rows * given.history.shape[0]

    def start(self, observation: Observation) -> LearnedState:
        """Begin with what was recorded, calibrated on its last hours."""
        record, memory = self.recorded(), remembered.start(len(self._rows), self._settings)
        return self.resume(observation, record, self._warmed(record, memory))

    def resume(self, observation: Observation, record: Record, memory: Memory) -> LearnedState:
        """Begin with what an earlier one remembered."""
        return LearnedState(self._simple.start(observation), record, memory, None)

    def recorded(self) -> Record:
        """What was recorded until tick 0."""
        history = self._given.history
        return record_of(history.reshape(len(self._rows), -1), self._given.first_minute)

    def step(self, observation: Observation, state: LearnedState) -> tuple[Forecast, LearnedState]:
        """Take in a tick; at the end of a minute learn from it and say what is to come."""
        simple, following = self._simple.step(observation, state.simple)
        state, before = state._replace(simple=following), state.simple.forecast
        if state.forecast is not None and simple is before:
            return state.forecast, state
        minute = self._given.first_minute + int(observation.tick[0]) // self._per_minute
        if minute > state.record.newest:
            state = self._learnt(state, minute)
        forecast = self._say(observation, state, simple)
        return forecast, state._replace(forecast=forecast)

    def _learnt(self, state: LearnedState, minute: int) -> LearnedState:
        """With what came in the minute that has just ended."""
        minutes = state.minutes
        observed, newest = minutes.observed == 1, minutes.domain[:, :, -1].astype(np.float64)
        came = np.where(observed, newest, np.nan).ravel()
        memory = remembered.learn(state.memory, minute, came, self._settings)
        memory = remembered.choose(memory, minute, came, self._settings)
        return state._replace(record=with_minute(state.record, minute, came), memory=memory)

    def _say(self, observation: Observation, state: LearnedState, simple: Forecast) -> Forecast:
        record, memory, shape = state.record, state.memory, simple.domain.shape
        inputs = encode_last(self._series(record))
        said = self._corrected(ask(self._model, inputs, known_minutes(record)), memory)
        other = Said(
            simple.domain.reshape(-1, *shape[2:]).astype(np.float64),
            simple.domain_peak.reshape(-1, shape[2]).astype(np.float64),
        )
        served = serve(said, other, record, memory, self._settings)
        medians = said.raw, said.values[..., MEDIAN], other.values[..., MEDIAN]
        remembered.note(memory, record.newest, Noted(*medians, served.values))
        values = served.values.reshape(shape).astype(np.float32)
        peak = served.peak.reshape(shape[:3]).astype(np.float32)
        how = account(self._model, simple.model, said, served, memory, shape[:2])
        name, per_minute = self._model.name, self._per_minute
        return issue_forecast(name, observation, per_minute, (values, peak), serving=how)

    def _series(self, record: Record) -> list[Series]:
        given = self._given
        return series_of(record, self._rows, given.first_minute, given.start_minute_of_week)

    def _corrected(self, said: Answer, memory: Memory) -> Answer:
        by = self._model.corrector if self._settings.corrects else None
        return corrected(said, by, memory.errors)

    def _warmed(self, record: Record, memory: Memory) -> Memory:
        """Replay the last hours, as far as every row that can be asked now could be asked then."""
        known = known_minutes(record)
        able = known[known >= LEAST_HISTORY_MIN] - LEAST_HISTORY_MIN
        count = min(WARM_MIN, int(able.min(initial=WARM_MIN)))
        if able.size == 0 or count == 0:
            return memory
        ages = np.arange(count)[::-1]
        inputs = _encoded([(each, each.rps.size - 1 - ages) for each in self._series(record)])
        said = ask(self._model, inputs, (known[:, None] - ages).ravel().astype(np.int32))
        if not said.fit.any():
            return memory
        for place, age in enumerate(ages.tolist()):
            then = said.some(slice(place, None, count))
            memory = self._replayed(record, memory, then, age)
        return memory

    def _replayed(self, record: Record, memory: Memory, said: Answer, age: int) -> Memory:
        """A minute of the record: only the network is asked, so nothing is chosen by it."""
        minute, came = record.newest - age, record.rps[:, -1 - age].astype(np.float64)
        memory = remembered.learn(memory, minute, came, self._settings)
        said, fit = self._corrected(said, memory), said.fit[:, None]
        # A row that cannot be asked is scored by a rough guess: the simple model serves it.
        guess = np.nan_to_num(came)[:, None, None] * _ROUGHLY
        values = np.where(fit[..., None], said.values, guess)
        peak = np.where(fit, said.peak, guess[..., HIGH])
        found = calibrated(memory, Said(values, peak), came, minute, self._settings)
        nobody = np.full(said.raw.shape, np.nan)
        remembered.note(memory, minute, Noted(said.raw, nobody, nobody, found.values))
        return memory


def _encoded(series: Sequence[tuple[Series, I64]]) -> Inputs:
    """The inputs of some series at some origins of each, one series after the other."""
    return joined([encode(each, at) for each, at in series])
