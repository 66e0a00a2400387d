"""The seasonal forecast, multiplied by announced events as long as they are credible.

An announced event is *expected* until its effect shows, *running* while it shows, and *over*
afterwards. It shows when traffic of one of its domains has made a good part of the announced jump,
which may be long before the announced start. While it runs, the observed level already contains
it, so the factor is not applied again. An event that has not shown some minutes after its
announced start is no longer expected.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.cluster.arrays import F32, I32, Mask
from models.cluster.calendar import Announcement
from models.cluster.observation import Observation
from models.forecaster.minutes import MinuteMeans, add_tick, start_minutes
from models.forecaster.past import Past
from models.forecaster.port import Forecast, issue_forecast, ticks_per_minute
from models.forecaster.seasonal import (
    AHEAD_MIN,
    level,
    seasonal_rule,
    shape_from,
    values_and_peaks,
)

# Chosen by hand on the shipped scenarios; no record compares other values.
BELIEVED_MIN: Final = 10
"""Minutes after its announced start during which an event that has not shown stays expected."""
EARLIEST_MIN: Final = 45
"""Minutes before its announced start from which a jump counts as the event itself."""
_SHOWN: Final = 0.3
"""Share of the announced jump that has to be observed; low, as only some apps may take part."""
_BEFORE_MIN: Final = 1
"""Users arrive a little early, and capacity that is ready a minute early costs very little."""
_RISING_MIN: Final = 3
"""Minutes after it shows during which an event may still be rising to the announced level."""
_OVERTIME_MIN: Final = 10
"""Minutes that an event may last beyond its announced length, for the outer quantiles."""
_NOW_MIN: Final = 2
"""Minutes that the current level is a mean of."""
_QUIET_MIN: Final = 15
"""Minutes that the quiet level is a mean of."""
_QUIET_AGO_MIN: Final = 3
"""The quiet level ends some minutes ago, so that a jump is not compared with itself."""
_NEVER: Final = -1
"""Before every minute that is counted from tick 0."""
_LEAST: Final = np.float32(1e-6)
"""Smallest divisor: a domain without traffic has a level of 0."""


class CalendarState(NamedTuple):
    """E environments, K announced events, D domains; arrays are updated in place."""

    minutes: MinuteMeans
    begun: I32
    """[E, K] minute in which the event was observed to begin; _NEVER before that."""
    over: I32
    """[E, K] minute in which it was observed to be over; _NEVER before that."""
    quiet: F32
    """[E, D] level outside events."""
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
    """[K, D] domains that each event is announced for."""


class Calendar:
    """Uses the past, the observations and the announcements."""

    name = "calendar"

    def __init__(self, past: Past, announcements: Sequence[Announcement], tick_s: int) -> None:
        self._rule = seasonal_rule(past)
        self._recent = past.recent
        self._per_minute = ticks_per_minute(tick_s)
        self._announced = _as_arrays(announcements, past.days.shape[1], self._per_minute)

    def start(self, observation: Observation) -> CalendarState:
        """Start from the minutes that were recorded before tick 0, with no event running."""
        environments, domains = self._recent.shape[:2]
        never = np.full((environments, self._announced.start.size), _NEVER, np.int32)
        return CalendarState(
            minutes=start_minutes(observation, self._recent),
            begun=never,
            over=never.copy(),
            quiet=np.ones((environments, domains), np.float32),
            forecast=None,
        )

    def step(
        self, observation: Observation, state: CalendarState
    ) -> tuple[Forecast, CalendarState]:
        """Add a tick; when it closes a minute, update the events and make a new forecast."""
        closed = add_tick(observation, state.minutes, self._per_minute)
        forecast = state.forecast
        # The first step needs a forecast even if it does not end a minute, as after a restart.
        if closed or forecast is None:
            minute = int(observation.tick[0]) // self._per_minute
            self._update_events(state, minute)
            forecast = self._forecast(observation, state, minute)
        return forecast, state._replace(forecast=forecast)

    def _update_events(self, state: CalendarState, minute: int) -> None:
        """Mark events as begun or over, by the observed traffic."""
        events, begun, over = self._announced, state.begun, state.over
        observed = state.minutes.domain
        now = level(self._rule, observed, minute, _NOW_MIN)
        calm = level(self._rule, observed, minute, _QUIET_MIN, _QUIET_AGO_MIN)
        # The quiet level is what traffic returns to after an event, so it must not follow the
        # event.
        state.quiet[:] = np.where(self._is_disturbed(state, minute), state.quiet, calm)
        shows = _shows(events, now, state.quiet)
        # A jump long before the announced start, or after the announced end, is something else.
        near = (minute >= events.start - EARLIEST_MIN) & (minute < events.end)
        begins = (begun == _NEVER) & shows & near
        # `minute` is the one that begins now; the jump was observed in the one before.
        begun[begins] = minute - 1
        running = (begun != _NEVER) & (over == _NEVER)
        # Not in its first minutes: an event that has just shown may dip again while it rises.
        faded = running & ~shows & (minute >= begun + _RISING_MIN)
        # Something else rose and fell before the announced start: the event is still expected.
        begun[faded & (minute < events.start)] = _NEVER
        over[faded & (minute >= events.start)] = minute

    def _is_disturbed(self, state: CalendarState, minute: int) -> Mask:
        """[E, D] where the last minutes contain an event, so their level is not the quiet one."""
        # The window of the quiet level contains an event for this long after its end.
        recent = (state.over == _NEVER) | (minute < state.over + _QUIET_MIN + _QUIET_AGO_MIN)
        return _any_named((state.begun != _NEVER) & recent, self._announced)

    def _forecast(self, observation: Observation, state: CalendarState, minute: int) -> Forecast:
        rule, observed = self._rule, state.minutes.domain
        ahead = minute + np.arange(AHEAD_MIN)
        season = shape_from(rule, minute, AHEAD_MIN)
        expected = self._expected(state, minute, ahead)
        plain = level(rule, observed, minute, rule.window_min)
        running_now, at_most = self._running_until(state, ahead)
        # After a running event ends, traffic returns to the level before it.
        running = _any_named((state.begun != _NEVER) & (state.over == _NEVER), self._announced)
        # Not the level of the last minutes, which contain the event.
        without = np.where(running, state.quiet, plain)[..., None]
        within = self._event_level(state, minute)[..., None]
        likely = season * np.where(running_now, within, without) * expected
        # The outer quantiles enclose two courses: events come and end as announced, or expected
        # events don't come and running ones last longer.
        unannounced = season * np.where(at_most, within, without)
        low, high = np.minimum(likely, unannounced), np.maximum(likely, unannounced)
        made = values_and_peaks(rule.spread, likely, low, high)
        return issue_forecast(self.name, observation, self._per_minute, made)

    def _expected(self, state: CalendarState, minute: int, ahead: NDArray[np.int64]) -> F32:
        """[E, D, AHEAD_MIN] product of the factors of events that are still expected."""
        events = self._announced
        expected = (state.begun == _NEVER) & (minute < events.start + BELIEVED_MIN)
        in_time = (ahead >= events.start[:, None] - _BEFORE_MIN) & (ahead < events.end[:, None])
        on = expected[:, :, None, None] & in_time[None, :, None] & events.named[None, :, :, None]
        factors: F32 = np.where(on, events.factor[None, :, None, None], np.float32(1.0))
        # Overlapping events multiply, as waves do in the simulator.
        product: F32 = factors.prod(axis=1)
        return product

    def _running_until(self, state: CalendarState, ahead: NDArray[np.int64]) -> tuple[Mask, Mask]:
        """[E, D, AHEAD_MIN] where a running event lasts: by its announced length, and at most."""
        events = self._announced
        running = (state.begun != _NEVER) & (state.over == _NEVER)
        end = state.begun + events.end - events.start
        named = running[:, :, None, None] & events.named[None, :, :, None]
        by_length = named & (ahead < end[:, :, None, None])
        at_most = named & (ahead < end[:, :, None, None] + _OVERTIME_MIN)
        return by_length.any(axis=1), at_most.any(axis=1)

    def _event_level(self, state: CalendarState, minute: int) -> F32:
        """[E, D] level during an event: the observed one, or the announced one while it rises."""
        events = self._announced
        now = level(self._rule, state.minutes.domain, minute, _NOW_MIN)
        rising = (state.begun != _NEVER) & (minute < state.begun + _RISING_MIN)
        on = rising[:, :, None] & events.named
        factor = np.where(on, events.factor[:, None], np.float32(0)).max(axis=1, initial=0)
        # Never below the observed level, even if the event is to lower traffic: a forecast must not
        # take away what is needed now.
        within: F32 = np.maximum(now, factor * state.quiet)
        return within


def _as_arrays(announcements: Sequence[Announcement], domains: int, per_minute: int) -> _Announced:
    named = np.zeros((len(announcements), domains), np.bool_)
    for row, announcement in enumerate(announcements):
        named[row, list(announcement.domains)] = True
    # Rounded outwards: a minute that is partly covered belongs to the event.
    return _Announced(
        start=np.array([a.start_tick // per_minute for a in announcements], np.int32),
        end=np.array([-(-a.end_tick // per_minute) for a in announcements], np.int32),
        factor=np.array([a.expected_factor for a in announcements], np.float32),
        named=named,
    )


def _shows(events: _Announced, now: F32, quiet: F32) -> Mask:
    """[E, K] where traffic of one of the event's domains has made enough of the announced jump."""
    jump = (now / np.maximum(quiet, _LEAST))[:, None, :]
    change = events.factor[:, None] - 1
    # An event with factor 1 never shows.
    progress = (jump - 1) / np.where(change == 0, np.inf, change)
    return np.asarray(((progress >= _SHOWN) & events.named).any(axis=2))


def _any_named(chosen: Mask, events: _Announced) -> Mask:
    """[E, D] domains that one of the chosen events [E, K] is announced for."""
    return np.asarray((chosen[:, :, None] & events.named).any(axis=1))
