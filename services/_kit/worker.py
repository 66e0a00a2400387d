"""A service as a process on Kafka: everything but the membership in the group.

Reference data is read whole first, then the group is joined. With partitions come the states of
their keys; only then are events let through. A failure anywhere ends `run`.
"""

import asyncio
import logging
from collections.abc import Collection, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Final, Generic, Protocol

from schemas.codec import Record
from schemas.topics import BY_NAME, state_topic, topic_of
from services._kit.clock import Clock
from services._kit.consume import Delivery
from services._kit.engine import FAILURES_OF_REFERENCE, Engine, Stopped
from services._kit.handler import S, Service
from services._kit.kafka import KafkaOutlet, Reader, state_of
from services._kit.parcel import Parcel
from services._kit.settings import KitSettings
from services._kit.telemetry import Telemetry

log = logging.getLogger(__name__)

_LONGEST_NAP: Final = 0.1
"""Seconds after which the timer looks again, as a state may have begun to wait meanwhile."""


class Group(Protocol):
    """Membership in the service's consumer group."""

    async def join(self) -> None:
        """Begin to consume; partitions come some time later."""

    def acknowledge(self, delivery: Delivery) -> None:
        """Commit it with the next commit, once everything before it is acknowledged too."""

    async def leave(self) -> None:
        """Commit and go."""

    def lag(self) -> dict[str, int]:
        """Records by topic that are still to be consumed."""


class Worker(Generic[S]):
    """One process of a service."""

    def __init__(
        self, service: Service[S], settings: KitSettings, clock: Clock, telemetry: Telemetry
    ) -> None:
        handler = service.handler
        self.name = handler.name
        self.settings = settings
        self.telemetry = telemetry
        self.by_domain = handler.scope == "domain"
        self.inputs = tuple(topic_of(kind).name for kind in handler.inputs)
        self._reference = tuple(topic_of(kind).name for kind in handler.reference)
        self._clock = clock
        self._kafka = KafkaOutlet(handler.name, settings, by_domain=self.by_domain)
        self._engine = Engine(service, self, clock, telemetry)
        self._close = service.close
        self._open = asyncio.Event()
        self._slots = asyncio.Semaphore(settings.in_flight)
        self._tasks: set[asyncio.Task[None]] = set()
        self._over: asyncio.Future[None] | None = None
        self.group: Group | None = None
        self._check()

    async def run(self, group: Group, stop: asyncio.Event) -> None:
        """Work until asked to stop, then finish what is under way; raises what went wrong."""
        self.group = group
        self._over = asyncio.get_running_loop().create_future()
        try:
            await asyncio.to_thread(self._engine.handler.prepare)
            await self._kafka.start()
            try:
                await self._work_and_drain(group, stop)
            finally:
                await self._leave(group)
        finally:
            await self._close()

    # The outlet of the engine.

    async def publish(self, records: Sequence[Record]) -> None:
        """As `Outlet` says."""
        await self._kafka.publish(records)

    async def save(self, key: str, state: Parcel | None, partition: int | None) -> None:
        """As `Outlet` says."""
        await self._kafka.save(key, state, partition)

    def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        """As `Outlet` says."""
        for delivery in deliveries:
            if self.group is not None:
                self.group.acknowledge(delivery)

    # What the group says.

    @property
    def term(self) -> int:
        """Rises with each revocation: a record belongs to the term in which it was fetched."""
        return self._engine.term

    async def dispatch(self, delivery: Delivery, term: int) -> None:
        """Let an event in when states are there and not too many are under way."""
        await self._open.wait()
        await self._slots.acquire()
        self._spawn(self._take(delivery, term))

    async def revoked(self) -> None:
        """Partitions may go elsewhere: finish, and let go of all states."""
        self._open.clear()
        await self._engine.release()

    async def assigned(self, partitions: Collection[int]) -> None:
        """Partitions came, of all inputs alike: read their states, then let events in."""
        if self._open.is_set():
            await self.revoked()
        numbers = partitions if self.by_domain else None
        if partitions:
            async with Reader(self.settings) as reader:
                async for found in reader.to_end([state_topic(self.name)], numbers):
                    self._engine.restore(found.key.decode(), state_of(found), found.partition)
            await self._engine.begin()
            await self._engine.wake(early=True)
        self.telemetry.health.assigned = True
        self._open.set()
        log.info("%s has partitions %s", self.name, sorted(partitions))

    def fail(self, error: BaseException) -> None:
        """End `run` with this."""
        if self._over and not self._over.done():
            self._over.set_exception(error)

    # Inside.

    async def _take(self, delivery: Delivery, term: int) -> None:
        try:
            if term == self._engine.term:
                with suppress(Stopped):
                    await self._engine.take(delivery)
        finally:
            self._slots.release()

    async def _work_and_drain(self, group: Group, stop: asyncio.Event) -> None:
        async with Reader(self.settings) as reader:
            try:
                await self._work(group, reader, stop)
            finally:
                await self._drain()

    async def _work(self, group: Group, reader: Reader, stop: asyncio.Event) -> None:
        await reader.require(state_topic(self.name), *self._reference)
        if self._reference:
            await self._learn_all(reader)
            self._spawn(self._follow(reader))
        self.telemetry.health.reference_read = True
        self._spawn(self._watch())
        if self.inputs:
            await group.join()
        else:  # nothing to share with others, so nobody to wait for
            await self.assigned([0])
        await self._until(stop)

    async def _learn_all(self, reader: Reader) -> None:
        counted = [FAILURES_OF_REFERENCE] if self.by_domain else None
        async for found in reader.to_end([state_topic(self.name)], counted):
            self._engine.recall(found.key.decode(), state_of(found))
        async for delivery in reader.to_end(self._reference):
            await self._engine.study(delivery)

    async def _follow(self, reader: Reader) -> None:
        """Learn what comes. Waking waits for turns, and no heartbeat may wait with it."""
        while True:
            learned = False
            async for delivery in reader.next():
                await self._engine.study(delivery)
                learned = True
            if learned and self._open.is_set():
                self._spawn(self._wake(early=True))

    async def _wake(self, *, early: bool = False) -> None:
        with suppress(Stopped):
            await self._engine.wake(early=early)

    async def _watch(self) -> None:
        """Wake what is due, and say how far behind we are."""
        while True:
            # Until states are there nobody can be woken, however long he has been due.
            due = self._engine.next_due() if self._open.is_set() else None
            nap = _LONGEST_NAP if due is None else due - self._clock.now()
            await asyncio.sleep(min(max(nap, 0.0), _LONGEST_NAP))
            if self._open.is_set() and due is not None and due <= self._clock.now():
                self._spawn(self._wake())  # one key that waits for its target holds up no other
            if not self.inputs:
                self.telemetry.health.polled()
            for topic, count in (self.group.lag() if self.group else {}).items():
                self.telemetry.lag.labels(topic).set(count)

    async def _until(self, stop: asyncio.Event) -> None:
        assert self._over is not None  # noqa: S101  run made it
        asked: asyncio.Future[Any] = asyncio.ensure_future(stop.wait())
        await asyncio.wait({asked, self._over}, return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()
        if self._over.done():
            self._over.result()
        self._over.cancel()  # what fails from here on fails because we stop

    async def _drain(self) -> None:
        """Finish what is under way, but do not wait for a broker that is gone."""
        self._open.clear()
        try:
            async with asyncio.timeout(self.settings.drain_seconds):
                await self._engine.release()
        except TimeoutError:
            log.warning("gave up on what is under way: it is delivered again")
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _leave(self, group: Group) -> None:
        """Commit and go; a broker that is gone cannot be told."""
        try:
            async with asyncio.timeout(self.settings.drain_seconds):
                if self.inputs:
                    await group.leave()
                await self._kafka.stop()
        except TimeoutError:
            log.warning("left without a word: the brokers do not answer")

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            self.fail(error)

    def _check(self) -> None:
        """A domain's events of all inputs must come to the process that has its state."""
        counts = {name: BY_NAME[name].partitions for name in self.inputs}
        if self.by_domain and len(set(counts.values())) > 1:
            raise TypeError(f"inputs of {self.name} differ in partitions: {counts}")
