"""Kafka without Faust: connections, the engine's writer, topics read whole, assignors."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, Self

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.cluster import ClusterMetadata
from aiokafka.consumer import fetcher
from aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.protocol import (
    ConsumerProtocolMemberAssignment,
    ConsumerProtocolMemberMetadata,
)
from aiokafka.partitioner import murmur2
from aiokafka.record import memory_records

from schemas.codec import Record
from schemas.topics import app_id, state_topic
from services._kit.errors import Unprepared
from services._kit.records import Delivery, PartitionOf
from services._kit.settings import KitSettings
from services._kit.state_records import LARGEST_RECORD_BYTES, StateRecord
from services._kit.transactions import READ_COMMITTED, Lanes, Outgoing
from services._kit.wire import tolerate

_POLL_MS: Final = 500
"""How long a broker holds back its answer while nothing new arrives."""
_TO_END_MS: Final = 20
"""The same while topics are read to their end. A connection answers requests in turn, so each
request behind such a fetch waits for it: with half a second, a start waited for two seconds."""
_REACH_S: Final = 5.0

# Here, because every client of a service needs this module: no record may stop any of them.
tolerate(fetcher, memory_records._MemoryRecordsPy)  # noqa: SLF001  the one without compiled code


def connection(settings: KitSettings) -> dict[str, Any]:
    """Arguments of every client, by aiokafka or kafka-python: they have the same names."""
    result: dict[str, Any] = {
        "bootstrap_servers": settings.kafka_bootstrap,
        "security_protocol": settings.kafka_security,
    }
    if settings.kafka_security.startswith("SASL"):
        result |= {
            "sasl_mechanism": settings.kafka_mechanism,
            "sasl_plain_username": settings.kafka_user,
            "sasl_plain_password": settings.kafka_password,
        }
    if context := tls(settings):
        result["ssl_context"] = context
    return result


def tls(settings: KitSettings) -> ssl.SSLContext | None:
    """Trust in the brokers' certificates; None for unencrypted connections."""
    if not settings.kafka_security.endswith("SSL"):
        return None
    return ssl.create_default_context(cafile=settings.kafka_ca or None)


def delivery_of(record: ConsumerRecord) -> Delivery:
    """A consumed record in the kit's form."""
    return Delivery(
        record.topic,
        record.partition,
        record.offset,
        record.key or b"",
        record.value,
        record.headers,
        record.timestamp / 1000,
    )


def state_record_of(delivery: Delivery) -> StateRecord | None:
    """A record of a state topic; None for a tombstone."""
    return None if delivery.value is None else StateRecord(delivery.value, delivery.headers)


def default_partitioner(counts: Mapping[str, int]) -> PartitionOf:
    """Where Kafka's default partitioner puts a key, by the number of partitions of each topic."""

    def partition_of(topic: str, key: bytes) -> int | None:
        return (murmur2(key) & 0x7FFFFFFF) % counts[topic] if topic in counts else None

    return partition_of


class KafkaWriter:
    """Commits steps as the owner of their partition; publishes and counts without owning any.

    Every call returns when all in-sync replicas have the records.
    """

    def __init__(self, service: str, settings: KitSettings, *, by_domain: bool) -> None:
        self._state_topic = state_topic(service)
        self._by_domain = by_domain
        options: dict[str, Any] = connection(settings) | {
            "client_id": f"hirl-{service}-{settings.instance}",
            "acks": "all",
            # A decision waits for every acknowledgement: batching would only delay it.
            "linger_ms": 0,
            "request_timeout_ms": int(settings.acknowledgement_seconds * 1000),
            # For one record: parts of a large state are sent one after the other.
            "max_request_size": 2 * LARGEST_RECORD_BYTES,
        }
        # Retries must not duplicate or reorder records.
        self._producer = AIOKafkaProducer(**options, enable_idempotence=True)
        self._lanes = Lanes(service, options, by_domain=by_domain)

    async def start(self) -> None:
        """Connect."""
        await self._producer.start()

    async def stop(self) -> None:
        """Flush and disconnect."""
        await self._lanes.disown()
        await self._producer.stop()

    async def own(self, partitions: Collection[int]) -> None:
        """Take over partitions: from here on no earlier owner can commit anything for them."""
        await self._lanes.own(partitions)

    async def disown(self) -> None:
        """Give up all partitions; nothing may be in flight."""
        await self._lanes.disown()

    async def publish(self, records: Sequence[Record]) -> None:
        """Send records together; return when all are acknowledged."""
        sent = [
            await self._producer.send(one.topic, one.value, key=one.key, headers=list(one.headers))
            for one in map(_outgoing, records)
        ]
        for acknowledged in sent:
            await acknowledged

    async def save(self, key: str, state: StateRecord | None, partition: int | None) -> None:
        """Write one record of the state topic without owning its partition."""
        record = self._saved(key, state, partition)
        await self._producer.send_and_wait(
            record.topic,
            record.value,
            key=record.key,
            partition=record.partition,
            headers=list(record.headers),
        )

    async def commit(
        self,
        records: Sequence[Record],
        states: Mapping[str, StateRecord | None],
        partition: int | None,
    ) -> None:
        """Write events and states in one transaction of the partition's owner."""
        saved = [self._saved(key, state, partition) for key, state in states.items()]
        await self._lanes.commit(partition, [*map(_outgoing, records), *saved])

    def _saved(self, key: str, state: StateRecord | None, partition: int | None) -> Outgoing:
        """The state of a domain goes to the partition number of the domain's events."""
        value, headers = (None, ()) if state is None else state
        number = partition if self._by_domain else None
        return Outgoing(self._state_topic, key.encode(), value, headers, number)


def _outgoing(record: Record) -> Outgoing:
    # An empty key would put every keyless record in one partition.
    return Outgoing(record.topic, record.key or None, record.value, record.headers)


async def committed_offsets(settings: KitSettings, service: str) -> dict[tuple[str, int], int]:
    """What the group of a service has read, by topic and partition."""
    admin = AIOKafkaAdminClient(**connection(settings))
    await admin.start()
    try:
        found = await admin.list_consumer_group_offsets(app_id(service))
    finally:
        await admin.close()
    return {(at.topic, at.partition): one.offset for at, one in found.items() if one.offset >= 0}


class TopicMissing(Unprepared):
    """A missing topic is not an empty one: treating it as empty would forget all states."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"topic {topic} is missing: run `hirl topics apply`")


class Reader:
    """Reads topics whole, without a group."""

    def __init__(self, settings: KitSettings) -> None:
        self._consumer = AIOKafkaConsumer(
            **connection(settings),
            client_id=f"hirl-reader-{settings.instance}",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=_POLL_MS,
            isolation_level=READ_COMMITTED,
        )

    async def __aenter__(self) -> Self:
        try:
            await self._consumer.start()
        except BaseException:
            # A consumer that fails to start keeps its connections until it is stopped.
            await self._consumer.stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._consumer.stop()

    async def reach(self) -> None:
        """Ask a broker for the metadata of all topics; raises KafkaError if none answers."""
        async with asyncio.timeout(_REACH_S):
            await self._consumer._client.fetch_all_metadata()  # noqa: SLF001  see `_partitions`

    async def require(self, *topics: str) -> None:
        """Raise TopicMissing unless all topics exist."""
        await self.partition_counts(topics)

    async def partition_counts(self, topics: Iterable[str]) -> dict[str, int]:
        """Number of partitions by topic; raises TopicMissing."""
        return {topic: len(await self._partitions(topic, None)) for topic in topics}

    async def expired(
        self, committed: Mapping[tuple[str, int], int], numbers: Collection[int]
    ) -> dict[str, int]:
        """Records of these partitions, by topic, that were deleted before they were read.

        A transaction's marker counts like a record: it takes an offset, too.
        """
        unread = {
            TopicPartition(topic, number): offset
            for (topic, number), offset in committed.items()
            if number in numbers
        }
        lost: dict[str, int] = {}
        for partition, begin in (await self._consumer.beginning_offsets(list(unread))).items():
            if begin > unread[partition]:
                lost[partition.topic] = lost.get(partition.topic, 0) + begin - unread[partition]
        return lost

    async def to_end(
        self,
        topics: Iterable[str],
        numbers: Collection[int] | None = None,
        *,
        following: Iterable[str] = (),
    ) -> AsyncIterator[Delivery]:
        """Every record up to the present end of the topics; of all partitions, or of these.

        Of topics in `following` only what is written from now on.
        """
        partitions = [part for name in topics for part in await self._partitions(name, numbers)]
        if not partitions:
            return
        news = [part for name in following for part in await self._partitions(name, None)]
        self._hold_back(_TO_END_MS)
        self._consumer.assign([*partitions, *news])
        await self._consumer.seek_to_beginning(*partitions)
        if news:
            await self._consumer.seek_to_end(*news)
        # Read the ends once: on a busy topic a moving end might never be reached.
        ends = await self._consumer.end_offsets(partitions)
        while not await self._reached(ends):
            # Behind the last record there may be the marker of its transaction only.
            for delivery in await self._poll(_TO_END_MS):
                yield delivery

    async def next(self) -> AsyncIterator[Delivery]:
        """Records since the last call; nothing, if none arrive within the poll timeout."""
        self._hold_back(_POLL_MS)
        for delivery in await self._poll(_POLL_MS):
            yield delivery

    async def _poll(self, timeout_ms: int) -> list[Delivery]:
        found = await self._consumer.getmany(timeout_ms=timeout_ms)
        return [delivery_of(record) for records in found.values() for record in records]

    def _hold_back(self, milliseconds: int) -> None:
        # aiokafka takes it at the start of a consumer only, and uses it in each request.
        self._consumer._fetcher._fetch_max_wait_ms = milliseconds  # noqa: SLF001

    async def _partitions(
        self, topic: str, numbers: Collection[int] | None
    ) -> list[TopicPartition]:
        # aiokafka has no public call for the metadata of a topic that is not subscribed to.
        metadata = await self._consumer._client.fetch_all_metadata()  # noqa: SLF001
        existing = metadata.partitions_for_topic(topic)
        if not existing:
            raise TopicMissing(topic)
        wanted = existing if numbers is None else existing & set(numbers)
        return [TopicPartition(topic, number) for number in sorted(wanted)]

    async def _reached(self, ends: dict[TopicPartition, int]) -> bool:
        # Compacted topics have gaps, so compare positions instead of counting records.
        for partition, end in ends.items():
            if await self._consumer.position(partition) < end:
                return False
        return True


class SingleActiveAssignor(AbstractPartitionAssignor):  # type: ignore[misc]  # no types there
    """The first member gets everything, the others stand by: for a state of the whole cluster.

    Ids of static members begin with their instance, so it is the same one after each rebalance.
    """

    name = "hirl-single-active"
    version = 0

    @classmethod
    def assign(
        cls, cluster: ClusterMetadata, members: Mapping[str, ConsumerProtocolMemberMetadata]
    ) -> dict[str, ConsumerProtocolMemberAssignment]:
        """All partitions of all subscribed topics, for the first member by id."""
        topics = sorted({topic for member in members.values() for topic in member.subscription})
        everything = [(name, sorted(cluster.partitions_for_topic(name) or ())) for name in topics]
        first = min(members)
        return {
            member: ConsumerProtocolMemberAssignment(
                cls.version, everything if member == first else [], b""
            )
            for member in members
        }

    @classmethod
    def metadata(cls, topics: Iterable[str]) -> ConsumerProtocolMemberMetadata:
        """What a member sends when it joins."""
        return ConsumerProtocolMemberMetadata(cls.version, list(topics), b"")

    @classmethod
    def on_assignment(cls, assignment: ConsumerProtocolMemberAssignment) -> None:
        """Nothing to remember."""


def assignors(*, by_domain: bool) -> list[type[AbstractPartitionAssignor]]:
    """The assignors of a service, by the scope of its states; the first is preferred.

    A domain needs the same partition number of all topics: ranges give that, round robin does not.
    A group refuses a member that has no assignor in common with the others. Release 0.1.0 has
    ranges only, and its members stay in the group until their session ends.
    """
    return [RangePartitionAssignor] if by_domain else [SingleActiveAssignor, RangePartitionAssignor]
