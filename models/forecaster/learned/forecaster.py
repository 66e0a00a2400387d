"""The learned forecaster: queries the network each minute for all rows and serves the result.

The calendar forecaster runs beside it. It needs no training, and serves where the network is
unusable or has been worse for long enough. A row is a domain of an environment.
"""

from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F32
from models.cluster.observation import Observation
from models.forecaster.calendar import Calendar, CalendarState
from models.forecaster.learned import memory as memories
from models.forecaster.learned.encode import encode, encode_last
from models.forecaster.learned.inputs import joined
from models.forecaster.learned.memory import ForecastMemory, PendingForecast, Settings
from models.forecaster.learned.record import (
    Record,
    Row,
    history_minutes,
    record_of,
    series_of,
    with_minute,
)
from models.forecaster.learned.serving import (
    Model,
    ModelForecast,
    NetworkForecast,
    apply_corrector,
    calibrated,
    describe_serving,
    query,
    serve,
)
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

# Defined here again, because importing artefact.py would load onnxruntime.
NAME: Final = "tft"
WARM_MIN: Final = 360
"""Minutes of the record that are replayed at the start, so that the first forecast is calibrated.

Each costs a forecast of every row; half of them would yield hardly enough scores to calibrate.
"""

_ROUGHLY: Final = np.array([0.5, 1.0, 2.0])
"""Quantiles of a guess, over the traffic itself, for rows that the network cannot answer."""


class Given(NamedTuple):
    """What is given at tick 0. E environments, D domains."""

    history: F32
    """[E, D, M] minutes that end at tick 0; NaN where unknown."""
    first_minute: int
    """Number of the last of them."""
    start_minute_of_week: int
    """Minute of the week of tick 0, since Monday 00:00."""
    rows: tuple[Row, ...]
    """[D]."""
    tick_s: int


class LearnedState(NamedTuple):
    """State between ticks."""

    simple: CalendarState
    record: Record
    memory: ForecastMemory
    forecast: Forecast | None
    """None before the first step."""

    @property
    def minutes(self) -> MinuteMeans:
        """Means of the observed minutes, which the calendar forecaster maintains."""
        return self.simple.minutes


class Learned:
    """A trained network with the calendar forecaster as its fallback."""

    name = NAME

    def __init__(
        self,
        model: Model,
        simple: Calendar,
        given: Given,
        settings: Settings = memories.DEFAULTS,
    ) -> None:
        self._model, self._simple, self._given, self._settings = model, simple, given, settings
        self._per_minute = ticks_per_minute(given.tick_s)
        # Arrays of rows are flattened environments by domains.
        self._rows = given.rows * given.history.shape[0]

    def start(self, observation: Observation) -> LearnedState:
        """Start from the recorded history, calibrated on its last hours."""
        record, memory = self.recorded(), memories.start(len(self._rows), self._settings)
        return self.resume(observation, record, self._warmed(record, memory))

    def resume(
        self, observation: Observation, record: Record, memory: ForecastMemory
    ) -> LearnedState:
        """Start from an earlier forecaster's record and memory."""
        return LearnedState(self._simple.start(observation), record, memory, None)

    def recorded(self) -> Record:
        """The history until tick 0."""
        history = self._given.history
        return record_of(history.reshape(len(self._rows), -1), self._given.first_minute)

    def step(self, observation: Observation, state: LearnedState) -> tuple[Forecast, LearnedState]:
        """Add a tick; when it closes a minute, learn its outcome and make a new forecast."""
        simple, following = self._simple.step(observation, state.simple)
        state, before = state._replace(simple=following), state.simple.forecast
        # The calendar forecaster repeats the same object until a minute closes, which times both
        # models.
        if state.forecast is not None and simple is before:
            return state.forecast, state
        minute = self._given.first_minute + int(observation.tick[0]) // self._per_minute
        # At tick 0 and after a resume the record may already end with this minute.
        if minute > state.record.newest:
            state = self._with_outcome(state, minute)
        forecast = self._forecast(observation, state, simple)
        return forecast, state._replace(forecast=forecast)

    def _with_outcome(self, state: LearnedState, minute: int) -> LearnedState:
        """Add the traffic of the minute that has just ended."""
        minutes = state.minutes
        observed, newest = minutes.observed == 1, minutes.domain[:, :, -1].astype(np.float64)
        # Without a sample the newest value is a repeated one; the network has to see a gap.
        actual = np.where(observed, newest, np.nan).ravel()
        # Before the new forecast, which is corrected and chosen by these outcomes.
        memory = memories.add_outcome(state.memory, minute, actual, self._settings)
        memory = memories.choose(memory, minute, actual, self._settings)
        return state._replace(record=with_minute(state.record, minute, actual), memory=memory)

    def _forecast(
        self, observation: Observation, state: LearnedState, calendar: Forecast
    ) -> Forecast:
        record, memory, shape = state.record, state.memory, calendar.domain.shape
        inputs = encode_last(self._series(record))
        network = self._corrected(query(self._model, inputs, history_minutes(record)), memory)
        simple = ModelForecast(
            calendar.domain.reshape(-1, *shape[2:]).astype(np.float64),
            calendar.domain_peak.reshape(-1, shape[2]).astype(np.float64),
        )
        served = serve(network, simple, record, memory, self._settings)
        # Both models are remembered, whichever serves: the other one is judged as well.
        medians = network.raw, network.values[..., MEDIAN], simple.values[..., MEDIAN]
        memories.add_pending(memory, record.newest, PendingForecast(*medians, served.values))
        values = served.values.reshape(shape).astype(np.float32)
        peak = served.peak.reshape(shape[:3]).astype(np.float32)
        serving = describe_serving(self._model, calendar.model, network, served, memory, shape[:2])
        return issue_forecast(
            self._model.name, observation, self._per_minute, (values, peak), serving=serving
        )

    def _series(self, record: Record) -> list[Series]:
        given = self._given
        return series_of(record, self._rows, given.first_minute, given.start_minute_of_week)

    def _corrected(self, network: NetworkForecast, memory: ForecastMemory) -> NetworkForecast:
        corrector = self._model.corrector if self._settings.corrects else None
        return apply_corrector(network, corrector, memory.errors)

    def _warmed(self, record: Record, memory: ForecastMemory) -> ForecastMemory:
        """Replay the last hours, as far back as every row that is usable now was usable then."""
        length = history_minutes(record)
        able = length[length >= LEAST_HISTORY_MIN] - LEAST_HISTORY_MIN
        count = min(WARM_MIN, int(able.min(initial=WARM_MIN)))
        if able.size == 0 or count == 0:
            return memory
        ages = np.arange(count)[::-1]
        # One query for all minutes of all rows, row after row.
        inputs = joined([encode(each, each.rps.size - 1 - ages) for each in self._series(record)])
        network = query(self._model, inputs, (length[:, None] - ages).ravel().astype(np.int32))
        # For example a failed session: calibration starts without a past.
        if not network.usable.any():
            return memory
        for index, age in enumerate(ages.tolist()):
            # Every `count`-th entry is the same minute of the next row.
            memory = self._replayed(record, memory, network.rows(slice(index, None, count)), age)
        return memory

    def _replayed(
        self, record: Record, memory: ForecastMemory, network: NetworkForecast, age: int
    ) -> ForecastMemory:
        """Replay a minute of the record. Only the network is queried, so nothing is chosen."""
        minute, actual = record.newest - age, record.rps[:, -1 - age].astype(np.float64)
        memory = memories.add_outcome(memory, minute, actual, self._settings)
        network, usable = self._corrected(network, memory), network.usable[:, None]
        # Unusable rows are scored by a rough guess, because the simple model serves them.
        guess = np.nan_to_num(actual)[:, None, None] * _ROUGHLY
        values = np.where(usable[..., None], network.values, guess)
        peak = np.where(usable, network.peak, guess[..., HIGH])
        found = calibrated(memory, ModelForecast(values, peak), actual, minute, self._settings)
        unknown = np.full(network.raw.shape, np.nan)
        pending = PendingForecast(network.raw, unknown, unknown, found.values)
        memories.add_pending(memory, minute, pending)
        return memory
