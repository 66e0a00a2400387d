"""What an operator ordered; it always wins."""

from typing import Annotated, Literal

from schemas.fields import Count, Event, Mode, Name, Time, about


class OverrideIssued(Event, frozen=True, kw_only=True):
    """The newest of a scope counts, until it ends."""

    scope: Annotated[Name, about("an app, a domain, or `cluster`")]
    kind: Literal["app", "domain", "cluster"]
    mode: Annotated[Mode | None, about("to be in; null leaves it")] = None
    replicas: Annotated[Count | None, about("of an app, exactly; null leaves them")] = None
    pause: Literal["none", "all", "scale-in", "scale-out"] = "none"
    until: Annotated[Time | None, about("null: until lifted")] = None
    lifted: bool = False
    reason: str = ""
    issued_by: str = ""
