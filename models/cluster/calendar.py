"""Announcements, and the periods in minutes that calendars and traffic records use."""

from typing import Final, NamedTuple

DAY_MINUTES: Final = 24 * 60
WEEK_MINUTES: Final = 7 * DAY_MINUTES
HISTORY_MINUTES: Final = 14 * DAY_MINUTES
"""Per-minute traffic that forecasters may look back on: two weeks, of which the seasonal rule can
use 13 whole days (`forecaster/past.py`)."""


class Announcement(NamedTuple):
    """An announced campaign or batch; what happens may differ."""

    name: str
    domains: tuple[int, ...]
    """Indices into the cluster's domains."""
    start_tick: int
    end_tick: int
    expected_factor: float
    """Announced traffic over normal traffic at that time."""
