"""The circuit breaker: whether changes may be applied. Sent on each change, and as a heartbeat."""

from typing import Annotated, Literal

from schemas.fields import Name, Tick, TickEvent, about

State = Literal["closed", "open", "half-open"]


class BreakerChanged(TickEvent, frozen=True, kw_only=True):
    """The breaker of a scope. The newest record wins; a stale heartbeat counts as open."""

    scope: Annotated[Name, about("A domain, or `cluster`.")]
    state: Annotated[
        State,
        about("`closed`: changes pass. `half-open`: only increases pass. `open`: none pass."),
    ]
    since_tick: Annotated[Tick, about("Tick at which the state began.")]
    reason: Annotated[str, about("Why the breaker is not closed; empty if it is.")] = ""
    heartbeat: Annotated[bool, about("True if the state did not change.")] = False
    readings: Annotated[
        dict[str, float],
        about("Measured values by name, and each threshold as `NAME_threshold`."),
    ] = {}
