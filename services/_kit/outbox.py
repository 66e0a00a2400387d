"""What a service says: its events and its dead letters, sent and counted."""

import logging
from collections.abc import Sequence
from typing import Any, Protocol

from schemas.codec import Record, encode
from schemas.fields import Event
from schemas.topics import topic_of
from services._kit.clock import Clock
from services._kit.consume import Delivery, rejection
from services._kit.handler import Service
from services._kit.parcel import Parcel
from services._kit.telemetry import Telemetry

log = logging.getLogger(__name__)


class Outlet(Protocol):
    """What an engine needs of a bus: it is given only what can be sent."""

    async def publish(self, records: Sequence[Record]) -> None:
        """Returns when all are acknowledged."""

    async def save(self, key: str, state: Parcel | None, partition: int | None) -> None:
        """Returns when the record of the state's key is acknowledged; None removes it.

        With a partition, whoever is given that partition of the inputs finds the record.
        """

    def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        """These are done with: they need not come again after a restart."""


class Outbox:
    """Publishes for one service."""

    def __init__(
        self, service: Service[Any], outlet: Outlet, clock: Clock, telemetry: Telemetry
    ) -> None:
        self._name = service.handler.name
        self._observe = service.observe(telemetry)
        self._outlet, self._clock, self._telemetry = outlet, clock, telemetry

    def encode(self, events: Sequence[Event]) -> list[Record]:
        """As they will be sent; raises what is wrong with them."""
        return [record for event in events for record in encode(event, self._name)]

    async def publish(self, events: Sequence[Event], records: Sequence[Record]) -> None:
        """Send events that were encoded as these records."""
        if not events:
            return
        await self._outlet.publish(records)
        for event in events:
            self._telemetry.published.labels(topic_of(event).name).inc()
            self._observe(event)

    async def reject(self, delivery: Delivery, error: Exception, kind: str) -> None:
        """Write the dead letter of a record."""
        log.warning("rejected %s: %s", delivery.place, error)
        letters = [rejection(self._name, delivery, error, kind, self._clock)]
        await self.publish(letters, self.encode(letters))
        self.count(delivery, "rejected")
        self._telemetry.dead_letters.labels(delivery.topic, kind).inc()

    def count(self, delivery: Delivery, outcome: str) -> None:
        """What became of a record."""
        self._telemetry.events.labels(delivery.topic, outcome).inc()
