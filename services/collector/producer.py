"""The collector's producer. It uses kafka-python, whose producer runs in a thread of its own.

The collector only writes to the bus, so it needs no asynchronous client and waits in a thread. It
outlives its brokers: what was not acknowledged is sent again when they are back.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from kafka.errors import (
    ClusterAuthorizationFailedError,
    KafkaConfigurationError,
    KafkaError,
    MessageSizeTooLargeError,
    TopicAuthorizationFailedError,
)

from schemas.codec import Record, encode
from schemas.fields import Event
from schemas.topics import state_topic
from services._kit.kafka import connection
from services._kit.kafka_python import KafkaProducer
from services._kit.settings import KitSettings
from services.collector.settings import SERVICE

log = logging.getLogger(__name__)

_PAUSE_S: Final = 1.0
_CLOSE_S: Final = 5.0
_HOPELESS: Final = (
    ClusterAuthorizationFailedError,
    KafkaConfigurationError,
    MessageSizeTooLargeError,
    TopicAuthorizationFailedError,
)
"""Sending again does not help. Of other errors many are said not to be retriable, such as that of
an idempotent producer whose batch expired; a new producer is not affected by them."""


class TickProducer:
    """Publishes and saves. Every call returns when all in-sync replicas have the records."""

    def __init__(
        self, settings: KitSettings, wait_for_brokers: Callable[[], Awaitable[object]]
    ) -> None:
        self._settings = settings
        self._wait_for_brokers = wait_for_brokers
        self._producer: Any = None

    async def start(self) -> None:
        """Connect as soon as a broker answers."""
        await self._send(lambda: None)

    async def stop(self) -> None:
        """Disconnect; everything sent is acknowledged."""
        await asyncio.to_thread(self._close)

    async def publish(self, events: Sequence[Event]) -> None:
        """Send events together; return when all are acknowledged."""
        records = [record for event in events for record in encode(event, SERVICE)]
        await self._send(partial(self._publish, records))

    async def save(self, key: str, data: bytes | None, partition: int | None) -> None:
        """Return when the state record is acknowledged."""
        await self._send(partial(self._save, key, data, partition))

    async def _send(self, send: Callable[[], None]) -> None:
        """Repeat until it is acknowledged. What arrives twice is dropped by its readers."""
        while True:
            try:
                if self._producer is None:
                    self._producer = await asyncio.to_thread(self._connect)
                await asyncio.to_thread(send)
            except KafkaError as error:
                if isinstance(error, _HOPELESS):
                    raise
                log.warning("not acknowledged, sending it again: %r", error)
                # A new producer: the old one would send the same records once more, out of order.
                await asyncio.to_thread(self._close)
                await asyncio.sleep(_PAUSE_S)
                await self._wait_for_brokers()
            else:
                return

    def _close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is None:
            return
        try:
            producer.close(0)
        except KafkaError:
            # kafka-python 3.0.12 gives up here while records are under way, and its sender would
            # go on to send them. A forced sender ends by itself, even if it takes longer than this.
            producer._sender.force_close()  # noqa: SLF001
            with suppress(KafkaError):
                producer.close(_CLOSE_S)

    def _connect(self) -> Any:
        timeout_ms = int(self._settings.acknowledgement_seconds * 1000)
        return KafkaProducer(
            **connection(self._settings),
            client_id=f"hirl-{SERVICE}-{self._settings.instance}",
            # As in `KafkaWriter`: retries lose, repeat and reorder nothing. No batching, because
            # every tick waits for its acknowledgements.
            acks="all",
            enable_idempotence=True,
            linger_ms=0,
            max_block_ms=timeout_ms,
            request_timeout_ms=timeout_ms // 2,
            delivery_timeout_ms=timeout_ms,
        )

    def _publish(self, records: Sequence[Record]) -> None:
        sent = [
            self._producer.send(
                record.topic, record.value, key=record.key, headers=list(record.headers)
            )
            for record in records
        ]
        # Wait after sending: the records of a tick travel together.
        for one in sent:
            one.get(self._timeout_s)

    def _save(self, key: str, data: bytes | None, partition: int | None) -> None:
        topic = state_topic(SERVICE)
        sent = self._producer.send(topic, data, key=key.encode(), partition=partition)
        sent.get(self._timeout_s)

    @property
    def _timeout_s(self) -> float:
        """Longer than the producer's own timeout, whose error is more specific."""
        return 2 * self._settings.acknowledgement_seconds
