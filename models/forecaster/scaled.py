"""The forecaster of one rule: its shape at the level of the last minutes."""

from typing import NamedTuple

from models.cluster.arrays import F32
from models.cluster.observation import Observation
from models.forecaster.minutes import Minutes, start_minutes, take_in
from models.forecaster.port import Forecast, issue_forecast, ticks_per_minute
from models.forecaster.rule import AHEAD_MIN, Rule, level, spell_out, usual


class ScaledState(NamedTuple):
    """What it remembers between ticks."""

    minutes: Minutes
    forecast: Forecast | None
    """None before the first step."""


class Scaled:
    """Knows the past and what it observes, nothing else."""

    def __init__(self, name: str, rule: Rule, recent: F32, tick_s: int) -> None:
        self.name = name
        self._rule = rule
        self._recent = recent
        self._per_minute = ticks_per_minute(tick_s)

    def start(self, observation: Observation) -> ScaledState:
        """Begin with the minutes that were recorded before tick 0."""
        return ScaledState(start_minutes(observation, self._recent), None)

    def step(self, observation: Observation, state: ScaledState) -> tuple[Forecast, ScaledState]:
        """Take in a tick; at the end of a minute say anew what is to come."""
        closed = take_in(observation, state.minutes, self._per_minute)
        forecast = state.forecast
        if closed or forecast is None:
            forecast = self._say(observation, state.minutes)
        return forecast, ScaledState(state.minutes, forecast)

    def _say(self, observation: Observation, minutes: Minutes) -> Forecast:
        rule, minute = self._rule, int(observation.tick[0]) // self._per_minute
        now = level(rule, minutes.domain, minute, rule.window_min)
        course = usual(rule, minute, AHEAD_MIN) * now[..., None]
        said = spell_out(rule.spread, course, course, course)
        return issue_forecast(self.name, observation, self._per_minute, said)
