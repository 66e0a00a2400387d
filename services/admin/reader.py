"""Read events from topics without a consumer group and without commits."""

from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, TypeVar

from kafka import TopicPartition
from kafka.consumer import fetcher
from kafka.errors import KafkaError, TopicAuthorizationFailedError
from kafka.partitioner.default import murmur2
from kafka.record import memory_records

from models.inputs.errors import InputError
from schemas.codec import Malformed
from schemas.fields import Event
from schemas.topics import key_of, topic_of
from services._kit.kafka_python import KafkaConsumer, closed_on_failure
from services._kit.records import Delivery, EventReader
from services._kit.wire import tolerate

E = TypeVar("E", bound=Event)

_POLL_S: Final = 0.2
_FIRST_WINDOW: Final = 8
"""Records from the end that a search reads first; usually the wanted one is among them."""
_WIDER: Final = 4
"""Factor from one window of a search to the next. Windows grow geometrically: all of them together
read less than two and a half times the topic, even if the record is at its beginning."""
_CONNECT_MS: Final = 10_000

tolerate(fetcher, memory_records.MemoryRecords)


class ReadRecord(NamedTuple):
    """A complete event, a tombstone (neither event nor problem), or an unreadable record."""

    event: Event | None
    delivery: Delivery
    problem: str = ""


class TopicReader:
    """A connection to read topics with; not thread-safe."""

    def __init__(self, options: dict[str, Any]) -> None:
        servers = ",".join(options["bootstrap_servers"])
        try:
            with closed_on_failure() as create:
                self._consumer = KafkaConsumer(
                    **options,
                    kafka_client=create,
                    enable_auto_commit=False,
                    # If retention removes records during a read, go on with the oldest left.
                    auto_offset_reset="earliest",
                    bootstrap_timeout_ms=_CONNECT_MS,
                    # Services write in transactions: what was aborted never happened.
                    isolation_level="read_committed",
                )
        except KafkaError as error:
            raise InputError(
                f"cannot connect to Kafka at {servers} ({error}): "
                "does it run, is the password right?"
            ) from None
        self._events = EventReader()
        self.is_idle = False
        """Whether the last `poll` received nothing, not even a part of an event."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._consumer.close()

    def seek(self, topics: Sequence[str], *, from_beginning: bool, key: str | None = None) -> None:
        """Set where `poll` begins; with a key, read only the partition of its records."""
        partitions = [partition for topic in topics for partition in self._partitions(topic, key)]
        self._consumer.assign(partitions)
        if from_beginning:
            self._consumer.seek_to_beginning(*partitions)
        else:
            self._consumer.seek_to_end(*partitions)
            for partition in partitions:
                # Seeking is lazy: only reading the position performs it.
                self._consumer.position(partition)

    def poll(self, timeout_s: float = _POLL_S) -> Iterator[ReadRecord]:
        """Records that arrived since the last call; waits up to `timeout_s` for the first."""
        try:
            polled = self._consumer.poll(timeout_ms=int(timeout_s * 1000))
        except TopicAuthorizationFailedError as error:
            raise InputError(
                f"this user may not read from Kafka ({error}): pass --credentials of one who may"
            ) from None
        self.is_idle = not polled
        for records in polled.values():
            for one in records:
                found = self._read(one)
                if found is not None:
                    yield found

    def read_all(self, kind: type[E]) -> list[E]:
        """All events of a type up to the current end of its topic, partition by partition."""
        found = self.read_to_end([topic_of(kind).name])
        return [one.event for one in found if isinstance(one.event, kind)]

    def read_to_end(self, topics: Sequence[str]) -> list[ReadRecord]:
        """All records up to the current ends of the topics."""
        return list(self.stream_to_end(topics))

    def stream_to_end(self, topics: Sequence[str]) -> Iterator[ReadRecord]:
        """The same one by one, for topics that do not fit into memory."""
        partitions = [partition for topic in topics for partition in self._partitions(topic, None)]
        ends = self._consumer.end_offsets(partitions)
        yield from self._between(self._consumer.beginning_offsets(partitions), ends)

    def ends(self, topics: Sequence[str]) -> dict[tuple[str, int], int]:
        """The offset after the last record, by topic and partition."""
        partitions = [partition for topic in topics for partition in self._partitions(topic, None)]
        ends = self._consumer.end_offsets(partitions)
        return {(at.topic, at.partition): end for at, end in ends.items()}

    def newest_records(self, kind: type[Event], each: int = _FIRST_WINDOW) -> list[ReadRecord]:
        """The last few records of each partition of an event's topic."""
        partitions = self._partitions(topic_of(kind).name, None)
        ends = self._consumer.end_offsets(partitions)
        begins = self._consumer.beginning_offsets(partitions)
        starts = {at: max(begins[at], ends[at] - each) for at in partitions}
        return list(self._between(starts, ends))

    def oldest_records(self, kind: type[Event], each: int) -> list[ReadRecord]:
        """The first few records of each partition of an event's topic."""
        partitions = self._partitions(topic_of(kind).name, None)
        ends = self._consumer.end_offsets(partitions)
        begins = self._consumer.beginning_offsets(partitions)
        ends = {at: min(ends[at], begins[at] + each) for at in partitions}
        return list(self._between(begins, ends))

    def find_newest(self, kind: type[E], key: str, wanted: Callable[[E], bool]) -> E | None:
        """The newest event of a key that `wanted` accepts, searched from the end backwards."""
        partitions = self._partitions(topic_of(kind).name, key)
        ends = self._consumer.end_offsets(partitions)
        begins = self._consumer.beginning_offsets(partitions)
        window = _FIRST_WINDOW
        # A wider window is read as a whole again: its events may begin before the smaller window,
        # which then had only their last parts.
        while True:
            starts = {at: max(begins[at], ends[at] - window) for at in partitions}
            for one in reversed(list(self._between(starts, ends))):
                event = one.event
                if isinstance(event, kind) and key_of(event) == key and wanted(event):
                    return event
            if starts == begins:
                return None
            window *= _WIDER

    def _between(
        self, starts: dict[TopicPartition, int], ends: dict[TopicPartition, int]
    ) -> Iterator[ReadRecord]:
        """All records between offsets; compacted topics have gaps, so positions count."""
        partitions = [partition for partition, end in ends.items() if starts[partition] < end]
        # A new one: parts left over from an earlier range must not complete an event of this one.
        self._events = EventReader()
        self._consumer.assign(partitions)
        for partition in partitions:
            self._consumer.seek(partition, starts[partition])
        # A poll may return records beyond the end that was current when the read began.
        last = {(partition.topic, partition.partition): end for partition, end in ends.items()}
        while any(self._consumer.position(partition) < ends[partition] for partition in partitions):
            for one in self.poll():
                if one.delivery.offset < last[one.delivery.topic, one.delivery.partition]:
                    yield one

    def _partitions(self, topic: str, key: str | None) -> list[TopicPartition]:
        """The partitions of a topic, or the one into which default partitioners put a key."""
        numbers = sorted(self._consumer.partitions_for_topic(topic) or ())
        if not numbers:
            raise InputError(f"Kafka has no topic {topic}: create it with hirl topics apply")
        if key is not None:
            # Kafka's default partitioner: murmur2 without its sign bit. All producers use it.
            numbers = [numbers[(murmur2(key.encode()) & 0x7FFFFFFF) % len(numbers)]]
        return [TopicPartition(topic, number) for number in numbers]

    def _read(self, one: Any) -> ReadRecord | None:
        delivery = Delivery(
            one.topic, one.partition, one.offset, one.key or b"", one.value,
            one.headers or (), one.timestamp / 1000,
        )  # fmt: skip
        try:
            arrival = self._events.read(delivery)
        except Malformed as error:
            return ReadRecord(None, delivery, str(error))
        return None if arrival is None else ReadRecord(arrival.event, delivery)
