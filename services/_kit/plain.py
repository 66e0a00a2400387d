"""Group membership by aiokafka alone: to measure what Faust costs, and to run without it."""

import asyncio
import logging
from collections import defaultdict

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import CommitFailedError

from schemas.topics import app_id
from services._kit.handler import S
from services._kit.kafka import assignors, connection, delivery_of
from services._kit.records import Delivery
from services._kit.transactions import READ_COMMITTED
from services._kit.worker import Worker

log = logging.getLogger(__name__)


class PlainGroup(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    """A member of the service's consumer group."""

    def __init__(self, worker: Worker[S]) -> None:
        settings = worker.settings
        self._worker = worker
        self._in_flight: defaultdict[TopicPartition, set[int]] = defaultdict(set)
        self._read: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._tasks: list[asyncio.Task[None]] = []
        instance = f"{worker.name}-{settings.instance}" if settings.instance else None
        self._consumer = AIOKafkaConsumer(
            **connection(settings),
            client_id=f"hirl-{worker.name}-{settings.instance}",
            group_id=app_id(worker.name),
            group_instance_id=instance,
            partition_assignment_strategy=assignors(by_domain=worker.by_domain),
            # Only what is acknowledged may be committed, not what was fetched.
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=int(settings.session_timeout_seconds * 1000),
            rebalance_timeout_ms=int(settings.session_timeout_seconds * 1000),
            heartbeat_interval_ms=int(settings.heartbeat_seconds * 1000),
            isolation_level=READ_COMMITTED,
        )

    async def join(self) -> None:
        """Subscribe and start to poll."""
        self._consumer.subscribe(list(self._worker.inputs), listener=self)
        await self._consumer.start()
        for work in (self._poll(), self._commit_regularly()):
            task = asyncio.ensure_future(work)
            task.add_done_callback(self._done)
            self._tasks.append(task)

    async def check(self) -> None:
        """See `Group`; `_poll` fails by itself."""

    async def leave(self) -> None:
        """Commit and stop."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._commit()
        await self._consumer.stop()

    def acknowledge(self, delivery: Delivery) -> None:
        """Commit it, once all before it are acknowledged."""
        self._in_flight[TopicPartition(delivery.topic, delivery.partition)].discard(delivery.offset)

    def lag(self) -> dict[str, int]:
        """Records by topic between what is acknowledged and the end."""
        behind = dict.fromkeys(self._worker.inputs, 0)
        for partition, done in self._safe().items():
            end = self._consumer.highwater(partition) or 0
            behind[partition.topic] += max(0, end - done)
        return behind

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """See `ConsumerRebalanceListener`."""
        await self._worker.revoked()
        # Empty when the group is joined for the first time: there is nothing to commit yet.
        if revoked:
            await self._commit()
        for positions in (self._in_flight, self._read, self._committed):
            positions.clear()

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        """See `ConsumerRebalanceListener`; records wait until it returns."""
        try:
            await self._worker.assigned({partition.partition for partition in assigned})
        # aiokafka logs an error of a listener and goes on; this process has to end instead.
        except Exception as error:  # noqa: BLE001  it ends the process, which logs it
            log.warning("failed to load the states of the assigned partitions: %r", error)
            self._worker.fail(error)

    async def _poll(self) -> None:
        while True:
            found = await self._consumer.getmany(timeout_ms=500)
            self._worker.telemetry.health.polled()
            # Partitions may be revoked while `dispatch` waits: then the rest is not ours any more.
            term = self._worker.term
            for record in (record for records in found.values() for record in records):
                if term != self._worker.term:
                    break  # the rest is redelivered, here or elsewhere
                partition = TopicPartition(record.topic, record.partition)
                self._in_flight[partition].add(record.offset)
                self._read[partition] = record.offset + 1
                await self._worker.dispatch(delivery_of(record), term)

    async def _commit_regularly(self) -> None:
        while True:
            await asyncio.sleep(self._worker.settings.commit_seconds)
            await self._commit()

    async def _commit(self) -> None:
        safe = {at: end for at, end in self._safe().items() if self._committed.get(at) != end}
        if not safe:
            return
        try:
            await self._consumer.commit(safe)
        except CommitFailedError:
            log.warning("a rebalance preceded the commit: uncommitted records are redelivered")
        else:
            self._committed |= safe

    def _safe(self) -> dict[TopicPartition, int]:
        """Offset up to which everything is acknowledged, by partition."""
        return {
            partition: min(self._in_flight[partition], default=read)
            for partition, read in self._read.items()
        }

    def _done(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()):
            self._worker.fail(error)
