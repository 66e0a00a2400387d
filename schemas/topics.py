"""The map to read first: every topic, in the order in which data flows.

A topic's name, its event's class and that class's file share one stem. Everything measured or
decided about a domain is keyed by the domain, so one consumer sees all of it, in order.
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
from schemas.model_promoted import ModelPromoted
from schemas.override_issued import OverrideIssued
from schemas.pool_observed import PoolObserved
from schemas.rejected import Rejected
from schemas.scale_applied import ScaleApplied
from schemas.scale_planned import ScalePlanned
from schemas.transition_recorded import TransitionRecorded

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
DOMAIN_PARTITIONS: Final = 8
"""Enough for eight processes of a service; the order of a domain is kept within its partition."""

Cleanup = Literal["delete", "compact"]


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    """One topic and who may do what with it."""

    name: str
    event: type[Event]
    key: str
    """Field of the event that is the record's key; empty where there is none."""
    about: str
    producers: tuple[str, ...]
    """Services that may write."""
    consumers: tuple[str, ...]
    """Services that may read, as brokers are told: those of ModelPromoted do not read it yet."""
    partitions: int = DOMAIN_PARTITIONS
    cleanup: Cleanup = "delete"
    retention_ms: int = DAY_MS
    """Of a topic that is not compacted."""


ANY: Final = "*"
"""Every service."""

TOPICS: Final = (
    Topic(
        name="hirl.app-declared.v1",
        event=AppDeclared,
        key="app",
        about="the inventory",
        producers=("collector", "operator"),
        consumers=("aggregator", "forecaster", "soldier", "actuator"),
        partitions=1,
        cleanup="compact",
    ),
    Topic(
        name="hirl.event-scheduled.v1",
        event=EventScheduled,
        key="name",
        about="the calendar: what was announced",
        producers=("collector", "operator"),
        consumers=("forecaster",),
        partitions=1,
        cleanup="compact",
    ),
    Topic(
        name="hirl.demand-backfilled.v1",
        event=DemandBackfilled,
        key="domain",
        about="traffic before the first tick, for forecasters",
        producers=("collector",),
        consumers=("forecaster",),
        partitions=1,
        cleanup="compact",
    ),
    Topic(
        name="hirl.metrics-sampled.v1",
        event=MetricsSampled,
        key="domain",
        about="samples as they were measured",
        producers=("collector", "agent"),
        consumers=("aggregator",),
        retention_ms=6 * HOUR_MS,
    ),
    Topic(
        name="hirl.pool-observed.v1",
        event=PoolObserved,
        key="pool",
        about="node pools as they are",
        producers=("collector",),
        consumers=("aggregator", "commander"),
        partitions=1,
        cleanup="compact",
    ),
    Topic(
        name="hirl.domain-observed.v1",
        event=DomainObserved,
        key="domain",
        about="the frame of a domain: all that is seen of it in a tick",
        producers=("aggregator",),
        consumers=("forecaster", "soldier", "actuator", "breaker"),
    ),
    Topic(
        name="hirl.demand-forecast.v1",
        event=DemandForecast,
        key="domain",
        about="what traffic will be",
        producers=("forecaster",),
        consumers=("commander",),
    ),
    Topic(
        name="hirl.budget-granted.v1",
        event=BudgetGranted,
        key="domain",
        about="capacity per domain: the contract other systems subscribe to",
        producers=("commander",),
        consumers=("soldier", "actuator"),
        cleanup="compact",
    ),
    Topic(
        name="hirl.capacity-requested.v1",
        event=CapacityRequested,
        key="pool",
        about="one coordinated request for nodes per pool",
        producers=("commander",),
        consumers=("provisioner",),
        partitions=1,
    ),
    Topic(
        name="hirl.scale-planned.v1",
        event=ScalePlanned,
        key="domain",
        about="what a Soldier wants in a tick, and what its domain reports to the Commander",
        producers=("soldier",),
        consumers=("commander", "actuator"),
    ),
    Topic(
        name="hirl.scale-applied.v1",
        event=ScaleApplied,
        key="domain",
        about="audit: each change applied, held or superseded, with its reason",
        producers=("actuator",),
        consumers=("breaker",),
        retention_ms=30 * DAY_MS,
    ),
    Topic(
        name="hirl.breaker-changed.v1",
        event=BreakerChanged,
        key="scope",
        about="whether changes may be applied, with a heartbeat",
        producers=("breaker",),
        consumers=("actuator",),
        partitions=1,
        cleanup="compact",
    ),
    Topic(
        name="hirl.override-issued.v1",
        event=OverrideIssued,
        key="scope",
        about="what operators ordered",
        producers=("operator",),
        consumers=("actuator",),
        partitions=1,
        cleanup="compact",
    ),
    Topic(
        name="hirl.model-promoted.v1",
        event=ModelPromoted,
        key="model",
        about="models that services are to run",
        producers=("registry",),
        consumers=("forecaster", "commander", "soldier"),
        partitions=1,
        cleanup="compact",
    ),
    Topic(
        name="hirl.transition-recorded.v1",
        event=TransitionRecorded,
        key="agent",
        about="steps of the agents, for retraining",
        producers=("commander", "soldier"),
        consumers=("trainer",),
        retention_ms=7 * DAY_MS,
    ),
    Topic(
        name="hirl.rejected.v1",
        event=Rejected,
        key="",
        about="dead letters",
        producers=(ANY,),
        consumers=("operator",),
        partitions=1,
        retention_ms=7 * DAY_MS,
    ),
)

BY_NAME: Final = {topic.name: topic for topic in TOPICS}
_BY_EVENT: Final = {topic.event: topic for topic in TOPICS}


def topic_of(event: Event | type[Event]) -> Topic:
    """Where an event belongs."""
    return _BY_EVENT[event if isinstance(event, type) else type(event)]


def key_of(event: Event) -> str:
    """The record's key: what keeps events of one thing in order."""
    field = topic_of(event).key
    return str(getattr(event, field)) if field else ""


def state_topic(service: str) -> str:
    """The compacted topic in which a service keeps what it remembers, by domain or `cluster`."""
    return f"hirl.state-{service}.v1"
