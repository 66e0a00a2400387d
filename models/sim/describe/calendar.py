"""What was announced, which is all that a forecaster may know of the future.

This module knows nothing of events: a function that takes `Announcement`s cannot see what
will happen, only what people were told.
"""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from models.cluster.calendar import Announcement
from models.cluster.description import Name, Positive
from models.sim.describe.timeline import Lasting, Moment, Timeline


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
