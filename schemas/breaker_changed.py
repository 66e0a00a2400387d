"""The circuit breaker: whether changes may be applied. Sent on each change, and as a heartbeat."""

from typing import Annotated, Final, Literal

import msgspec

from schemas.fields import Count, Name, Tick, TickEvent, about

State = Literal["closed", "open", "half-open"]
STATES_BY_RESTRICTION: Final[tuple[State, ...]] = ("closed", "half-open", "open")
"""The strictest last. Of two events of one scope and tick the stricter one counts."""
Action = Literal[
    "none", "freeze", "increases-only", "no-scale-in", "decreases-only", "rollback", "fallback"
]
Level = Literal["policy", "heuristic", "reactive", "hold"]


class Rollback(msgspec.Struct, frozen=True, kw_only=True):
    """One step back to the last replicas known to be good: parallel columns of apps to raise."""

    apps: Annotated[list[Name], about("Apps that have fewer replicas than were good.")]
    replicas: Annotated[list[Count], about("Replicas to raise each of them to in this tick.")]


class BreakerChanged(TickEvent, frozen=True, kw_only=True):
    """The breaker of a scope. The newest record wins; a stale heartbeat counts as open."""

    scope: Annotated[Name, about("A domain, or `cluster`.")]
    state: Annotated[
        State,
        about(
            "`closed`: changes pass. `half-open`: what `action` lets pass, increases at least. "
            "`open`: nothing passes, unless `action` says otherwise."
        ),
    ]
    since_tick: Annotated[
        Tick, about("Tick at which the state began; of a hold by `level`, that of the phase below.")
    ]
    reason: Annotated[str, about("Why the breaker is not closed; empty if it is.")] = ""
    heartbeat: Annotated[bool, about("True if the state did not change.")] = False
    readings: Annotated[
        dict[str, float],
        about("Measured values by name, and each threshold as `NAME_threshold`."),
    ] = {}
    cause: Annotated[
        str,
        about(
            "Name of the reading that tripped it or made it fall back, or `state-lost`; empty if "
            "neither."
        ),
    ] = ""
    action: Annotated[
        Action | None,
        about(
            "What to do. `freeze`: nothing passes. `increases-only`: no decrease passes. "
            "`no-scale-in`: as before, but apps may give way (`yield`) and be resized. "
            "`decreases-only`: no increase passes, except in P0. `rollback`: as "
            "`increases-only`, and the apps of `rollback` are raised. `fallback`: everything "
            "passes, decided at `level`. Null: go by `state`."
        ),
    ] = None
    rollback: Annotated[Rollback | None, about("What to raise in this tick; null if nothing.")] = (
        None
    )
    level: Annotated[
        Level,
        about(
            "What may decide at most, whatever `action` is. `policy`: everything. `heuristic`: no "
            "learned policy. `reactive`: no forecasts either. `hold`: nothing, with `freeze`."
        ),
    ] = "policy"
