"""One entry of the calendar: an announced campaign or batch. Reality may differ from it."""

from typing import Annotated

from msgspec import Meta

from schemas.fields import Event, Name, Ratio, Time, about


class EventScheduled(Event, frozen=True, kw_only=True):
    """An announced event. The newest record of a name wins."""

    name: Annotated[Name, about("Unique name of the campaign or batch.")]
    domains: Annotated[
        list[Name], Meta(min_length=1, description="Domains whose traffic the event changes.")
    ]
    starts_at: Annotated[Time, about("Announced start, UTC.")]
    ends_at: Annotated[Time, about("Announced end, UTC.")]
    expected_factor: Annotated[
        Ratio, about("Expected traffic over the usual traffic at that time of the week.")
    ]
    cancelled: Annotated[bool, about("True if the event will not take place.")] = False
