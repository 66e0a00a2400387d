"""A model version that services switch to."""

from typing import Annotated, Literal

from schemas.fields import Event, Name, Time, about


class ModelPromoted(Event, frozen=True, kw_only=True):
    """The version of a model to serve. The newest record wins; services swap between two ticks."""

    model: Annotated[Name, about("Name of the model: `forecaster`, `commander` or `soldier`.")]
    version: Annotated[str, about("Version to serve, as decisions carry it.")]
    status: Annotated[
        Literal["promoted", "rolled-back"],
        about("`rolled-back` means that `version` is the one services return to."),
    ] = "promoted"
    uri: Annotated[
        str,
        about(
            "Store of the artefact, for people: services read their own configured store. Empty "
            "means what ships: the built-in heuristic or the shipped forecaster."
        ),
    ] = ""
    sha256: Annotated[
        str,
        about("Version of the artefact, the digest of its manifest; services refuse any other."),
    ] = ""
    promoted_at: Annotated[Time, about("Time of the registry's decision, UTC.")]
    reason: Annotated[str, about("Why the model was promoted or rolled back.")] = ""
    hold_at: Annotated[
        Literal["shadow", "canary", "serving"],
        about("Last stage that services enter by themselves; the next one needs another record."),
    ] = "serving"
    locked: Annotated[bool, about("True if services begin nothing new.")] = False
    unlock: Annotated[
        bool, about("True if the record ends the lock that a rollback began before it.")
    ] = False
    issued_by: Annotated[str, about("Person or system that decided.")] = ""
    authenticated: Annotated[
        bool,
        about("True if the broker authenticated `issued_by`; else it is a user of the machine."),
    ] = False
