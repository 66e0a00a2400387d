"""What was announced: a campaign, a batch. What happens may differ."""

from typing import Annotated

from msgspec import Meta

from schemas.fields import Event, Name, Ratio, Time, about


class EventScheduled(Event, frozen=True, kw_only=True):
    """An entry of the calendar. The newest of a name counts."""

    name: Annotated[Name, about("of the campaign or batch")]
    domains: Annotated[list[Name], Meta(min_length=1, description="it is announced for")]
    starts_at: Annotated[Time, about("announced beginning")]
    ends_at: Annotated[Time, about("announced end")]
    expected_factor: Annotated[Ratio, about("announced traffic over what is usual at that time")]
    cancelled: Annotated[bool, about("it will not happen")] = False
