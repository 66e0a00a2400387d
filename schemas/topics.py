"""Every topic, in the order in which data flows. Read this module first.

A topic's name, its event's class and that class's file share one stem. Everything measured or
decided about a domain is keyed by the domain, so one consumer reads all of it, in order.
"""

from typing import Final, Literal

import msgspec

from schemas.app_declared import AppDeclared
from schemas.breaker_changed import BreakerChanged
from schemas.budget_granted import BudgetGranted
from schemas.capacity_requested import CapacityRequested
from schemas.demand_backfilled import DemandBackfilled
from schemas.demand_forecast import DemandForecast
from schemas.domain_observed import DomainObserved
from schemas.event_scheduled import EventScheduled
from schemas.fields import Event
from schemas.metrics_sampled import MetricsSampled
from schemas.model_judged import ModelJudged
from schemas.model_promoted import ModelPromoted
from schemas.override_issued import OverrideIssued
from schemas.pool_observed import PoolObserved
from schemas.rejected import Rejected
from schemas.samples_signed import SamplesSigned
from schemas.scale_applied import ScaleApplied
from schemas.scale_planned import ScalePlanned
from schemas.state_reset import StateReset
from schemas.transition_recorded import TransitionRecorded

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
DOMAIN_PARTITIONS: Final = 8
"""Up to eight processes of a service; a domain stays in one partition, so its order is kept."""

Cleanup = Literal["delete", "compact"]


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    """One topic, and which principals may write and read it."""

    name: str
    event: type[Event]
    key: str
    """Field of the event that is the record's key, or several joined by `/`; empty if records have
    no key."""
    about: str
    producers: tuple[str, ...]
    """Principals that may write; ACLs are made from this. Not all are services: `operator` and
    `registry` are people and their tools, `provisioner` is also the simulated cluster, `agent` and
    `trainer` are planned."""
    consumers: tuple[str, ...]
    """Principals that may read; ACLs are made from this. `operator` reads everything, for
    `hirl tail` and `hirl explain`."""
    partitions: int = DOMAIN_PARTITIONS
    cleanup: Cleanup = "delete"
    retention_ms: int = DAY_MS
    """Unused if the topic is compacted."""
    history_ms: int = HOUR_MS
    """How long replaced records of a compacted topic stay readable."""


ANY: Final = "*"
"""Every service."""

# Compacted topics are state: the newest record of a key counts. Those that each process reads
# whole, such as the inventory, have one partition. Topics that a service shares among its processes
# have DOMAIN_PARTITIONS, all of them, so that one process gets all events of a domain.
TOPICS: Final = (
    Topic(
        name="hirl.app-declared.v1",
        event=AppDeclared,
        key="app",
        about="The inventory: declared apps.",
        producers=("collector",),
        consumers=("collector", "aggregator", "forecaster", "soldier", "actuator", "operator"),
        partitions=1,
        cleanup="compact",
    ),
    Topic(
        name="hirl.event-scheduled.v1",
        event=EventScheduled,
        key="name",
        about="The calendar: announced campaigns and batches.",
        producers=("collector", "operator"),
        consumers=("forecaster", "operator"),
        partitions=1,
        cleanup="compact",
    ),
    Topic(
        name="hirl.demand-backfilled.v1",
        event=DemandBackfilled,
        key="domain",
        about="Traffic before the first tick, for forecasters.",
        producers=("collector",),
        consumers=("forecaster", "operator"),
        partitions=1,
        cleanup="compact",
    ),
    Topic(
        name="hirl.metrics-sampled.v1",
        event=MetricsSampled,
        key="domain",
        about="Raw samples of apps or pods.",
        producers=("collector",),
        consumers=("aggregator", "operator"),
        retention_ms=6 * HOUR_MS,
    ),
    Topic(
        name="hirl.samples-signed.v1",
        event=SamplesSigned,
        key="domain",
        about="Raw samples of pods from agents, signed with the key of their domain.",
        producers=("agent",),
        consumers=("aggregator", "operator"),
        retention_ms=6 * HOUR_MS,
    ),
    Topic(
        name="hirl.pool-observed.v1",
        event=PoolObserved,
        key="pool",
        about="Nodes, free capacity and cost of each pool.",
        producers=("collector",),
        consumers=("aggregator", "commander", "breaker", "provisioner", "operator"),
        partitions=1,
        cleanup="compact",
    ),
    Topic(
        name="hirl.domain-observed.v1",
        event=DomainObserved,
        key="domain",
        about="The frame of a domain: everything observed of it in a tick.",
        producers=("aggregator",),
        consumers=("forecaster", "soldier", "actuator", "breaker", "operator"),
    ),
    Topic(
        name="hirl.demand-forecast.v1",
        event=DemandForecast,
        key="domain",
        about="Traffic forecasts.",
        producers=("forecaster",),
        consumers=("commander", "breaker", "operator"),
    ),
    Topic(
        name="hirl.budget-granted.v1",
        event=BudgetGranted,
        key="domain",
        about="Capacity per domain: the contract other systems subscribe to.",
        producers=("commander",),
        consumers=("soldier", "actuator", "breaker", "collector", "operator"),
        cleanup="compact",
    ),
    Topic(
        name="hirl.capacity-requested.v1",
        event=CapacityRequested,
        key="pool",
        about="One coordinated node request per pool.",
        producers=("commander",),
        consumers=("provisioner", "operator"),
        partitions=1,
    ),
    Topic(
        name="hirl.scale-planned.v1",
        event=ScalePlanned,
        key="domain",
        about="The plan of a Soldier for a tick, and the sums it reports to the Commander.",
        producers=("soldier",),
        consumers=("commander", "actuator", "operator"),
    ),
    Topic(
        name="hirl.scale-applied.v1",
        event=ScaleApplied,
        key="domain",
        about="The audit: each change applied, held or superseded, with its reason.",
        producers=("actuator",),
        consumers=("breaker", "collector", "operator"),
        retention_ms=30 * DAY_MS,
    ),
    Topic(
        name="hirl.breaker-changed.v1",
        event=BreakerChanged,
        key="scope",
        about="Whether changes may be applied, with a heartbeat.",
        producers=("breaker",),
        consumers=("commander", "soldier", "actuator", "breaker", "collector", "operator"),
        partitions=1,
        cleanup="compact",
    ),
    Topic(
        name="hirl.override-issued.v1",
        event=OverrideIssued,
        # Not the scope alone: an app may be called like a domain, and a floor must not replace a
        # pause when the topic is compacted.
        key="kind/scope/order",
        about="Orders of operators.",
        producers=("operator",),
        consumers=("actuator", "breaker", "operator"),
        partitions=1,
        cleanup="compact",
        # As long as the audit that refers to the orders.
        history_ms=30 * DAY_MS,
    ),
    Topic(
        name="hirl.state-reset.v1",
        event=StateReset,
        key="state",
        about="Orders of operators to drop a saved state.",
        producers=("operator",),
        consumers=(
            "aggregator",
            "forecaster",
            "commander",
            "soldier",
            "actuator",
            "breaker",
            "operator",
        ),
        partitions=1,
        cleanup="compact",
    ),
    Topic(
        name="hirl.model-promoted.v1",
        event=ModelPromoted,
        key="model",
        about="Model versions that services switch to.",
        producers=("registry",),
        consumers=("forecaster", "commander", "soldier", "registry", "operator"),
        partitions=1,
        cleanup="compact",
        # As long as the history of what became of them.
        history_ms=30 * DAY_MS,
    ),
    Topic(
        name="hirl.model-judged.v1",
        event=ModelJudged,
        key="scope",
        about="The history of rollouts: what services made of promoted models.",
        producers=("forecaster", "commander", "soldier"),
        # Soldiers of all domains agree by it.
        consumers=("soldier", "registry", "operator"),
        retention_ms=30 * DAY_MS,
    ),
    Topic(
        name="hirl.transition-recorded.v1",
        event=TransitionRecorded,
        key="agent",
        about="Transitions of the Commander and the Soldiers, for retraining.",
        producers=("commander", "soldier"),
        consumers=("trainer", "operator"),
        retention_ms=7 * DAY_MS,
    ),
    Topic(
        name="hirl.rejected.v1",
        event=Rejected,
        key="",
        about="Dead letters.",
        producers=(ANY,),
        consumers=("operator",),
        partitions=1,
        retention_ms=7 * DAY_MS,
    ),
)

BY_NAME: Final = {topic.name: topic for topic in TOPICS}
_BY_EVENT: Final = {topic.event: topic for topic in TOPICS}


def topic_of(event: Event | type[Event]) -> Topic:
    """The topic of an event."""
    return _BY_EVENT[event if isinstance(event, type) else type(event)]


def key_of(event: Event) -> str:
    """The record's key, which keeps the events of one domain, app or pool in order."""
    fields = topic_of(event).key
    return "/".join(str(getattr(event, field)) for field in fields.split("/")) if fields else ""


def state_topic(service: str) -> str:
    """The compacted topic of a service's saved state, keyed by domain or `cluster`."""
    return f"hirl.state-{service}.v1"


def app_id(service: str) -> str:
    """A service's consumer group, which is also its Faust app id."""
    return f"hirl-{service}"
