"""How node requests reach the provisioner: over Kafka, or by HTTP alone."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Protocol

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.errors import KafkaConnectionError

from schemas.capacity_requested import CapacityRequested
from schemas.codec import Malformed, decode
from schemas.topics import topic_of
from services._kit.kafka import connection
from services._kit.settings import KitSettings

log = logging.getLogger(__name__)

_PAUSE_S: Final = 1.0

Deliver = Callable[[CapacityRequested], object]


class CapacityFeed(Protocol):
    """Where node requests come from."""

    @property
    def ready(self) -> bool:
        """Whether a request that is made now would arrive."""

    async def run(self, deliver: Deliver) -> None:
        """Hand over every request that is made from now on, until cancelled."""


class NoFeed:
    """Requests come by HTTP alone, or by a call in the same process."""

    ready = True

    async def run(self, deliver: Deliver) -> None:
        """Wait for the end."""
        del deliver
        await asyncio.Event().wait()


class KafkaFeed:
    """Reads the topic from its end on: earlier requests were made for another run."""

    def __init__(self, settings: KitSettings) -> None:
        self._settings = settings
        self._topic = topic_of(CapacityRequested)
        self.ready = False

    async def run(self, deliver: Deliver) -> None:
        """Hand over every request that is made from now on, until cancelled."""
        consumer = await self._connected()
        try:
            await self._go_to_end(consumer)
            async for record in consumer:
                _hand_over(record, deliver)
        finally:
            self.ready = False
            await consumer.stop()

    async def _connected(self) -> AIOKafkaConsumer:
        """Once a broker answers: a cluster is there before those who want to control it."""
        while True:
            consumer = AIOKafkaConsumer(
                **connection(self._settings), client_id="hirl-provisioner", enable_auto_commit=False
            )
            try:
                await consumer.start()
            except KafkaConnectionError as error:
                log.warning("no Kafka yet, trying again: %s", error)
                await consumer.stop()
                await asyncio.sleep(_PAUSE_S)
            else:
                return consumer

    async def _go_to_end(self, consumer: AIOKafkaConsumer) -> None:
        places = [TopicPartition(self._topic.name, n) for n in range(self._topic.partitions)]
        consumer.assign(places)
        await consumer.seek_to_end(*places)
        for place in places:
            # Seeking is lazy: asking for the position is what fixes it.
            await consumer.position(place)
        self.ready = True


def _hand_over(record: ConsumerRecord[bytes, bytes], deliver: Deliver) -> None:
    try:
        event = decode(record.topic, record.value, record.headers)
    except Malformed as error:
        # The next request is a minute away; pods ask on their own until then.
        log.warning("the node request at offset %d is no such thing: %s", record.offset, error)
        return
    if isinstance(event, CapacityRequested):
        deliver(event)
