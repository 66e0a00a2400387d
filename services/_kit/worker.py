"""A service as a process on Kafka: everything but the membership in the consumer group.

The worker reads the reference topics whole, then joins the group. Each assignment of partitions
brings the states of their keys; only then are events let in. A failure anywhere ends `run`.
"""

import asyncio
import logging
from collections.abc import Collection, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Generic, Protocol

from aiokafka.errors import KafkaError

from schemas.codec import Record
from schemas.topics import BY_NAME, state_topic, topic_of
from services._kit.broker import Outage, ending_in_one_line, wait_for_brokers
from services._kit.clock import Clock
from services._kit.engine import Engine
from services._kit.errors import Stopped
from services._kit.failures import REFERENCE_PARTITION
from services._kit.handler import S, Service
from services._kit.kafka import (
    KafkaWriter,
    Reader,
    committed_offsets,
    default_partitioner,
    state_record_of,
)
from services._kit.records import Delivery
from services._kit.resets import reference_topics
from services._kit.settings import KitSettings
from services._kit.state_records import StateRecord
from services._kit.telemetry import COMPILING, Telemetry

log = logging.getLogger(__name__)

_LONGEST_SLEEP_S: Final = 0.1
"""The timer looks again after this long: a state may have started to wait in the meantime."""
_BROKER_CHECK_S: Final = 5.0
_GROUP_CHECK_S: Final = 1.0


class Group(Protocol):
    """Membership in the service's consumer group."""

    async def join(self) -> None:
        """Start to consume; partitions are assigned some time later."""

    async def check(self) -> None:
        """Raise the error for which the group refuses this member, if there is one."""

    def acknowledge(self, delivery: Delivery) -> None:
        """Commit it with the next commit, once everything before it is acknowledged too."""

    async def leave(self) -> None:
        """Commit and leave."""

    def lag(self) -> dict[str, int]:
        """Records still to be consumed, by topic."""


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
        self._reference = reference_topics(handler.reference)
        self._clock = clock
        self._kafka = KafkaWriter(handler.name, settings, by_domain=self.by_domain)
        self._engine = Engine(service, self, clock, telemetry)
        self._close = service.close
        self._open = asyncio.Event()
        """Set while events are let in: states of the assigned partitions are loaded."""
        self._slots = asyncio.Semaphore(settings.in_flight)
        self._tasks: set[asyncio.Task[None]] = set()
        self._over: asyncio.Future[None] | None = None
        self.group: Group | None = None
        self._check_partitions()

    async def run(self, group: Group, stop: asyncio.Event) -> None:
        """Work until `stop`, then finish what is in flight; raises what went wrong."""
        self.group = group
        self._over = asyncio.get_running_loop().create_future()
        try:
            await self._prepare()
            if await wait_for_brokers(self.settings, self.telemetry.health, self._clock, stop):
                with ending_in_one_line(self.settings):
                    await self._connect_and_work(group, stop)
        finally:
            await self._close()

    async def _prepare(self) -> None:
        health = self.telemetry.health
        health.preparing = COMPILING
        # In a thread: compiling takes minutes, and probes are answered meanwhile.
        await asyncio.to_thread(self._engine.handler.prepare)
        health.preparing = ""
        health.polled()

    async def _connect_and_work(self, group: Group, stop: asyncio.Event) -> None:
        await self._kafka.start()
        try:
            await self._work_and_drain(group, stop)
        finally:
            await self._leave(group)

    # The engine's `BusWriter`.

    async def commit(
        self,
        records: Sequence[Record],
        states: Mapping[str, StateRecord | None],
        partition: int | None,
    ) -> None:
        """See `BusWriter`."""
        await self._kafka.commit(records, states, partition)

    async def publish(self, records: Sequence[Record]) -> None:
        """See `BusWriter`."""
        await self._kafka.publish(records)

    async def save(self, key: str, state: StateRecord | None, partition: int | None) -> None:
        """See `BusWriter`."""
        await self._kafka.save(key, state, partition)

    def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        """See `BusWriter`."""
        for delivery in deliveries:
            if self.group is not None:
                self.group.acknowledge(delivery)

    # Called by the group.

    @property
    def term(self) -> int:
        """Number of the assignment: a record belongs to the term in which it was fetched."""
        return self._engine.term

    async def dispatch(self, delivery: Delivery, term: int) -> None:
        """Let an event in once states are loaded and a slot is free."""
        await self._open.wait()
        # Back-pressure: the group stops fetching while all slots are taken.
        await self._slots.acquire()
        self._spawn(self._take(delivery, term))

    async def revoked(self) -> None:
        """Partitions may go elsewhere: finish, and drop all states."""
        self._open.clear()
        await self._engine.release()
        await self._kafka.disown()

    async def assigned(self, partitions: Collection[int]) -> None:
        """Load the states of the assigned partitions, the same of all inputs; let events in."""
        # In case no revocation was reported: old states must not stay beside restored ones.
        if self._open.is_set():
            await self.revoked()
        # A cluster state may be in any partition of its topic: read them all.
        numbers = partitions if self.by_domain else None
        if partitions:
            # Before their states are read: what an earlier owner commits later would be lost.
            await self._kafka.own(partitions)
            async with Reader(self.settings) as reader:
                await self._report_expired(reader, partitions)
                async for found in reader.to_end([state_topic(self.name)], numbers):
                    self._engine.restore(_key(found), state_record_of(found), found.partition)
            await self._engine.begin()
            await self._engine.wake(early=True)
        self.telemetry.health.assigned = True
        self._open.set()
        log.info("%s has partitions %s", self.name, sorted(partitions))

    async def _report_expired(self, reader: Reader, partitions: Collection[int]) -> None:
        """Log which inputs were deleted before they were read: the group skips them silently."""
        try:
            committed = await committed_offsets(self.settings, self.name)
            lost = await reader.expired(committed, partitions)
        except KafkaError as error:
            log.warning("cannot tell whether inputs were deleted before they were read: %r", error)
            return
        for topic, count in sorted(lost.items()):
            self.telemetry.lost.labels(topic).inc(count)
            log.error(
                "%d records of %s were deleted before %s read them: it was down or behind for "
                "longer than the topic's retention, and continues with the oldest record there is",
                count, topic, self.name,
            )  # fmt: skip

    def fail(self, error: BaseException) -> None:
        """End `run` with this error."""
        if self._over and not self._over.done():
            self._over.set_exception(error)

    # Tasks.

    async def _take(self, delivery: Delivery, term: int) -> None:
        try:
            # A record of an earlier term belongs to the present owner of its partition.
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
        # Before joining: a missing topic would look like one without any states.
        await reader.require(state_topic(self.name), *self._reference)
        counts = await reader.partition_counts(self.inputs)
        self._engine.expect_partitions(default_partitioner(counts))
        await self._learn_all(reader)
        self._spawn(self._follow(reader))
        self.telemetry.health.reference_read = True
        self._spawn(self._watch())
        self._spawn(self._watch_brokers(reader))
        if self.inputs:
            # In a task: joining does not return while the group refuses this member.
            self._spawn(group.join())
            self._spawn(self._watch_membership(group))
        else:  # no inputs to share, so there is no group to wait for
            await self.assigned([0])
        await self._until(stop)

    async def _learn_all(self, reader: Reader) -> None:
        counted = [REFERENCE_PARTITION] if self.by_domain else None
        async for found in reader.to_end([state_topic(self.name)], counted):
            self._engine.restore_failures(_key(found), found.value)
        async for delivery in reader.to_end(self._reference):
            await self._engine.take_reference(delivery)
        await self._engine.finish_references()

    async def _follow(self, reader: Reader) -> None:
        """Learn what arrives, and wake the states after it."""
        while True:
            learned = False
            async for delivery in reader.next():
                await self._engine.take_reference(delivery)
                learned = True
            await self._engine.finish_references()
            if learned and self._open.is_set():
                # In a task: waking waits for turns, and the next heartbeat must not.
                self._spawn(self._wake(early=True))

    async def _wake(self, *, early: bool = False) -> None:
        with suppress(Stopped):
            await self._engine.wake(early=early)

    async def _watch(self) -> None:
        """Wake states that are due, and report the lag."""
        while True:
            # Don't wake keys before their state is restored.
            due = self._engine.next_due() if self._open.is_set() else None
            sleep = _LONGEST_SLEEP_S if due is None else due - self._clock.now()
            await asyncio.sleep(min(max(sleep, 0.0), _LONGEST_SLEEP_S))
            if self._open.is_set() and due is not None and due <= self._clock.now():
                self._spawn(self._wake())  # a key that waits for its target delays no other key
            # Without inputs no group polls, and the liveness probe would fail.
            if not self.inputs:
                self.telemetry.health.polled()
            for topic, count in (self.group.lag() if self.group else {}).items():
                self.telemetry.lag.labels(topic).set(count)

    async def _watch_membership(self, group: Group) -> None:
        """End a process that the group refuses: the client would wait for ever."""
        while True:
            await asyncio.sleep(_GROUP_CHECK_S)
            await group.check()

    async def _watch_brokers(self, reader: Reader) -> None:
        """Report an outage: clients retry without raising anything."""
        outage = Outage(self.settings, self.telemetry.health, self._clock)
        while True:
            await asyncio.sleep(_BROKER_CHECK_S)
            try:
                await reader.reach()
            except (KafkaError, TimeoutError) as error:
                outage.failed(error)
            else:
                outage.answered()

    async def _until(self, stop: asyncio.Event) -> None:
        assert self._over is not None  # noqa: S101  run made it
        stopped: asyncio.Future[Any] = asyncio.ensure_future(stop.wait())
        await asyncio.wait({stopped, self._over}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if self._over.done():
            self._over.result()
        self._over.cancel()  # failures from here on are caused by stopping

    async def _drain(self) -> None:
        """Finish what is in flight, with a timeout in case the broker is gone."""
        self._open.clear()
        try:
            async with asyncio.timeout(self.settings.drain_seconds):
                await self._engine.release()
        except TimeoutError:
            log.warning("events are still in flight at the drain timeout: they are redelivered")
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _leave(self, group: Group) -> None:
        """Commit and disconnect, with a timeout in case the broker is gone."""
        try:
            async with asyncio.timeout(self.settings.drain_seconds):
                if self.inputs:
                    await group.leave()
                await self._kafka.stop()
        except TimeoutError:
            log.warning("timeout while leaving the group: the brokers do not answer")

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            self.fail(error)

    def _check_partitions(self) -> None:
        # All events of a domain must go to the process that has the domain's state.
        counts = {name: BY_NAME[name].partitions for name in self.inputs}
        if self.by_domain and len(set(counts.values())) > 1:
            raise TypeError(f"inputs of {self.name} differ in partitions: {counts}")


def _key(delivery: Delivery) -> str:
    """Key of a record of the state topic; anything may have been written there."""
    return delivery.key.decode(errors="replace")
