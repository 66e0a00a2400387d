"""Times of a scenario: files have minutes and weekdays, the world counts ticks.

Also the announced calendar, which is all that a forecaster may learn about the future. It is kept
apart from events: code that takes announcements cannot depend on what really happens.
"""

import math
import re
from collections.abc import Sequence
from typing import Annotated, Final, NamedTuple

import msgspec
from msgspec import Meta

from models.cluster.calendar import DAY_MINUTES, HISTORY_MINUTES, WEEK_MINUTES, Announcement
from models.cluster.description import Name, Positive

# Bounded, because ticks are 32-bit; no scenario needs more than the length of the history.
Moment = Annotated[float, Meta(ge=-HISTORY_MINUTES, le=HISTORY_MINUTES)]
"""Minutes from the accounted start."""
Span = Annotated[float, Meta(ge=0, le=HISTORY_MINUTES)]
"""A duration in minutes, possibly 0."""
Lasting = Annotated[float, Meta(gt=0, le=HISTORY_MINUTES)]
"""A duration in minutes, above 0."""

WEEKDAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MOMENT = re.compile(rf"({'|'.join(WEEKDAYS)}) ([01]\d|2[0-3]):([0-5]\d)")


class Timeline(NamedTuple):
    """The ticks of a scenario. Tick 0 is the start of the warm-up."""

    tick_seconds: int
    warmup_ticks: int
    """Simulated but not accounted; the accounted part starts at this tick."""
    total_ticks: int
    """Warm-up included."""
    start_minute_of_week: int
    """Of tick 0, since Monday 00:00."""

    def ticks(self, minutes: float) -> float:
        """A duration in ticks."""
        return minutes * 60 / self.tick_seconds

    def tick_at(self, minute: float) -> float:
        """The tick of a minute since the accounted start."""
        return self.warmup_ticks + self.ticks(minute)

    @property
    def warmup_minutes(self) -> int:
        """Minutes from tick 0 to the accounted start, rounded up."""
        return math.ceil(self.warmup_ticks * self.tick_seconds / 60)

    @property
    def total_minutes(self) -> int:
        """Minutes from tick 0 to the end, rounded up."""
        return math.ceil(self.total_ticks * self.tick_seconds / 60)


def timeline(start: str, warmup_minutes: int, length_minutes: int, tick_seconds: int) -> Timeline:
    """The timeline of a scenario whose accounted part begins at `start`."""
    warmup = math.ceil(warmup_minutes * 60 / tick_seconds)
    length = math.ceil(length_minutes * 60 / tick_seconds)
    # The warm-up may begin in the week before.
    first = (minute_of_week(start) - warmup_minutes) % WEEK_MINUTES
    return Timeline(tick_seconds, warmup, warmup + length, first)


def minute_of_week(moment: str) -> int:
    """Minutes from Monday 00:00 to a time such as "Tue 10:00"."""
    found = _MOMENT.fullmatch(moment)
    if not found:
        raise ValueError(
            f'start: expected a weekday and a time such as "Tue 10:00", got "{moment}"'
        )
    day, hour, minute = found.groups()
    return WEEKDAYS.index(day) * DAY_MINUTES + int(hour) * 60 + int(minute)


class CalendarEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An announced campaign or batch in a scenario file."""

    name: Name
    domains: Annotated[tuple[Name, ...], Meta(min_length=1)]
    at_minute: Moment
    """Announced beginning, from the accounted start; may lie before it or after the end."""
    length_minutes: Lasting
    expected_factor: Positive
    """Announced traffic over what would be normal then."""


def announcements(
    entries: Sequence[CalendarEntry], domain_names: Sequence[str], times: Timeline
) -> tuple[Announcement, ...]:
    """Convert calendar entries to domain indices and ticks, earliest first."""
    found = [
        Announcement(
            name=entry.name,
            domains=tuple(domain_names.index(name) for name in entry.domains),
            start_tick=round(times.tick_at(entry.at_minute)),
            end_tick=round(times.tick_at(entry.at_minute + entry.length_minutes)),
            expected_factor=entry.expected_factor,
        )
        for entry in entries
    ]
    return tuple(sorted(found, key=lambda announcement: announcement.start_tick))
