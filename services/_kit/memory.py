"""The bus without a broker: every service in one process, in a deterministic order.

Records are encoded and decoded as on Kafka. Each service takes the oldest record it has not taken
yet, in turn, until no service has anything left to do. Kafka promises less, an order within each
topic only: `order` shuffles the rest. Time stands still unless `advance` moves it.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, Literal, TypeVar

from schemas.codec import Malformed, Record, encode
from schemas.fields import Event
from schemas.rejected import Rejected
from schemas.topics import BY_NAME, key_of, topic_of
from services._kit.clock import Clock, ManualClock
from services._kit.engine import Engine
from services._kit.handler import Service
from services._kit.records import Delivery, EventReader
from services._kit.resets import reference_topics
from services._kit.state_records import FoundStates, StateRecord
from services._kit.telemetry import Telemetry

E = TypeVar("E", bound=Event)
Moment = Literal["publish", "save", "acknowledge"]
"""Where a process can die while it handles an event: just before it commits a step with events
(publish) or with a state (save), or acknowledges."""
Build = Callable[[], Service]  # type: ignore[type-arg]  # services of one bus differ in their state

Order = Callable[[Sequence[Delivery]], Delivery]
"""Chooses a service's next record among the next ones of each topic, oldest first."""

MOST_ROUNDS: Final = 1_000_000
"""After this many rounds `settle` assumes that services answer each other in a loop."""


class Killed(Exception):  # noqa: N818  injected by a test
    """A fault that a test asked for."""


def oldest(candidates: Sequence[Delivery]) -> Delivery:
    """Deliver records in the order in which they were written."""
    return candidates[0]


class MemoryBus:
    """Topics, states and the services on the bus."""

    def __init__(
        self,
        clock: Clock | None = None,
        duplicate: Callable[[Delivery], bool] = lambda _: False,
        keep: int | None = None,
        order: Order = oldest,
    ) -> None:
        """Deliver twice where `duplicate` says so; keep the newest `keep` records of topics or all.

        With `order=random.Random(seed).choice` topics overtake each other.
        """
        self.clock: Clock = clock or ManualClock()
        self.duplicate = duplicate
        self.order = order
        self._keep = keep
        self._topics = {
            name: _Topic(name, compacted=topic.cleanup == "compact")
            for name, topic in BY_NAME.items()
        }
        self._written = 0
        self._processes: dict[str, _Process] = {}

    # From outside.

    def add(self, build: Build) -> None:
        """Put a service on the bus; `build` is called again at each restart."""
        process = _Process(self, build)
        self._processes[process.name] = process

    def publish(self, *events: Event, source: str = "outside") -> None:
        """Write events."""
        for event in events:
            for record in encode(event, source):
                self.put(record.topic, record.key, record.value, record.headers)

    def put(
        self,
        topic: str,
        key: bytes,
        value: bytes | None,
        headers: tuple[tuple[str, bytes], ...] = (),
    ) -> None:
        """Write a raw record, valid or not; None is a tombstone."""
        self._topics[topic].append(self._written, key, value, headers, self.clock.date())
        self._written += 1

    def events(self, kind: type[E]) -> list[E]:
        """All events of a kind that a reader would get now, in order."""
        reader, found = EventReader(), list[E]()
        for delivery in self._topics[topic_of(kind).name]:
            # A reader dead-letters what is malformed, and goes on.
            with suppress(Malformed):
                received = reader.read(delivery)
                if received is not None and isinstance(received.event, kind):
                    found.append(received.event)
        return found

    def newest(self, kind: type[E]) -> dict[str, E]:
        """The newest event of each key."""
        return {key_of(event): event for event in self.events(kind)}

    @property
    def dead_letters(self) -> list[Rejected]:
        """What services rejected."""
        return self.events(Rejected)

    def compact(self) -> None:
        """Compact every compacted topic now."""
        for topic in self._topics.values():
            topic.compact()

    def telemetry(self, service: str) -> Telemetry:
        """Metrics of a service since its last start."""
        return self._processes[service].telemetry

    def state(self, service: str, key: str) -> bytes | None:
        """Saved bytes of a key, be it of a state or of another record of the state topic."""
        saved = self._processes[service].saved
        found = FoundStates()
        for name, record in saved.items():
            found.add(name, record)
        if key in found:
            return found.join(key)
        return saved[key].value if key in saved else None

    # Time.

    def run(self) -> None:
        """`settle` where no event loop runs."""
        asyncio.run(self.settle())

    async def settle(self) -> None:
        """Deliver until no service has anything left to do at this moment."""
        for _ in range(MOST_ROUNDS):
            acted = [await process.act() for process in self._processes.values()]
            if not any(acted):
                self._trim()
                return
        raise RuntimeError("the bus does not settle: services answer each other in a loop")

    def advance(self, seconds: float) -> None:
        """Move a manual clock; services are woken when they are due, in order."""
        asyncio.run(self.pass_time(seconds))

    async def pass_time(self, seconds: float) -> None:
        """`advance` inside an event loop."""
        clock = self.clock
        if not isinstance(clock, ManualClock):
            raise TypeError("only a manual clock can be moved")
        end = clock.now() + seconds
        await self.settle()
        while (due := self.next_due()) is not None and due <= end:
            # A state may have been due earlier, and time does not go back.
            clock.move_to(max(due, clock.now()))
            await self.settle()
        clock.move_to(end)
        await self.settle()

    def next_due(self) -> float | None:
        """When, by `Clock.now`, the next service has to be woken."""
        engines = [process.engine for process in self._processes.values() if process.engine]
        dues = [engine.next_due() for engine in engines]
        return min((due for due in dues if due is not None), default=None)

    # Faults.

    def kill(self, service: str, redeliver: int = 0) -> None:
        """End a service as SIGKILL does; its last `redeliver` inputs are delivered again."""
        self._processes[service].die(redeliver)

    def start(self, service: str) -> None:
        """Start a service again, from its saved states."""
        self._processes[service].start()

    def fail_next(self, service: str, moment: Moment) -> None:
        """Let the service die with `Killed` at the next such moment."""
        self._processes[service].fail_at = moment

    def _trim(self) -> None:
        if self._keep is None:
            return
        for name, topic in self._topics.items():
            committed = [process.committed for process in self._processes.values()]
            read = [offsets[name] for offsets in committed if name in offsets]
            topic.trim(min(read, default=topic.end), self._keep)


class _Process:
    """A service on the bus: its writer, its offsets, and its saved states."""

    def __init__(self, bus: MemoryBus, build: Build) -> None:
        self._bus = bus
        self._build = build
        handler = build().handler
        self.name = handler.name
        self.saved: dict[str, StateRecord] = {}
        """Records of its state topic, by key."""
        self.fail_at: Moment | None = None
        self.committed = {topic_of(kind).name: 0 for kind in handler.inputs}
        self._reference = reference_topics(handler.reference)
        self._handled: deque[Delivery] = deque(maxlen=100)
        self.start()

    def start(self) -> None:
        service = self._build()
        self.telemetry = Telemetry(self.name, self._bus.clock)
        self.engine: Engine[object] | None = Engine(service, self, self._bus.clock, self.telemetry)
        for key, record in self.saved.items():
            self.engine.restore(key, record, None)
        # What was taken but not committed is delivered again, as on Kafka.
        self._read = dict(self.committed)
        # Reference data is never saved: every start reads it from the beginning.
        self._studied = dict.fromkeys(self._reference, 0)
        self._in_flight: dict[str, set[int]] = {topic: set() for topic in self.committed}
        self._begun = False

    def die(self, redeliver: int) -> None:
        self.engine = None
        # As if the process died before its last commits: go back to the earliest of these inputs.
        for delivery in list(self._handled)[len(self._handled) - redeliver :]:
            self.committed[delivery.topic] = min(self.committed[delivery.topic], delivery.offset)

    async def act(self) -> bool:
        """Do one thing, if there is any; reference data goes first."""
        if self.engine is None:
            return False
        try:
            return await self._act(self.engine)
        except BaseException:
            self.engine = None  # like a process that fails: at once and completely
            raise

    async def _act(self, engine: Engine[object]) -> bool:
        # In the order of `Worker`: all reference data, then the saved states, then events.
        if learned := await self._study(engine):
            if self._begun:
                await engine.wake(early=True)
            return learned
        if not self._begun:
            self._begun = True
            await engine.begin()
            await engine.wake(early=True)
        acted = await self._take(engine) or await engine.wake() > 0
        self._fail("acknowledge")
        self._commit()
        return acted

    def _commit(self) -> None:
        """Up to the first record that is still in flight."""
        for topic, waiting in self._in_flight.items():
            self.committed[topic] = min(waiting, default=self._read[topic])

    async def _study(self, engine: Engine[object]) -> bool:
        learned = False
        while found := self._next(self._studied):
            self._studied[found.topic] = found.offset + 1
            await engine.take_reference(found)
            learned = True
        await engine.finish_references()
        return learned

    async def _take(self, engine: Engine[object]) -> bool:
        delivery = self._next(self._read)
        if delivery is None:
            return False
        self._read[delivery.topic] = delivery.offset + 1
        self._in_flight[delivery.topic].add(delivery.offset)
        for _ in range(2 if self._bus.duplicate(delivery) else 1):
            await engine.take(delivery)
        return True

    def _next(self, offsets: dict[str, int]) -> Delivery | None:
        """The record that the bus delivers next, of those from these offsets on."""
        topics = self._bus._topics  # noqa: SLF001  a process is a part of its bus
        found = [topics[topic].after(offset) for topic, offset in offsets.items()]
        by_age = sorted((one for one in found if one), key=lambda one: one[0])
        return self._bus.order([delivery for _, delivery in by_age]) if by_age else None

    # The engine's `BusWriter`.

    async def commit(
        self,
        records: Sequence[Record],
        states: Mapping[str, StateRecord | None],
        partition: int | None,
    ) -> None:
        # All or nothing, as on Kafka: both faults come before the first record.
        if records:
            self._fail("publish")
        if states:
            self._fail("save")
        await self.publish(records)
        for key, state in states.items():
            await self.save(key, state, partition)

    async def publish(self, records: Sequence[Record]) -> None:
        for record in records:
            self._bus.put(*record)

    async def save(self, key: str, state: StateRecord | None, partition: int | None) -> None:  # noqa: ARG002
        if state is None:
            self.saved.pop(key, None)
        else:
            self.saved[key] = state

    def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        self._handled.extend(deliveries)
        for delivery in deliveries:
            self._in_flight[delivery.topic].discard(delivery.offset)

    def _fail(self, moment: Moment) -> None:
        if self.fail_at == moment:
            self.fail_at = None
            raise Killed(f"{self.name} before {moment}")


class _Topic:
    """One topic with one partition. Offsets stay valid when older records are removed."""

    def __init__(self, name: str, *, compacted: bool) -> None:
        self.name = name
        self.end = 0
        """Offset of the next record."""
        self._compacted = compacted
        self._records: dict[int, tuple[int, Delivery]] = {}
        self._newest: dict[bytes, int] = {}

    def append(
        self,
        order: int,
        key: bytes,
        value: bytes | None,
        headers: tuple[tuple[str, bytes], ...],
        timestamp: float,
    ) -> None:
        """Add a record; `order` is its number among the records of all topics."""
        delivery = Delivery(self.name, 0, self.end, key, value, headers, timestamp)
        self._records[self.end] = (order, delivery)
        self._newest[key] = self.end
        self.end += 1

    def after(self, offset: int) -> tuple[int, Delivery] | None:
        """The first record from an offset on, with its order."""
        # Compaction leaves gaps between the offsets.
        while offset < self.end:
            if offset in self._records:
                return self._records[offset]
            offset += 1
        return None

    def __iter__(self) -> Iterator[Delivery]:
        return (delivery for _, delivery in list(self._records.values()))

    def compact(self) -> None:
        """Keep the newest record of each key."""
        if self._compacted:
            kept = set(self._newest.values())
            self._records = {at: record for at, record in self._records.items() if at in kept}

    def trim(self, read_by_all: int, keep: int) -> None:
        """Remove what every service has read, except the newest `keep` records."""
        if self._compacted:
            self.compact()
            return
        for offset in list(self._records):
            if offset >= min(read_by_all, self.end - keep):
                return
            del self._records[offset]
