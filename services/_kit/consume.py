"""From records to events: decode, join parts, and say what cannot be used.

Nothing that stands in a record can stop a service; what cannot be used becomes a dead letter.
"""

import base64
from collections import defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple

from schemas.codec import Assembler, Malformed, decode
from schemas.fields import Event
from schemas.rejected import Rejected
from services._kit.clock import Clock, rfc3339

KEPT_BYTES: Final = 64 * 1024
"""Of a rejected value: enough to see what is wrong, and a dead letter stays small."""
DETAIL_LETTERS: Final = 2000


class Delivery(NamedTuple):
    """A record as a bus brings it."""

    topic: str
    partition: int
    offset: int
    key: bytes
    value: bytes | None
    headers: Sequence[tuple[str, bytes]]
    timestamp: float
    """Wall seconds at which it was produced."""

    @property
    def place(self) -> str:
        """Where it stands; the same whenever it is delivered."""
        return f"{self.topic}/{self.partition}/{self.offset}"


class Arrival(NamedTuple):
    """A whole event, or the tombstone of a key, and the records that it came in."""

    event: Event | None
    deliveries: tuple[Delivery, ...]
    """All that may be acknowledged once the event is handled; the last one completed it."""

    @property
    def last(self) -> Delivery:
        """The record that made it whole."""
        return self.deliveries[-1]


class Intake:
    """Remembers parts until an event is whole."""

    def __init__(self) -> None:
        self._assembler = Assembler()
        self._waiting: defaultdict[tuple[str, bytes], list[Delivery]] = defaultdict(list)

    def read(self, delivery: Delivery) -> Arrival | None:
        """What a record completes; None while parts are missing. Raises Malformed."""
        event = decode(delivery.topic, delivery.value, delivery.headers)
        whole = None if event is None else self._assembler.add(event)
        thread = (delivery.topic, delivery.key)
        if event is not None and whole is None:
            self._waiting[thread].append(delivery)
            return None
        # Parts that never became whole (their producer died and began again) go with the next
        # event of their key, or they would hold back its offsets for ever.
        earlier = self._waiting.pop(thread, [])
        return Arrival(whole, (*earlier, delivery))


def rejection(
    service: str, delivery: Delivery, error: Malformed | Exception, kind: str, clock: Clock
) -> Rejected:
    """The dead letter of a record."""
    return Rejected(
        service=service,
        topic=delivery.topic,
        partition=delivery.partition,
        offset=delivery.offset,
        key=delivery.key.decode(errors="replace"),
        error=kind,
        detail=(getattr(error, "detail", "") or repr(error))[:DETAIL_LETTERS],
        rejected_at=rfc3339(clock.date()),
        value_base64=base64.b64encode((delivery.value or b"")[:KEPT_BYTES]).decode(),
        headers={name: text.decode(errors="replace") for name, text in delivery.headers},
    )
