"""Reading topics as an onlooker: no group, no commits, nothing changes by being looked at."""

from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, TypeVar

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError
from kafka.partitioner.default import murmur2

from models.inputs.errors import InputError
from schemas.codec import Malformed
from schemas.fields import Event
from schemas.topics import key_of, topic_of
from services._kit.records import Delivery, EventReader

E = TypeVar("E", bound=Event)

_POLL_S: Final = 0.2
_FIRST_WINDOW: Final = 8
"""Records from the end that are looked at first; most often it is among them."""
_WIDER: Final = 4
_CONNECT_MS: Final = 10_000


class Found(NamedTuple):
    """A whole event, a tombstone, or what is wrong with a record."""

    event: Event | None
    delivery: Delivery
    problem: str = ""


class Onlooker:
    """A connection; not for several threads."""

    def __init__(self, options: dict[str, Any]) -> None:
        servers = ",".join(options["bootstrap_servers"])
        try:
            self._consumer = KafkaConsumer(
                **options,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                bootstrap_timeout_ms=_CONNECT_MS,
            )
        except KafkaError as error:
            raise InputError(
                f"no Kafka lets us in at {servers} ({error}); does it run, is the password right?"
            ) from None
        self._intake = EventReader()
        self.silent = False
        """Nothing at all came when `next` was last asked, not even a part of an event."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._consumer.close()

    def watch(self, topics: Sequence[str], *, from_beginning: bool, key: str | None = None) -> None:
        """Go to where `next` begins; with a key only where its records can be."""
        places = [place for topic in topics for place in self._places(topic, key)]
        self._consumer.assign(places)
        if from_beginning:
            self._consumer.seek_to_beginning(*places)
        else:
            self._consumer.seek_to_end(*places)
            for place in places:  # seeking is lazy: asking for the position is what fixes it
                self._consumer.position(place)

    def next(self, patience_s: float = _POLL_S) -> Iterator[Found]:
        """What came meanwhile, if anything came."""
        polled = self._consumer.poll(timeout_ms=int(patience_s * 1000))
        self.silent = not polled
        for records in polled.values():
            for one in records:
                found = self._read(one)
                if found is not None:
                    yield found

    def whole(self, kind: type[E]) -> list[E]:
        """Every event of a kind up to where its topic ends now, in the order of partitions."""
        found = self.until_now([topic_of(kind).name])
        return [one.event for one in found if isinstance(one.event, kind)]

    def until_now(self, topics: Sequence[str]) -> list[Found]:
        """Everything up to where these topics end now."""
        places = [place for topic in topics for place in self._places(topic, None)]
        ends = self._consumer.end_offsets(places)
        return self._between(self._consumer.beginning_offsets(places), ends)

    def newest(self, kind: type[E], key: str, wanted: Callable[[E], bool]) -> E | None:
        """The last event about a key that is wanted, looked for from the end of its partition."""
        places = self._places(topic_of(kind).name, key)
        ends = self._consumer.end_offsets(places)
        begins = self._consumer.beginning_offsets(places)
        window = _FIRST_WINDOW
        while True:
            starts = {at: max(begins[at], ends[at] - window) for at in places}
            for one in reversed(self._between(starts, ends)):
                event = one.event
                if isinstance(event, kind) and key_of(event) == key and wanted(event):
                    return event
            if starts == begins:
                return None
            window *= _WIDER

    def _between(
        self, starts: dict[TopicPartition, int], ends: dict[TopicPartition, int]
    ) -> list[Found]:
        """Compacted topics have gaps, so positions count, not records."""
        places = [place for place, end in ends.items() if starts[place] < end]
        self._intake = EventReader()
        self._consumer.assign(places)
        for place in places:
            self._consumer.seek(place, starts[place])
        found: list[Found] = []
        while any(self._consumer.position(place) < ends[place] for place in places):
            found += self.next()
        last = {(place.topic, place.partition): end for place, end in ends.items()}
        return [
            one
            for one in found
            if one.delivery.offset < last[one.delivery.topic, one.delivery.partition]
        ]

    def _places(self, topic: str, key: str | None) -> list[TopicPartition]:
        """A key's records are where every producer's default partitioner puts them."""
        numbers = sorted(self._consumer.partitions_for_topic(topic) or ())
        if not numbers:
            raise InputError(f"Kafka has no topic {topic}: hirl topics apply makes it")
        if key is not None:
            numbers = [numbers[(murmur2(key.encode()) & 0x7FFFFFFF) % len(numbers)]]
        return [TopicPartition(topic, number) for number in numbers]

    def _read(self, one: Any) -> Found | None:
        delivery = Delivery(
            one.topic, one.partition, one.offset, one.key or b"", one.value,
            one.headers or (), one.timestamp / 1000,
        )  # fmt: skip
        try:
            arrival = self._intake.read(delivery)
        except Malformed as error:
            return Found(None, delivery, str(error))
        return None if arrival is None else Found(arrival.event, delivery)
