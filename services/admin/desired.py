"""Topics, their settings and ACLs as a broker should have them, derived from schemas/topics.py.

In Kafka, READ or WRITE on a topic implies DESCRIBE, and so do READ on a group and WRITE on a
transactional id.
"""

from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

import msgspec

from schemas.topics import ANY, DOMAIN_PARTITIONS, HOUR_MS, TOPICS, Topic, app_id, state_topic

MIB: Final = 1024 * 1024

STATEFUL: Final = {
    "collector": 1,
    "aggregator": DOMAIN_PARTITIONS,
    "forecaster": 1,
    "commander": 1,
    "soldier": DOMAIN_PARTITIONS,
    "actuator": DOMAIN_PARTITIONS,
    "breaker": DOMAIN_PARTITIONS,
    "provisioner": 1,
}
"""Partitions of the state topic, by stateful service. State by domain has as many partitions as
the topics that the service reads, so that a domain's state and events share a partition number;
state of the whole cluster has one."""

UNFENCED: Final = frozenset({"collector"})
"""Stateful services that own no partitions, so they write without transactions."""

Resource = Literal["topic", "group", "cluster", "transactional-id"]
Pattern = Literal["literal", "prefixed"]

CLUSTER_NAME: Final = "kafka-cluster"
"""Kafka's name for the resource that stands for the whole cluster."""


class DesiredTopic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic with Kafka's settings."""

    name: str
    partitions: int
    replication: int
    configs: dict[str, str]


class Permission(NamedTuple):
    """One operation that one service may do."""

    user: str
    operation: str
    resource: Resource
    name: str
    pattern: Pattern = "literal"

    def __str__(self) -> str:
        star = "*" if self.pattern == "prefixed" else ""
        return f"{self.user} {self.operation} {self.resource} {self.name}{star}"


def in_sync(replication: int) -> int:
    """Copies that must have a record before it is acknowledged: two of three, else one."""
    # With two of three, one broker may be lost without losing records or stopping writes. With two
    # copies in all, requiring both would stop writes when either is lost.
    return 2 if replication >= 3 else 1


def desired_topics(replication: int) -> tuple[DesiredTopic, ...]:
    """All topics of the bus in the order of data flow, then the services' state topics."""
    flow = tuple(_flow_topic(topic, replication) for topic in TOPICS)
    state = tuple(
        DesiredTopic(
            name=state_topic(service),
            partitions=partitions,
            replication=replication,
            configs=_common_configs(replication) | _compact_configs(),
        )
        for service, partitions in STATEFUL.items()
    )
    return flow + state


def services() -> tuple[str, ...]:
    """All services that read or write a topic."""
    named = {name for topic in TOPICS for name in (*topic.producers, *topic.consumers)}
    return tuple(sorted(named - {ANY}))


def desired_permissions() -> tuple[Permission, ...]:
    """The least that each service needs."""
    return tuple(one for service in services() for one in _service_permissions(service))


def _flow_topic(topic: Topic, replication: int) -> DesiredTopic:
    cleanup = _delete_configs(topic.retention_ms)
    if topic.cleanup == "compact":
        # `hirl explain` looks back further than the newest record of a key.
        cleanup = _compact_configs() | {"min.compaction.lag.ms": str(topic.history_ms)}
    return DesiredTopic(
        name=topic.name,
        partitions=topic.partitions,
        replication=replication,
        configs=_common_configs(replication) | cleanup,
    )


def _common_configs(replication: int) -> dict[str, str]:
    return {
        # Events have at most 512 KiB and states 1,000,000 bytes; the rest is for headers.
        "max.message.bytes": str(MIB),
        "min.insync.replicas": str(in_sync(replication)),
        # Event time is inside the record. A simulated cluster's time may be years off; with
        # CreateTime a broker would delete such records as old or refuse them as future.
        "message.timestamp.type": "LogAppendTime",
    }


def _delete_configs(retention_ms: int) -> dict[str, str]:
    return {"cleanup.policy": "delete", "retention.ms": str(retention_ms)}


def _compact_configs() -> dict[str, str]:
    # Kafka compacts closed segments only: close them soon, and clean when a tenth is obsolete.
    return {
        "cleanup.policy": "compact",
        "segment.ms": "60000",
        "segment.bytes": str(16 * MIB),
        "min.cleanable.dirty.ratio": "0.1",
        # How long a reader that lags still sees that a key was removed.
        "delete.retention.ms": str(HOUR_MS),
    }


def _service_permissions(service: str) -> Iterator[Permission]:
    for topic in TOPICS:
        if service in topic.producers or ANY in topic.producers:
            yield Permission(service, "WRITE", "topic", topic.name)
        if service in topic.consumers or ANY in topic.consumers:
            yield Permission(service, "READ", "topic", topic.name)
    if service in STATEFUL:
        yield Permission(service, "READ", "topic", state_topic(service))
        yield Permission(service, "WRITE", "topic", state_topic(service))
    if service in STATEFUL.keys() - UNFENCED:
        # A principal that may use the id of another service can fence that service repeatedly.
        yield Permission(service, "WRITE", "transactional-id", f"{app_id(service)}-", "prefixed")
    if service == "operator":
        # For `hirl state show`.
        for stateful in STATEFUL:
            yield Permission(service, "READ", "topic", state_topic(stateful))
    # For idempotent producers; brokers from 2.8 on need only WRITE.
    yield Permission(service, "IDEMPOTENT_WRITE", "cluster", CLUSTER_NAME)
    if any(service in topic.consumers for topic in TOPICS):
        yield Permission(service, "READ", "group", app_id(service), "prefixed")
