"""The bus without a broker: every service in one process, in an order that never varies.

Records are encoded and decoded as on Kafka. Each service takes the oldest record it has not
had, in turn, until nobody has anything left to do. Kafka promises less, an order within a topic
only: `order` shuffles the rest. Time stands still unless `advance` moves it.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Literal, TypeVar

from schemas.codec import Record, encode
from schemas.fields import Event
from schemas.rejected import Rejected
from schemas.topics import BY_NAME, key_of, topic_of
from services._kit.clock import Clock, ManualClock
from services._kit.consume import Delivery, Intake
from services._kit.engine import Engine
from services._kit.handler import Service
from services._kit.memory_log import Log
from services._kit.parcel import Parcel, contents
from services._kit.telemetry import Telemetry

E = TypeVar("E", bound=Event)
Moment = Literal["publish", "save", "acknowledge"]
"""Where a process can die while it handles an event: before it does this."""
Build = Callable[[], Service]  # type: ignore[type-arg]  # services of one bus differ in their state

Order = Callable[[Sequence[Delivery]], Delivery]
"""Chooses what a service gets next: of each topic that has any, the next record; oldest first."""

ENDLESS: Final = 1_000_000
"""Deliveries after which a bus that does not come to rest is taken for a loop."""


class Killed(Exception):  # noqa: N818  it is the test that wants it
    """A fault that a test asked for."""


def oldest(candidates: Sequence[Delivery]) -> Delivery:
    """As if every record arrived the moment it was written."""
    return candidates[0]


class MemoryBus:
    """Topics, states and the services that are on the bus."""

    def __init__(
        self,
        clock: Clock | None = None,
        duplicate: Callable[[Delivery], bool] = lambda _: False,
        keep: int | None = None,
        order: Order = oldest,
    ) -> None:
        """Deliver twice what `duplicate` says; of topics keep the newest `keep` records or all.

        With `order=random.Random(seed).choice` topics overtake each other.
        """
        self.clock: Clock = clock or ManualClock()
        self.duplicate = duplicate
        self.order = order
        self._keep = keep
        self._logs = {
            name: Log(name, compacted=topic.cleanup == "compact") for name, topic in BY_NAME.items()
        }
        self._written = 0
        self._seats: dict[str, _Seat] = {}

    # From outside.

    def add(self, build: Build) -> None:
        """Put a service on the bus; `build` is called again whenever it is started again."""
        seat = _Seat(self, build)
        self._seats[seat.name] = seat

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
        """Write a raw record, however wrong; None is a tombstone."""
        self._logs[topic].append(self._written, key, value, headers, self.clock.date())
        self._written += 1

    def events(self, kind: type[E]) -> list[E]:
        """All events of a kind that a reader would get now, in order."""
        intake = Intake()
        arrivals = [intake.read(delivery) for delivery in self._logs[topic_of(kind).name]]
        return [found.event for found in arrivals if found and isinstance(found.event, kind)]

    def newest(self, kind: type[E]) -> dict[str, E]:
        """The newest event of each key."""
        return {key_of(event): event for event in self.events(kind)}

    @property
    def dead_letters(self) -> list[Rejected]:
        """What services could not use."""
        return self.events(Rejected)

    def compact(self) -> None:
        """Compact every topic that Kafka would compact."""
        for log in self._logs.values():
            log.compact()

    def telemetry(self, service: str) -> Telemetry:
        """Metrics of a service since it was started."""
        return self._seats[service].telemetry

    def state(self, service: str, key: str) -> bytes | None:
        """What a service saved."""
        found = self._seats[service].saved.get(key)
        return None if found is None else contents(*found)

    # Time.

    def run(self) -> None:
        """`settle` where no event loop runs."""
        asyncio.run(self.settle())

    async def settle(self) -> None:
        """Deliver until nobody has anything left to do at this moment."""
        for _ in range(ENDLESS):
            acted = [await seat.act() for seat in self._seats.values()]
            if not any(acted):
                self._trim()
                return
        raise RuntimeError("the bus does not come to rest: services answer each other for ever")

    def advance(self, seconds: float) -> None:
        """Let time pass on a manual clock; services are woken when they are due, in order."""
        asyncio.run(self.pass_time(seconds))

    async def pass_time(self, seconds: float) -> None:
        """`advance` inside an event loop."""
        clock = self.clock
        if not isinstance(clock, ManualClock):
            raise TypeError("only a manual clock can be moved")
        end = clock.now() + seconds
        await self.settle()
        while (due := self.next_due()) is not None and due <= end:
            clock.move_to(max(due, clock.now()))
            await self.settle()
        clock.move_to(end)
        await self.settle()

    def next_due(self) -> float | None:
        """When, by `Clock.now`, a service wants to be woken next."""
        dues = [seat.engine.next_due() for seat in self._seats.values() if seat.engine]
        return min((due for due in dues if due is not None), default=None)

    # Faults.

    def kill(self, service: str, redeliver: int = 0) -> None:
        """End a service as SIGKILL does; its last inputs come again, as many as are given here."""
        self._seats[service].die(redeliver)

    def start(self, service: str) -> None:
        """Start a service again, from its saved states."""
        self._seats[service].rise()

    def fail_next(self, service: str, moment: Moment) -> None:
        """Let the service die with `Killed` the next time it comes to this moment."""
        self._seats[service].fail_at = moment

    def _trim(self) -> None:
        if self._keep is None:
            return
        for name, log in self._logs.items():
            read = [seat.committed[name] for seat in self._seats.values() if name in seat.committed]
            log.trim(min(read, default=log.end), self._keep)


class _Seat:
    """A service on the bus: its outlet, its position in the topics, and its saved states."""

    def __init__(self, bus: MemoryBus, build: Build) -> None:
        self._bus = bus
        self._build = build
        handler = build().handler
        self.name = handler.name
        self.saved: dict[str, Parcel] = {}
        self.fail_at: Moment | None = None
        self.committed = {topic_of(kind).name: 0 for kind in handler.inputs}
        self._reference = [topic_of(kind).name for kind in handler.reference]
        self._handled: deque[Delivery] = deque(maxlen=100)
        self.rise()

    def rise(self) -> None:
        service = self._build()
        self.telemetry = Telemetry(self.name, self._bus.clock)
        self.engine: Engine[object] | None = Engine(service, self, self._bus.clock, self.telemetry)
        for key, parcel in self.saved.items():
            self.engine.restore(key, contents(*parcel), None)
        self._read = dict(self.committed)
        self._studied = dict.fromkeys(self._reference, 0)
        self._under_way: dict[str, set[int]] = {topic: set() for topic in self.committed}
        self._begun = False

    def die(self, redeliver: int) -> None:
        self.engine = None
        for delivery in list(self._handled)[len(self._handled) - redeliver :]:
            self.committed[delivery.topic] = min(self.committed[delivery.topic], delivery.offset)

    async def act(self) -> bool:
        """Do one thing, if there is any; reference data goes first."""
        if self.engine is None:
            return False
        try:
            return await self._act(self.engine)
        except BaseException:
            self.engine = None  # as a process that fails: fast, and all of it
            raise

    async def _act(self, engine: Engine[object]) -> bool:
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
        """Up to the first record that is still under way."""
        for topic, waiting in self._under_way.items():
            self.committed[topic] = min(waiting, default=self._read[topic])

    async def _study(self, engine: Engine[object]) -> bool:
        learned = False
        while found := self._next(self._studied):
            self._studied[found.topic] = found.offset + 1
            await engine.study(found)
            learned = True
        return learned

    async def _take(self, engine: Engine[object]) -> bool:
        delivery = self._next(self._read)
        if delivery is None:
            return False
        self._read[delivery.topic] = delivery.offset + 1
        self._under_way[delivery.topic].add(delivery.offset)
        for _ in range(2 if self._bus.duplicate(delivery) else 1):
            await engine.take(delivery)
        return True

    def _next(self, positions: dict[str, int]) -> Delivery | None:
        """Of the records not yet had of these topics, the one that the bus brings now."""
        logs = self._bus._logs  # noqa: SLF001  a seat is a part of its bus
        found = [logs[topic].after(offset) for topic, offset in positions.items()]
        by_age = sorted((one for one in found if one), key=lambda one: one[0])
        return self._bus.order([delivery for _, delivery in by_age]) if by_age else None

    # The outlet.

    async def publish(self, records: Sequence[Record]) -> None:
        self._fail("publish")
        for record in records:
            self._bus.put(*record)

    async def save(self, key: str, state: Parcel | None, partition: int | None) -> None:  # noqa: ARG002
        self._fail("save")
        if state is None:
            self.saved.pop(key, None)
        else:
            self.saved[key] = state

    def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        self._handled.extend(deliveries)
        for delivery in deliveries:
            self._under_way[delivery.topic].discard(delivery.offset)

    def _fail(self, moment: Moment) -> None:
        if self.fail_at == moment:
            self.fail_at = None
            raise Killed(f"{self.name} before {moment}")
