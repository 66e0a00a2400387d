"""The topics as a broker is to have them: schemas/topics.py with Kafka's settings."""

from typing import Final

import msgspec

from schemas.topics import DOMAIN_PARTITIONS, HOUR_MS, TOPICS, Topic, state_topic

MIB: Final = 1024 * 1024

STATEFUL: Final = {
    "collector": 1,
    "aggregator": DOMAIN_PARTITIONS,
    "forecaster": 1,
    "commander": 1,
    "soldier": DOMAIN_PARTITIONS,
    "actuator": DOMAIN_PARTITIONS,
    "breaker": DOMAIN_PARTITIONS,
}
"""Services that remember, with the partitions of their state: as many as the topics that they
read where state is by domain, so that state and events of a domain are in the same partition
number; one where it is of the whole cluster."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """A topic as it ought to be."""

    name: str
    partitions: int
    replication: int
    configs: dict[str, str]


def in_sync(replication: int) -> int:
    """Copies that must have a record before it is acknowledged: all but one of three."""
    return 2 if replication >= 3 else 1


def wanted_topics(replication: int) -> tuple[Wanted, ...]:
    """Every topic of the bus, in the order in which data flows, then the services' state."""
    flow = tuple(_of_flow(topic, replication) for topic in TOPICS)
    state = tuple(
        Wanted(
            name=state_topic(service),
            partitions=partitions,
            replication=replication,
            configs=_common(replication) | _compacted(),
        )
        for service, partitions in STATEFUL.items()
    )
    return flow + state


def _of_flow(topic: Topic, replication: int) -> Wanted:
    kept = _expiring(topic.retention_ms)
    if topic.cleanup == "compact":
        # Whoever asks why something was decided looks back further than to the newest record.
        kept = _compacted() | {"min.compaction.lag.ms": str(HOUR_MS)}
    return Wanted(
        name=topic.name,
        partitions=topic.partitions,
        replication=replication,
        configs=_common(replication) | kept,
    )


def _common(replication: int) -> dict[str, str]:
    return {
        "max.message.bytes": str(MIB),
        "min.insync.replicas": str(in_sync(replication)),
        # Event time is inside the record. A simulated cluster may be years off, and a broker
        # would delete what looks old and refuse what looks like tomorrow.
        "message.timestamp.type": "LogAppendTime",
    }


def _expiring(retention_ms: int) -> dict[str, str]:
    return {"cleanup.policy": "delete", "retention.ms": str(retention_ms)}


def _compacted() -> dict[str, str]:
    """Only closed segments are compacted: close them soon, and clean when a tenth is old."""
    return {
        "cleanup.policy": "compact",
        "segment.ms": "60000",
        "segment.bytes": str(16 * MIB),
        "min.cleanable.dirty.ratio": "0.1",
        "delete.retention.ms": str(HOUR_MS),
    }
