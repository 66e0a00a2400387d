"""Kafka without a group: connections, the outlet of an engine, and topics that are read whole."""

import ssl
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from typing import Any, Final, Self

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition

from schemas.codec import Record
from schemas.topics import state_topic
from services._kit import parcel
from services._kit.consume import Delivery
from services._kit.parcel import Parcel
from services._kit.settings import KitSettings, Unprepared

LARGEST_STATE_BYTES: Final = parcel.LARGEST_BYTES
_POLL_MS: Final = 500


def connection(settings: KitSettings) -> dict[str, Any]:
    """Arguments of every aiokafka client."""
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
    """Trust in the brokers' certificates; None where nothing is encrypted."""
    if not settings.kafka_security.endswith("SSL"):
        return None
    return ssl.create_default_context(cafile=settings.kafka_ca or None)


def delivery_of(record: ConsumerRecord) -> Delivery:
    """A record as the kit knows it."""
    return Delivery(
        record.topic,
        record.partition,
        record.offset,
        record.key or b"",
        record.value,
        record.headers,
        record.timestamp / 1000,
    )


def state_of(delivery: Delivery) -> bytes | None:
    """What was saved in a record of a state topic; None for a tombstone."""
    return None if delivery.value is None else parcel.contents(delivery.value, delivery.headers)


class KafkaOutlet:
    """Publishes and saves. Every call returns when all in-sync replicas have the records."""

    def __init__(self, service: str, settings: KitSettings, *, by_domain: bool) -> None:
        self._state_topic = state_topic(service)
        self._by_domain = by_domain
        self._producer = AIOKafkaProducer(
            **connection(settings),
            client_id=f"hirl-{service}-{settings.instance}",
            acks="all",
            enable_idempotence=True,
            linger_ms=0,
            max_request_size=2 * LARGEST_STATE_BYTES,
        )

    async def start(self) -> None:
        """Connect."""
        await self._producer.start()

    async def stop(self) -> None:
        """Send what is left and disconnect."""
        await self._producer.stop()

    async def publish(self, records: Sequence[Record]) -> None:
        """Returns when all are acknowledged; they are sent together."""
        sent = [
            await self._producer.send(
                record.topic,
                record.value,
                # An empty key would put every keyless record in one partition.
                key=record.key or None,
                headers=list(record.headers),
            )
            for record in records
        ]
        for acknowledged in sent:
            await acknowledged

    async def save(self, key: str, state: Parcel | None, partition: int | None) -> None:
        """States of a domain stand in the partition number of its events."""
        await self._producer.send_and_wait(
            self._state_topic,
            None if state is None else state.value,
            key=key.encode(),
            partition=partition if self._by_domain else None,
            headers=[] if state is None else list(state.headers),
        )


class TopicMissing(Unprepared):
    """A topic that is not there is not an empty one: who takes it for that forgets everything."""

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
        )

    async def __aenter__(self) -> Self:
        try:
            await self._consumer.start()
        except BaseException:
            await self._consumer.stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._consumer.stop()

    async def require(self, *topics: str) -> None:
        """Raise TopicMissing unless they are all there."""
        for topic in topics:
            await self._places(topic, None)

    async def to_end(
        self, topics: Iterable[str], partitions: Collection[int] | None = None
    ) -> AsyncIterator[Delivery]:
        """Every record up to where the topics end now; of all partitions, or of these."""
        places = [place for name in topics for place in await self._places(name, partitions)]
        if not places:
            return
        self._consumer.assign(places)
        await self._consumer.seek_to_beginning(*places)
        ends = await self._consumer.end_offsets(places)
        while not await self._reached(ends):
            async for delivery in self.next():
                yield delivery

    async def next(self) -> AsyncIterator[Delivery]:
        """What came since; nothing, if nothing comes for a moment."""
        found = await self._consumer.getmany(timeout_ms=_POLL_MS)
        for records in found.values():
            for record in records:
                yield delivery_of(record)

    async def _places(self, topic: str, partitions: Collection[int] | None) -> list[TopicPartition]:
        # There is no public way to ask for a topic that is not subscribed to.
        metadata = await self._consumer._client.fetch_all_metadata()  # noqa: SLF001
        known = metadata.partitions_for_topic(topic)
        if not known:
            raise TopicMissing(topic)
        wanted = known if partitions is None else known & set(partitions)
        return [TopicPartition(topic, number) for number in sorted(wanted)]

    async def _reached(self, ends: dict[TopicPartition, int]) -> bool:
        """Compacted topics have gaps, so positions count, not records."""
        for place, end in ends.items():
            if await self._consumer.position(place) < end:
                return False
        return True
