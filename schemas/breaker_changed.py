"""The safety circuit breaker: whether changes may be applied. Each change, and a heartbeat."""

from typing import Annotated, Literal

from schemas.fields import Name, Tick, TickEvent, about

State = Literal["closed", "open", "half-open"]


class BreakerChanged(TickEvent, frozen=True, kw_only=True):
    """The newest of a scope counts; a heartbeat that stops is as good as an open breaker."""

    scope: Annotated[Name, about("a domain, or `cluster`")]
    state: Annotated[
        State, about("closed: changes pass. half-open: a few do, as a trial. open: none does")
    ]
    since_tick: Annotated[Tick, about("at which the state began")]
    reason: Annotated[str, about("why it is not closed; empty when it is")] = ""
    heartbeat: Annotated[bool, about("nothing changed")] = False
    readings: Annotated[dict[str, float], about("what it goes by, beside its thresholds")] = {}
