"""What an operator ordered; it always wins."""

from typing import Annotated, Literal

from schemas.fields import Count, Event, Mode, Name, Time, about


class OverrideIssued(Event, frozen=True, kw_only=True):
    """The newest of a scope counts, until it ends."""

    scope: Annotated[Name, about("an app, a domain, or `cluster`")]
    kind: Annotated[Literal["app", "domain", "cluster"], about("what the scope names")]
    mode: Annotated[Mode | None, about("to be in; null leaves it")] = None
    replicas: Annotated[Count | None, about("of an app, exactly; null leaves them")] = None
    pause: Annotated[
        Literal["none", "all", "scale-in", "scale-out"], about("what is not to be done")
    ] = "none"
    until: Annotated[Time | None, about("null: until lifted")] = None
    lifted: Annotated[bool, about("the order no longer holds")] = False
    reason: Annotated[str, about("why, in words")] = ""
    issued_by: Annotated[str, about("who ordered it")] = ""
