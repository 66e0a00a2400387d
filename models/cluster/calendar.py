"""What was announced, and the minutes in which calendars and traffic records count."""

from typing import Final, NamedTuple

DAY_MINUTES: Final = 24 * 60
WEEK_MINUTES: Final = 7 * DAY_MINUTES
HISTORY_MINUTES: Final = 14 * DAY_MINUTES
"""Per-minute traffic that forecasters may look back on."""


class Announcement(NamedTuple):
    """A campaign or batch that people announced; what happens may differ."""

    name: str
    domains: tuple[int, ...]
    """Indices into the cluster's domains."""
    start_tick: int
    end_tick: int
    expected_factor: float
    """Announced traffic over what would be normal then."""
