"""The seasonal forecast, times what was announced, as long as that can be believed.

An announced event is *expected* until it shows, *under way* while it does, and *over* after.
It shows when the traffic of one of its domains has made a good part of the announced jump; that
may be long before its time. While it is under way, what is observed holds it already and is not
multiplied a second time. One that has not shown some minutes after its time is not coming.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.cluster.arrays import F32, I32
from models.cluster.calendar import Announcement
from models.cluster.observation import Observation
from models.forecaster.minutes import Minutes, start_minutes, take_in
from models.forecaster.past import Past
from models.forecaster.port import Forecast, issue_forecast, ticks_per_minute
from models.forecaster.rule import AHEAD_MIN, level, spell_out, usual
from models.forecaster.seasonal import seasonal_course

NAME: Final = "calendar"
BELIEVED_MIN: Final = 10
"""Minutes after its announced start for which an event that does not show is still expected."""
EARLIEST_MIN: Final = 45
"""Minutes before its announced start from which a jump is taken for the event itself."""
_SHOWN: Final = 0.3
"""Share of the announced jump that has to be seen: a part of a domain may take part."""
_BEFORE_MIN: Final = 1
"""People come a little before the clock; and what is ready a minute early costs next to nothing."""
_RISING_MIN: Final = 3
"""Minutes after it shows in which an event may still be on its way to what was announced."""
_LINGERS_MIN: Final = 10
"""Minutes that an event may go on after its length, for the outer quantiles."""
_NOW_MIN: Final = 2
_QUIET_MIN: Final = 15
_QUIET_AGO_MIN: Final = 3
"""The quiet level is of some minutes ago, so that a jump is not part of what it is held against."""
_NEVER: Final = -1
_LEAST: Final = np.float32(1e-6)

Mask = NDArray[np.bool_]


class CalendarState(NamedTuple):
    """E environments, K announced events, D domains; updated in place."""

    minutes: Minutes
    begun: I32
    """[E, K] minute in which the event was seen to begin, _NEVER before."""
    over: I32
    """[E, K] minute in which it was seen to be over, _NEVER before."""
    quiet: F32
    """[E, D] level without events."""
    forecast: Forecast | None
    """None before the first step."""


class _Announced(NamedTuple):
    """The calendar as arrays, in minutes since tick 0."""

    start: I32
    """[K]."""
    end: I32
    """[K]."""
    factor: F32
    """[K]."""
    named: Mask
    """[K, D] the domains each event is announced for."""


class Calendar:
    """Knows the past, what it observes and what was announced."""

    name = NAME

    def __init__(self, past: Past, announcements: Sequence[Announcement], tick_s: int) -> None:
        self._rule = seasonal_course(past)
        self._recent = past.recent
        self._per_minute = ticks_per_minute(tick_s)
        self._announced = _as_arrays(announcements, past.days.shape[1], self._per_minute)

    def start(self, observation: Observation) -> CalendarState:
        """Begin with the minutes that were recorded before tick 0, and nothing under way."""
        environments, domains = self._recent.shape[:2]
        unseen = np.full((environments, self._announced.start.size), _NEVER, np.int32)
        return CalendarState(
            minutes=start_minutes(observation, self._recent),
            begun=unseen,
            over=unseen.copy(),
            quiet=np.ones((environments, domains), np.float32),
            forecast=None,
        )

    def step(
        self, observation: Observation, state: CalendarState
    ) -> tuple[Forecast, CalendarState]:
        """Take in a tick; at the end of a minute look at the events and say what is to come."""
        closed = take_in(observation, state.minutes, self._per_minute)
        forecast = state.forecast
        if closed or forecast is None:
            minute = int(observation.tick[0]) // self._per_minute
            self._watch(state, minute)
            forecast = self._say(observation, state, minute)
        return forecast, state._replace(forecast=forecast)

    def _watch(self, state: CalendarState, minute: int) -> None:
        """Let events begin and end by what is observed."""
        known, begun, over = self._announced, state.begun, state.over
        observed = state.minutes.domain
        now = level(self._rule, observed, minute, _NOW_MIN)
        calm = level(self._rule, observed, minute, _QUIET_MIN, _QUIET_AGO_MIN)
        state.quiet[:] = np.where(self._unsettled(state, minute), state.quiet, calm)
        shows = _shows(known, now, state.quiet)
        near = (minute >= known.start - EARLIEST_MIN) & (minute < known.end)
        begins = (begun == _NEVER) & shows & near
        begun[begins] = minute - 1
        running = (begun != _NEVER) & (over == _NEVER)
        faded = running & ~shows & (minute >= begun + _RISING_MIN)
        # Something else rose and fell before the time: the event is still to come.
        begun[faded & (minute < known.start)] = _NEVER
        over[faded & (minute >= known.start)] = minute

    def _unsettled(self, state: CalendarState, minute: int) -> Mask:
        """[E, D] where the last minutes hold an event, so that their level is not the quiet one."""
        lately = (state.over == _NEVER) | (minute < state.over + _QUIET_MIN + _QUIET_AGO_MIN)
        return _any_named((state.begun != _NEVER) & lately, self._announced)

    def _say(self, observation: Observation, state: CalendarState, minute: int) -> Forecast:
        rule, observed = self._rule, state.minutes.domain
        ahead = minute + np.arange(AHEAD_MIN)
        season = usual(rule, minute, AHEAD_MIN)
        expected = self._expected(state, minute, ahead)
        plain = level(rule, observed, minute, rule.window_min)
        going_on, lasting = self._going_on(state, ahead)
        # After an event that is under way, things are as before it.
        running = _any_named((state.begun != _NEVER) & (state.over == _NEVER), self._announced)
        without = np.where(running, state.quiet, plain)[..., None]
        within = self._under_way(state, minute)[..., None]
        likely = season * np.where(going_on, within, without) * expected
        unannounced = season * np.where(lasting, within, without)
        low, high = np.minimum(likely, unannounced), np.maximum(likely, unannounced)
        said = spell_out(rule.spread, likely, low, high)
        return issue_forecast(self.name, observation, self._per_minute, said)

    def _expected(self, state: CalendarState, minute: int, ahead: NDArray[np.int64]) -> F32:
        """[E, D, AHEAD_MIN] factor of the events that have not shown and may still come."""
        known = self._announced
        awaited = (state.begun == _NEVER) & (minute < known.start + BELIEVED_MIN)
        in_time = (ahead >= known.start[:, None] - _BEFORE_MIN) & (ahead < known.end[:, None])
        on = awaited[:, :, None, None] & in_time[None, :, None] & known.named[None, :, :, None]
        factors: F32 = np.where(on, known.factor[None, :, None, None], np.float32(1.0))
        product: F32 = factors.prod(axis=1)
        return product

    def _going_on(self, state: CalendarState, ahead: NDArray[np.int64]) -> tuple[Mask, Mask]:
        """[E, D, AHEAD_MIN] where an event under way lasts by its length, and where at most."""
        known = self._announced
        running = (state.begun != _NEVER) & (state.over == _NEVER)
        end = state.begun + known.end - known.start
        named = running[:, :, None, None] & known.named[None, :, :, None]
        by_length = named & (ahead < end[:, :, None, None])
        at_most = named & (ahead < end[:, :, None, None] + _LINGERS_MIN)
        return by_length.any(axis=1), at_most.any(axis=1)

    def _under_way(self, state: CalendarState, minute: int) -> F32:
        """[E, D] level within an event: what is observed, or what was announced if still rising."""
        known = self._announced
        now = level(self._rule, state.minutes.domain, minute, _NOW_MIN)
        rising = (state.begun != _NEVER) & (minute < state.begun + _RISING_MIN)
        on = rising[:, :, None] & known.named
        promised = np.where(on, known.factor[:, None], np.float32(0)).max(axis=1, initial=0)
        within: F32 = np.maximum(now, promised * state.quiet)
        return within


def _as_arrays(announcements: Sequence[Announcement], domains: int, per_minute: int) -> _Announced:
    named = np.zeros((len(announcements), domains), np.bool_)
    for row, announcement in enumerate(announcements):
        named[row, list(announcement.domains)] = True
    return _Announced(
        start=np.array([a.start_tick // per_minute for a in announcements], np.int32),
        end=np.array([-(-a.end_tick // per_minute) for a in announcements], np.int32),
        factor=np.array([a.expected_factor for a in announcements], np.float32),
        named=named,
    )


def _shows(known: _Announced, now: F32, quiet: F32) -> Mask:
    """[E, K] where a domain of the event has made its share of the announced jump."""
    jump = (now / np.maximum(quiet, _LEAST))[:, None, :]
    change = known.factor[:, None] - 1
    # An event that is announced to change nothing never shows.
    made = (jump - 1) / np.where(change == 0, np.inf, change)
    return np.asarray(((made >= _SHOWN) & known.named).any(axis=2))


def _any_named(events: Mask, known: _Announced) -> Mask:
    """[E, D] domains for which one of the events [E, K] is announced."""
    return np.asarray((events[:, :, None] & known.named).any(axis=1))
