"""The traffic of a domain before the first tick, so that a forecaster need not wait two weeks."""

from typing import Annotated

from schemas.fields import Event, Name, Sample, Tick, Time, about


class DemandBackfilled(Event, frozen=True, kw_only=True):
    """Mean requests per second of past minutes, calls between apps included."""

    domain: Annotated[Name, about("whose traffic it is")]
    until_tick: Annotated[Tick, about("the last minute ends here")]
    until: Annotated[Time, about("the same as time")]
    rps: Annotated[list[Sample], about("per minute, oldest first; null: not known", "1/s")]
