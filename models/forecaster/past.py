"""The two weeks before tick 0, cut down to the minutes of the day that a forecast touches.

A seasonal rule compares with the same time on earlier days, and its errors on those days say how
wrong it may be today. The rest of each day is never read, and reading it would take eight times
as long.
"""

from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F32, I32, Mask
from models.cluster.calendar import DAY_MINUTES, WEEK_MINUTES
from models.forecaster.port import HORIZONS_MIN

DAYS: Final = 13
"""Recorded days in use. The oldest of the 14 lacks the minutes before tick 0's time of day."""
LEAD_MIN: Final = 45
"""Minutes before tick 0's time of day that are kept of each day, today included."""
# A forecast of the last minute covers this many minutes after it.
_TAIL_MIN: Final = max(HORIZONS_MIN) + 1
_SATURDAY: Final = 5 * DAY_MINUTES


class Past(NamedTuple):
    """E environments, D domains, W minutes of the day from LEAD_MIN before tick 0 on."""

    days: F32
    """[E, D, DAYS, W] requests per second, calls between apps included, the oldest day first."""
    recent: F32
    """[E, D, LEAD_MIN] the minutes just before tick 0."""
    start_minute_of_week: int
    """Minute of the week of tick 0, since Monday 00:00."""
    minutes: int
    """Minutes from tick 0 on that forecasts may cover."""

    @property
    def axis(self) -> I32:
        """[M] minutes since tick 0, from -LEAD_MIN to the last one a forecast may cover."""
        return np.arange(-LEAD_MIN, self.minutes, dtype=np.int32)

    def columns(self, minutes: I32) -> I32:
        """Indices on the last axis of `days` for some minutes since tick 0."""
        # Long runs store whole days, so later minutes wrap around to the same time of day.
        columns: I32 = (minutes + LEAD_MIN) % self.days.shape[-1]
        return columns

    def weekends(self, minutes: I32) -> Mask:
        """True for minutes since tick 0 (possibly long before it) that fall on a weekend."""
        of_week = (minutes + self.start_minute_of_week) % WEEK_MINUTES
        weekends: Mask = of_week >= _SATURDAY
        return weekends

    def recorded(self) -> I32:
        """[DAYS, W] minutes since tick 0 of the values in `days`."""
        width = self.days.shape[-1]
        return minutes_of_days(width).reshape(DAYS, width)


def past_from(history: F32, minutes: int, start_minute_of_week: int) -> Past:
    """Cut recorded minutes [E, D, HISTORY_MINUTES] that end at tick 0.

    Forecasts may be made during `minutes` from tick 0 on.
    """
    width = day_width(minutes)
    days = history[:, :, minutes_of_days(width)]
    return past_of_days(days, history[:, :, -LEAD_MIN:], minutes, start_minute_of_week)


def past_of_days(days: F32, recent: F32, minutes: int, start_minute_of_week: int) -> Past:
    """Build it from the minutes [E, D, DAYS * W] that `minutes_of_days` names."""
    shaped = days.reshape(*days.shape[:2], DAYS, day_width(minutes))
    return Past(shaped, recent, start_minute_of_week, minutes + _TAIL_MIN)


def day_width(minutes: int) -> int:
    """Minutes of each recorded day that are needed to forecast during `minutes` from tick 0."""
    return min(DAY_MINUTES, LEAD_MIN + minutes + _TAIL_MIN)


def minutes_of_days(width: int) -> I32:
    """Minutes since tick 0 (all negative) of `width` minutes of each day, day after day."""
    day = np.arange(-DAYS, 0, dtype=np.int32) * DAY_MINUTES
    # Each stored day begins as long before tick 0's time of day as the recent minutes do.
    of_day = np.arange(width, dtype=np.int32) - LEAD_MIN
    minutes: I32 = (day[:, None] + of_day).ravel().astype(np.int32)
    return minutes
