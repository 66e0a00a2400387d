"""Records between a bus and the engine: inputs decoded, outputs encoded.

No content of a record may stop a service: what cannot be decoded becomes a dead letter.
"""

import base64
import logging
from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any, Final, NamedTuple, Protocol

from schemas.codec import Assembler, Malformed, Record, decode, encode
from schemas.fields import Event
from schemas.rejected import Rejected
from schemas.topics import BY_NAME, key_of, topic_of
from services._kit.clock import Clock, rfc3339
from services._kit.errors import Refused
from services._kit.handler import Service
from services._kit.logs import SPARSE_S
from services._kit.state_records import StateRecord
from services._kit.telemetry import Telemetry
from services._kit.wire import BATCH

log = logging.getLogger(__name__)

DEAD_LETTER_VALUE_BYTES: Final = 64 * 1024
"""Kept of a rejected value: enough to see what is wrong, and dead letters stay small."""
DEAD_LETTER_DETAIL_CHARACTERS: Final = 2000
DEAD_LETTER_KEY_CHARACTERS: Final = 1000
DEAD_LETTER_HEADERS: Final = 32
DEAD_LETTER_HEADER_CHARACTERS: Final = 500
"""Kept of a header's name, and of its value. A broker takes a megabyte of headers, a dead letter
must fit in a record together with everything else."""
_DROPPED_HEADERS: Final = "..."
"""Name of the entry that counts the headers that were not kept."""
UNDECODABLE: Final = "undecodable"
"""Error of a dead letter: reading it failed in a way that `decode` does not know."""


# Inputs.


class Delivery(NamedTuple):
    """A record as a bus delivers it."""

    topic: str
    partition: int
    offset: int
    key: bytes
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    """Any name, any value: clients may write null."""
    timestamp: float
    """Wall seconds at which it was produced."""

    @property
    def position(self) -> str:
        """Topic, partition and offset; the same at each redelivery."""
        return f"{self.topic}/{self.partition}/{self.offset}"


class Received(NamedTuple):
    """A complete event, or the tombstone of a key, and the records it arrived in."""

    event: Event | None
    deliveries: tuple[Delivery, ...]
    """To be acknowledged once the event is handled; the last one completed it."""

    @property
    def last(self) -> Delivery:
        """The record that completed the event."""
        return self.deliveries[-1]


PartitionOf = Callable[[str, bytes], int | None]
"""Partition that a topic's key belongs in; None where a bus has no partitions."""


def any_partition(topic: str, key: bytes) -> None:
    """For a bus without partitions."""


MOST_WAITING: Final = 1000
"""Records of parts that wait to be acknowledged."""
TOO_MANY: Final = Refused(
    "part", f"expected at most {MOST_WAITING:,} parts of incomplete events at once, got more"
)
"""Why a part is given up."""


class EventReader:
    """Decodes records; keeps the parts of a large event until it is complete."""

    def __init__(
        self,
        partition_of: PartitionOf = any_partition,
        give_up: Callable[[Delivery], None] = lambda _: None,
    ) -> None:
        """Call `give_up` with records of parts that wait no longer, because there are too many."""
        self._partition_of, self._give_up = partition_of, give_up
        self._assembler = Assembler()
        self._parts: dict[tuple[str, bytes], list[Delivery]] = {}
        """Without values. By topic and key, the most recently received one last."""
        self._waiting = 0

    def take_dropped(self) -> int:
        """Parts whose content was dropped since the last call, because there were too many."""
        dropped, self._assembler.dropped = self._assembler.dropped, 0
        return dropped

    def read(self, delivery: Delivery) -> Received | None:
        """The event that a record completes; None while parts are missing. Raises Malformed."""
        _check_batch(delivery)
        event = decode(delivery.topic, delivery.value, delivery.headers)
        self._check_place(delivery, event)
        size = len(delivery.value or b"")
        complete = None if event is None else self._assembler.add(event, size)
        # Parts of an event that was never completed (its producer died and started again) go with
        # the next event of their key, or they would hold back its offsets for ever.
        stream = (delivery.topic, delivery.key)
        earlier = self._parts.pop(stream, [])
        if event is not None and complete is None:
            # Acknowledging needs no value.
            self._parts[stream] = [*earlier, delivery._replace(value=None)]
            self._waiting += 1
            self._limit()
            return None
        self._waiting -= len(earlier)
        return Received(complete, (*earlier, delivery))

    def _limit(self) -> None:
        while self._waiting > MOST_WAITING:
            # The oldest record of the least recently received key.
            stream = next(iter(self._parts))
            self._give_up(self._parts[stream].pop(0))
            self._waiting -= 1
            if not self._parts[stream]:
                del self._parts[stream]

    def _check_place(self, delivery: Delivery, event: Event | None) -> None:
        """Refuse a record whose key or partition is not that of its event.

        Two processes would hold a state of the same key, and compaction would keep both records.
        """
        topic = BY_NAME[delivery.topic]
        if not topic.key:
            return
        expected = _tombstone_key(delivery) if event is None else key_of(event).encode()
        if delivery.key != expected:
            raise Malformed(
                "wrong-key", f"expected {topic.key} {expected!r:.80}, got {delivery.key!r:.80}"
            )
        partition = self._partition_of(delivery.topic, delivery.key)
        if partition is not None and partition != delivery.partition:
            raise Malformed(
                "wrong-partition",
                f"expected partition {partition} for key {delivery.key!r:.80}, got "
                f"{delivery.partition}: producers must use the murmur2 partitioner",
            )


def _check_batch(delivery: Delivery) -> None:
    """Refuse what stands for a batch that cannot be read."""
    name, reason = delivery.headers[0] if delivery.headers else ("", b"")
    if name == BATCH:
        raise Malformed("batch", _text(reason, DEAD_LETTER_DETAIL_CHARACTERS))


def _tombstone_key(delivery: Delivery) -> bytes:
    """The key of a tombstone names what it removes, so it must be text."""
    try:
        text = delivery.key.decode()
    except UnicodeDecodeError:
        text = ""
    if not text:
        raise Malformed("wrong-key", f"expected UTF-8 in a tombstone, got {delivery.key!r:.80}")
    return delivery.key


# Outputs.


class BusWriter(Protocol):
    """What the engine needs from a bus.

    Steps are committed: only the owner of the partition can, and readers see all of a step or
    nothing. Dead letters and failure counts need no owner. They change no decision, a process
    that starts has to write them before it owns anything, and a process that lost its partitions
    can at most repeat a dead letter or give a culprit one more chance.
    """

    async def commit(
        self,
        records: Sequence[Record],
        states: Mapping[str, StateRecord | None],
        partition: int | None,
    ) -> None:
        """Write events and records of states by key (None removes one), all or nothing.

        The process that is assigned this partition of the inputs finds the states. Raises if
        another process owns the partition.
        """

    async def publish(self, records: Sequence[Record]) -> None:
        """Return when all dead letters are acknowledged."""

    async def save(self, key: str, state: StateRecord | None, partition: int | None) -> None:
        """Return when the failure count in the state topic is acknowledged; None removes it."""

    def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        """Mark inputs as done: a restart need not get them again."""


class Rejection(NamedTuple):
    """A record that cannot be used, and why."""

    delivery: Delivery
    error: Exception
    kind: str
    """Error of its dead letter."""


class Publisher:
    """Publishes and counts a service's events and dead letters."""

    def __init__(
        self, service: Service[Any], writer: BusWriter, clock: Clock, telemetry: Telemetry
    ) -> None:
        self._name = service.handler.name
        self._observe = service.observe(telemetry)
        self._writer, self._clock, self._telemetry = writer, clock, telemetry
        self._warned_at = -inf

    def encode(self, events: Sequence[Event]) -> list[Record]:
        """Records of events; raises what is wrong with them."""
        return [record for event in events for record in encode(event, self._name)]

    def published(self, events: Sequence[Event]) -> None:
        """Count events that were written."""
        for event in events:
            self._telemetry.published.labels(topic_of(event).name).inc()
            self._observe(event)

    async def reject(self, *rejections: Rejection) -> None:
        """Publish the dead letters of records, together."""
        if not rejections:
            return
        letters = [self._letter(*one) for one in rejections]
        # Acknowledged like any event, so the input is given up only after its dead letter is safe.
        await self._writer.publish([record for _, records in letters for record in records])
        self.published([letter for letter, _ in letters])
        for one in rejections:
            self.count_rejected(*one)

    def count_rejected(self, delivery: Delivery, error: Exception, kind: str) -> None:
        """Log and count a rejected record; its dead letter is on the bus."""
        log.warning("rejected %s: %.500s", delivery.position, error)
        self.count(delivery, "rejected")
        self._telemetry.dead_letters.labels(delivery.topic, kind).inc()

    def _letter(
        self, delivery: Delivery, error: Exception, kind: str
    ) -> tuple[Rejected, Sequence[Record]]:
        try:
            letter = dead_letter(self._name, delivery, error, kind, self._clock)
            return letter, self.encode([letter])
        except Exception:
            # The service must not stop here: it would stop at each redelivery.
            log.exception("no complete dead letter for %s", delivery.position)
            letter = Rejected(
                service=self._name,
                topic=delivery.topic,
                partition=delivery.partition,
                offset=delivery.offset,
                error=kind,
                detail="the record cannot be copied; read it at its position",
                rejected_at=rfc3339(self._clock.date()),
            )
            return letter, self.encode([letter])

    def count_dropped(self, delivery: Delivery, parts: int) -> None:
        """Count parts that were dropped after a record, and log that now and then."""
        if not parts:
            return
        self._telemetry.events.labels(delivery.topic, "part-dropped").inc(parts)
        now = self._clock.now()
        if now - self._warned_at >= SPARSE_S:
            self._warned_at = now
            log.warning(
                "dropped %d parts of incomplete events after %s: too many wait at once",
                parts, delivery.position,
            )  # fmt: skip

    def count(self, delivery: Delivery, outcome: str) -> None:
        """Count a consumed record by its outcome."""
        self._telemetry.events.labels(delivery.topic, outcome).inc()


def kind_of(error: Exception) -> str:
    """Error of the dead letter of a record that cannot be read."""
    return error.kind if isinstance(error, (Malformed, Refused)) else UNDECODABLE


def dead_letter(
    service: str, delivery: Delivery, error: Exception, kind: str, clock: Clock
) -> Rejected:
    """The dead letter of a record: of whatever it holds, as much as fits."""
    return Rejected(
        service=service,
        topic=delivery.topic,
        partition=delivery.partition,
        offset=delivery.offset,
        key=_text(delivery.key, DEAD_LETTER_KEY_CHARACTERS),
        error=kind,
        detail=_text(getattr(error, "detail", "") or repr(error), DEAD_LETTER_DETAIL_CHARACTERS),
        rejected_at=rfc3339(clock.date()),
        value_base64=base64.b64encode((delivery.value or b"")[:DEAD_LETTER_VALUE_BYTES]).decode(),
        headers=_headers(delivery.headers),
    )


def _headers(headers: Sequence[tuple[str, bytes | None]]) -> dict[str, str]:
    """The first headers, cut to their lengths; a null value counts as empty."""
    most = DEAD_LETTER_HEADER_CHARACTERS
    kept = {_text(name, most): _text(value, most) for name, value in headers[:DEAD_LETTER_HEADERS]}
    if len(headers) > DEAD_LETTER_HEADERS:
        kept[_DROPPED_HEADERS] = f"{len(headers) - DEAD_LETTER_HEADERS} more headers"
    return kept


def _text(content: str | bytes | None, most: int) -> str:
    """Content as text that can be encoded, of at most so many characters."""
    # Cut first: content may have a megabyte. A character has at most 4 bytes.
    data = content.encode(errors="replace") if isinstance(content, str) else content or b""
    return data[: 4 * most].decode(errors="replace")[:most]
