"""A model version that services switch to."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from schemas.fields import Event, Name, Time, about

Decisions = Annotated[int, Meta(ge=1, le=10_000)]


class RolloutRules(msgspec.Struct, frozen=True, kw_only=True):
    """When candidates move on. Null: as the settings of the service say."""

    shadow_decisions: Annotated[
        Decisions | None, about("Decisions with known outcomes in shadow.")
    ] = None
    stage_decisions: Annotated[
        Decisions | None, about("Decisions with known outcomes in each stage of the canary.")
    ] = None
    patience_decisions: Annotated[
        Decisions | None, about("Decisions of a stage whose outcomes may stay unknown.")
    ] = None
    most_worse: Annotated[
        Annotated[float, Meta(ge=0, le=1)] | None,
        about("Share by which a candidate's cost may exceed the incumbent's over a stage."),
    ] = None
    drift_minutes: Annotated[
        Decisions | None, about("Window over which features are compared with training.", "minutes")
    ] = None
    most_drift: Annotated[
        Annotated[float, Meta(ge=0, le=1)] | None,
        about("Distance of a feature from training at which a policy is taken back."),
    ] = None
    lock_ticks: Annotated[
        Annotated[int, Meta(ge=0, le=100_000)] | None,
        about("Ticks after a rollback in which nothing is begun."),
    ] = None


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
    rules: Annotated[
        RolloutRules, about("Rules of rollouts from this record on, until one says otherwise.")
    ] = RolloutRules()
    issued_by: Annotated[str, about("Person or system that decided.")] = ""
    authenticated: Annotated[
        bool,
        about("True if the broker authenticated `issued_by`; else it is a user of the machine."),
    ] = False
