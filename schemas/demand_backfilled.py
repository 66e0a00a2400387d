"""Traffic of a domain before the first tick, so that a forecaster starts with two weeks of it."""

from typing import Annotated

from schemas.fields import Event, Name, Sample, Tick, Time, about


class DemandBackfilled(Event, frozen=True, kw_only=True):
    """Mean requests per second of past minutes, calls between apps included."""

    domain: Annotated[Name, about("Domain whose traffic was recorded.")]
    until_tick: Annotated[Tick, about("Tick at which the last minute ends.")]
    until: Annotated[Time, about("Time at which the last minute ends, UTC.")]
    rps: Annotated[
        list[Sample],
        about("Requests per second of each minute, oldest first; null means unknown.", "1/s"),
    ]
