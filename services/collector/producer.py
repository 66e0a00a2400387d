"""The collector's producer. It uses kafka-python, whose producer runs in a thread of its own.

The collector only writes to the bus, so it needs no asynchronous client and waits in a thread.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from kafka import KafkaProducer

from schemas.codec import encode
from schemas.fields import Event
from schemas.topics import state_topic
from services._kit.kafka import connection
from services._kit.settings import KitSettings
from services.collector.settings import SERVICE

_TIMEOUT_S: Final = 60.0
"""Timeout for all in-sync replicas to acknowledge a tick; then the collector exits and restarts."""


class TickProducer:
    """Publishes and saves. Every call returns when all in-sync replicas have the records."""

    def __init__(self, settings: KitSettings) -> None:
        self._settings = settings
        self._producer: Any = None

    async def start(self) -> None:
        """Connect."""
        self._producer = await asyncio.to_thread(self._connect)

    async def stop(self) -> None:
        """Flush and disconnect."""
        await asyncio.to_thread(self._producer.close, _TIMEOUT_S)

    async def publish(self, events: Sequence[Event]) -> None:
        """Send events together; return when all are acknowledged."""
        await asyncio.to_thread(self._publish, events)

    async def save(self, key: str, data: bytes | None, partition: int | None) -> None:
        """Return when the state record is acknowledged."""
        await asyncio.to_thread(self._save, key, data, partition)

    def _connect(self) -> Any:
        return KafkaProducer(
            **connection(self._settings),
            client_id=f"hirl-{SERVICE}-{self._settings.instance}",
            # As in `KafkaWriter`: retries lose, repeat and reorder nothing. No batching, because
            # every tick waits for its acknowledgements.
            acks="all",
            enable_idempotence=True,
            linger_ms=0,
        )

    def _publish(self, events: Sequence[Event]) -> None:
        records = [record for event in events for record in encode(event, SERVICE)]
        sent = [
            self._producer.send(
                record.topic, record.value, key=record.key, headers=list(record.headers)
            )
            for record in records
        ]
        # Wait after sending: the records of a tick travel together.
        for one in sent:
            one.get(_TIMEOUT_S)

    def _save(self, key: str, data: bytes | None, partition: int | None) -> None:
        topic = state_topic(SERVICE)
        self._producer.send(topic, data, key=key.encode(), partition=partition).get(_TIMEOUT_S)
