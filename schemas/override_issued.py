"""An operator's order. It takes precedence over every plan, not over what stops changes."""

from typing import Annotated, Literal

from schemas.fields import Count, Event, Mode, Name, Time, about


class OverrideIssued(Event, frozen=True, kw_only=True):
    """An order for one scope. The newest record of a scope wins, until it ends or is lifted."""

    scope: Annotated[Name, about("Name of an app or a domain, or `cluster`.")]
    kind: Annotated[Literal["app", "domain", "cluster"], about("What `scope` names.")]
    mode: Annotated[Mode | None, about("Mode to use; null leaves the mode as it is.")] = None
    replicas: Annotated[
        Count | None,
        about(
            "Exact number of replicas of an app, within its declared bounds; null leaves it to the "
            "plan. Modes, pauses and breakers win over it."
        ),
    ] = None
    pause: Annotated[
        Literal["none", "all", "scale-in", "scale-out"],
        about("Changes that must not be applied."),
    ] = "none"
    until: Annotated[Time | None, about("End of the order, UTC; null means until lifted.")] = None
    lifted: Annotated[bool, about("True if the order no longer holds.")] = False
    reason: Annotated[str, about("Why the order was issued, in plain words.")] = ""
    issued_by: Annotated[str, about("Person or system that issued the order.")] = ""
