"""An operator's order. It takes precedence over every plan, not over what stops changes."""

from typing import Annotated, Literal

from schemas.fields import Count, Event, Mode, Name, Time, about

ScopeKind = Literal["app", "tier", "domain", "cluster"]
OrderKind = Literal["any", "pause", "freeze", "mode", "floor", "ceiling", "replicas", "breaker"]
BreakerOrder = Literal["open", "reset"]


class OverrideIssued(Event, frozen=True, kw_only=True):
    """An order for one scope. The newest record of a kind, scope and order wins, until it ends.

    Readers limit how many orders take effect per minute, and end each after seven days at the
    latest.
    """

    scope: Annotated[
        Name,
        about("Name of an app or a domain, `DOMAIN/TIER` with the tier's index, or `cluster`."),
    ]
    kind: Annotated[ScopeKind, about("What `scope` names.")]
    order: Annotated[
        OrderKind,
        about("What is ordered; orders of different kinds do not replace each other."),
    ] = "any"
    order_id: Annotated[str, about("Id of the order; `hirl.scale-applied.v1` refers to it.")] = ""
    mode: Annotated[Mode | None, about("Mode to use; null leaves the mode as it is.")] = None
    replicas: Annotated[
        Count | None,
        about(
            "Exact number of replicas of an app, within its declared bounds and the ordered floor "
            "and ceiling; null leaves it to the plan. Modes, pauses and breakers win over it. No "
            "command sends it."
        ),
    ] = None
    floor: Annotated[
        Count | None, about("Fewest replicas of each app of the scope; null sets no floor.")
    ] = None
    ceiling: Annotated[
        Count | None, about("Most replicas of each app of the scope; null sets no ceiling.")
    ] = None
    breaker: Annotated[
        BreakerOrder | None,
        about("`open` opens the breaker until the order ends; `reset` closes it once."),
    ] = None
    pause: Annotated[
        Literal["none", "all", "scale-in", "scale-out"],
        about("Changes that must not be applied."),
    ] = "none"
    issued_at: Annotated[Time | None, about("Event time at which the order was issued.")] = None
    until: Annotated[
        Time | None, about("End of the order in event time; null means the longest allowed.")
    ] = None
    lifted: Annotated[bool, about("True if the order no longer holds.")] = False
    reason: Annotated[str, about("Why the order was issued, in plain words.")] = ""
    issued_by: Annotated[str, about("Person or system that issued the order.")] = ""
    authenticated: Annotated[
        bool,
        about("True if the broker authenticated `issued_by`; else it is a user of the machine."),
    ] = False
