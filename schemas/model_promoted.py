"""A model version that services switch to."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from schemas.fields import Event, Name, Time, about

Decisions = Annotated[int, Meta(ge=1, le=10_000)]


AShare = Annotated[float, Meta(ge=0, le=1)]
Weight = Annotated[float, Meta(ge=0, le=1000)]


class GateLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Thresholds of `hirl models evaluate` and `promote`. Null: those of the release."""

    parity: Annotated[AShare | None, about("Largest difference of an export.")] = None
    drift: Annotated[
        AShare | None, about("Largest distance of a feature of recorded frames from training.")
    ] = None
    p0_share: Annotated[
        AShare | None, about("Share of the incumbent's P0 minutes that a scenario may have more.")
    ] = None
    p0_minutes: Annotated[
        Annotated[float, Meta(ge=0, le=1000)] | None, about("The same in minutes.", "min")
    ] = None
    equal: Annotated[
        AShare | None, about("Share by which J may be higher where an equal model will do.")
    ] = None
    oscillation: Annotated[
        AShare | None, about("Largest share of decisions that undo the one before.")
    ] = None
    decision_ms: Annotated[
        Annotated[float, Meta(ge=0.001, le=5000)] | None,
        about("99th percentile of a decision.", "ms"),
    ] = None
    z: Annotated[
        Annotated[float, Meta(ge=1, le=6)] | None, about("Quantile of the certificate.")
    ] = None


class ObjectiveWeights(msgspec.Struct, frozen=True, kw_only=True):
    """What a violated app-minute of each priority costs. Null: as the cluster file says."""

    p0: Annotated[Weight | None, about("Of the highest priority.")] = None
    p1: Annotated[Weight | None, about("Of the second.")] = None
    p2: Annotated[Weight | None, about("Of the third.")] = None
    p3: Annotated[Weight | None, about("Of the lowest.")] = None


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
    most_answer_seconds: Annotated[
        Annotated[float, Meta(ge=0.001, le=5)] | None, about("Longest answer of a model.", "s")
    ] = None
    most_spend: Annotated[
        Annotated[float, Meta(ge=0, le=1)] | None,
        about("Share of the spend cap at which a Commander's policy is taken back."),
    ] = None
    gate: Annotated[GateLimits, about("Thresholds of the gate.")] = GateLimits()
    weights: Annotated[
        ObjectiveWeights, about("Weights that policies are compared and rewarded by.")
    ] = ObjectiveWeights()


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
