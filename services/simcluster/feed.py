"""How node requests reach the provisioner: over Kafka, or over HTTP only."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Protocol

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.errors import KafkaConnectionError

from schemas.capacity_requested import CapacityRequested
from schemas.codec import Malformed, decode
from schemas.topics import topic_of
from services._kit.broker import wait_for_brokers
from services._kit.clock import SystemClock
from services._kit.kafka import connection
from services._kit.settings import KitSettings
from services._kit.telemetry import Health
from services._kit.transactions import READ_COMMITTED

log = logging.getLogger(__name__)

_RETRY_S: Final = 1.0
"""Pause between attempts to connect: brokers may start after the cluster."""

Deliver = Callable[[CapacityRequested], object]


class CapacityFeed(Protocol):
    """Where node requests come from."""

    @property
    def ready(self) -> bool:
        """Whether a request published now would arrive."""

    async def run(self, deliver: Deliver) -> None:
        """Deliver every request from now on, until cancelled."""


class NoFeed:
    """Requests arrive over HTTP, or by calls in the same process."""

    ready = True

    async def run(self, deliver: Deliver) -> None:
        """Wait until cancelled."""
        del deliver
        await asyncio.Event().wait()


class KafkaFeed:
    """Reads the topic from its end: earlier requests belong to another run."""

    def __init__(self, settings: KitSettings) -> None:
        self._settings = settings
        self._topic = topic_of(CapacityRequested)
        self.ready = False

    async def run(self, deliver: Deliver) -> None:
        """Deliver every request from now on, until cancelled."""
        consumer = await self._connected()
        try:
            await self._go_to_end(consumer)
            async for record in consumer:
                _deliver(record, deliver)
        finally:
            self.ready = False
            await consumer.stop()

    async def _connected(self) -> AIOKafkaConsumer:
        """Retry until a broker answers: the cluster may start before Kafka."""
        clock = SystemClock()
        await wait_for_brokers(self._settings, Health(clock), clock)
        while True:
            consumer = AIOKafkaConsumer(
                **connection(self._settings),
                client_id="hirl-provisioner",
                enable_auto_commit=False,
                isolation_level=READ_COMMITTED,
            )
            try:
                await consumer.start()
            except KafkaConnectionError as error:
                log.warning("Kafka does not answer, retrying: %s", error)
                # aiokafka warns of an unclosed consumer, also if it never started.
                await consumer.stop()
                await asyncio.sleep(_RETRY_S)
            else:
                return consumer

    async def _go_to_end(self, consumer: AIOKafkaConsumer) -> None:
        partitions = [TopicPartition(self._topic.name, n) for n in range(self._topic.partitions)]
        # Without a consumer group: a group would continue at the offset of an earlier run.
        consumer.assign(partitions)
        await consumer.seek_to_end(*partitions)
        for partition in partitions:
            # Seeking is lazy: only reading the position performs it.
            await consumer.position(partition)
        self.ready = True


def _deliver(record: ConsumerRecord[bytes, bytes], deliver: Deliver) -> None:
    try:
        event = decode(record.topic, record.value, record.headers)
    except Malformed as error:
        # Skipping is safe: the next request comes within a minute, and pending pods trigger nodes.
        log.warning("undecodable node request at offset %d: %s", record.offset, error)
        return
    if isinstance(event, CapacityRequested):
        deliver(event)
