"""The time of a scenario: people write minutes and weekdays, the world counts ticks."""

import math
import re
from collections.abc import Sequence
from typing import Annotated, Final, NamedTuple

import msgspec
from msgspec import Meta

from models.cluster.calendar import DAY_MINUTES, HISTORY_MINUTES, WEEK_MINUTES, Announcement
from models.cluster.description import Name, Positive

# Bounded, because ticks are 32-bit; nothing of interest is further away than the history.
Moment = Annotated[float, Meta(ge=-HISTORY_MINUTES, le=HISTORY_MINUTES)]
"""Minutes from the accounted start."""
Span = Annotated[float, Meta(ge=0, le=HISTORY_MINUTES)]
"""Minutes something takes, possibly none."""
Lasting = Annotated[float, Meta(gt=0, le=HISTORY_MINUTES)]
"""Minutes something takes."""

WEEKDAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MOMENT = re.compile(rf"({'|'.join(WEEKDAYS)}) ([01]\d|2[0-3]):([0-5]\d)")


class Timeline(NamedTuple):
    """Where the ticks of a scenario lie. Tick 0 is the start of the warm-up."""

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
        """The tick of a minute that is counted from the accounted start."""
        return self.warmup_ticks + self.ticks(minute)

    @property
    def warmup_minutes(self) -> int:
        """Minutes between tick 0 and the accounted start, a begun one counted."""
        return math.ceil(self.warmup_ticks * self.tick_seconds / 60)

    @property
    def total_minutes(self) -> int:
        """Minutes from tick 0 to the end, a begun one counted."""
        return math.ceil(self.total_ticks * self.tick_seconds / 60)


def timeline(start: str, warmup_minutes: int, length_minutes: int, tick_seconds: int) -> Timeline:
    """Lay out a scenario whose accounted part begins at `start`."""
    warmup = math.ceil(warmup_minutes * 60 / tick_seconds)
    length = math.ceil(length_minutes * 60 / tick_seconds)
    first = (minute_of_week(start) - warmup_minutes) % WEEK_MINUTES
    return Timeline(tick_seconds, warmup, warmup + length, first)


def minute_of_week(moment: str) -> int:
    """Minutes since Monday 00:00 of a moment such as "Tue 10:00"."""
    found = _MOMENT.fullmatch(moment)
    if not found:
        raise ValueError(
            f'start: expected a weekday and a time such as "Tue 10:00", got "{moment}"'
        )
    day, hour, minute = found.groups()
    return WEEKDAYS.index(day) * DAY_MINUTES + int(hour) * 60 + int(minute)


class CalendarEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An announced campaign or batch, as a scenario file states it."""

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
    """Put checked calendar entries on the axes of the world, the earliest first."""
    placed = [
        Announcement(
            name=entry.name,
            domains=tuple(domain_names.index(name) for name in entry.domains),
            start_tick=round(times.tick_at(entry.at_minute)),
            end_tick=round(times.tick_at(entry.at_minute + entry.length_minutes)),
            expected_factor=entry.expected_factor,
        )
        for entry in entries
    ]
    return tuple(sorted(placed, key=lambda announcement: announcement.start_tick))
