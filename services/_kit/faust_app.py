"""Group membership by Faust.

Faust delivers records and commits offsets. Outputs go through the kit's own producer: states and
events have to be acknowledged before an offset may be committed.
"""

import logging
import tempfile
from collections.abc import Callable, Mapping
from typing import Any, cast

import faust
from aiokafka import AIOKafkaConsumer
from faust.app.base import BootStrategy
from faust.streams import Stream
from faust.tables import TableManager
from faust.transport.drivers import aiokafka as driver
from faust.types import TP, EventT, Message, StreamT
from faust.types.auth import CredentialsT

from schemas.topics import app_id
from services._kit.handler import S
from services._kit.kafka import assignors, tls
from services._kit.records import Delivery
from services._kit.settings import KitSettings
from services._kit.transactions import READ_COMMITTED
from services._kit.worker import Worker

log = logging.getLogger(__name__)

# A subclass gets the logger of its module, and `services` logs at info: Faust's own lines would
# drown ours. As logs of a library they begin with warnings.
_QUIET = logging.getLogger("faust")


class FaustGroup:
    """A member of the service's consumer group."""

    def __init__(self, worker: Worker[S]) -> None:
        self._worker = worker
        self._app = make_app(worker, self.safe)
        self._in_flight: dict[tuple[str, int, int], Message] = {}
        """By position, without values: acknowledging needs none, and frames are large."""
        self._read: dict[TP, int] = {}
        """Offset after the last record that was taken, by partition."""
        # Faust keeps only weak references to listeners.
        self._listeners = cast(tuple[Any, Any], (self._assigned, self._revoked))
        self._app.on_partitions_assigned.connect(self._listeners[0])
        self._app.on_partitions_revoked.connect(self._listeners[1])
        inputs = self._app.topic(
            *worker.inputs,
            key_type=bytes,
            value_type=bytes,
            key_serializer="raw",
            value_serializer="raw",
        )
        self._app.agent(inputs, name="intake")(self._consume)

    async def join(self) -> None:
        """Start Faust inside the running event loop."""
        await self._app.start()

    async def check(self) -> None:
        """See `Group`. Faust asks aiokafka for errors only once it has a partition to read."""
        thread = cast(driver.Consumer, self._app.consumer)._thread  # noqa: SLF001
        consumer = thread._consumer  # noqa: SLF001
        if consumer is not None:  # None until `join` has come that far
            await thread.call_thread(_check_errors, consumer)

    async def leave(self) -> None:
        """Commit and stop. A static member does not leave the group: it is expected back."""
        if self._app.started and not self._app.crashed:
            await self._app.consumer.commit()
        await self._app.stop()

    def acknowledge(self, delivery: Delivery) -> None:
        """Let Faust commit it, once all before it are acknowledged."""
        message = self._in_flight.pop(_position(delivery), None)
        # None after a rebalance: the record belongs to the next owner of its partition.
        if message is not None:
            message.ack(self._app.consumer)

    def safe(self, partition: TP) -> int | None:
        """Offset up to which everything is acknowledged; None before the first record."""
        waiting = (at for name, number, at in self._in_flight if (name, number) == partition)
        return min(waiting, default=self._read.get(partition))

    def lag(self) -> dict[str, int]:
        """Records by topic between what is acknowledged without a gap and the end."""
        behind = dict.fromkeys(self._worker.inputs, 0)
        for partition in self._read:
            end = self._app.consumer.highwater(partition) or 0
            behind[partition.topic] += max(0, end - (self.safe(partition) or 0))
        return behind

    async def _consume(self, stream: StreamT[bytes]) -> None:
        # An event is acknowledged after everything it caused is, not when the next one arrives.
        async for event in cast(Stream[bytes], stream).noack().events():
            delivery = _delivery(event)
            event.message.value = None
            self._in_flight[_position(delivery)] = event.message
            self._read[event.message.tp] = delivery.offset + 1
            await self._worker.dispatch(delivery, self._worker.term)

    async def _assigned(self, _: Any, assigned: set[TP], **__: Any) -> None:
        try:
            await self._worker.assigned({partition.partition for partition in assigned})
        # Faust logs an error and keeps the process alive; ours has to end and be restarted.
        except Exception as error:  # noqa: BLE001  it ends the process, which logs it
            log.warning("failed to load the states of the assigned partitions: %r", error)
            self._worker.fail(error)

    async def _revoked(self, _: Any, revoked: set[TP], **__: Any) -> None:  # noqa: ARG002
        await self._worker.revoked()
        self._in_flight.clear()
        self._read.clear()


def make_app(worker: Worker[S], safe: Callable[[TP], int | None]) -> faust.App:
    """The Faust app of a service; it opens no port and has no tables.

    It commits offsets up to `safe` of their partition.
    """
    settings = worker.settings
    return _app_type(worker, safe)(
        app_id(worker.name),
        broker=[f"kafka://{server.strip()}" for server in settings.kafka_bootstrap.split(",")],
        broker_credentials=_credentials(settings),
        broker_client_id=f"hirl-{worker.name}-{settings.instance}",
        broker_session_timeout=settings.session_timeout_seconds,
        broker_heartbeat_interval=settings.heartbeat_seconds,
        broker_rebalance_timeout=settings.session_timeout_seconds,
        broker_commit_interval=settings.commit_seconds,
        consumer_group_instance_id=_instance(worker),
        consumer_auto_offset_reset="earliest",
        # Faust would wait for its agent, which hands events on. `Worker.revoked` waits for the
        # engine, where they are handled.
        stream_wait_empty=False,
        producer_acks=-1,
        # `hirl topics apply` creates topics; services have no right to.
        topic_allow_declare=False,
        topic_disable_leader=True,
        # Probes and metrics are served by `telemetry.py`.
        web_enabled=False,
        store="memory://",
        # Faust creates a folder for tables even without any, and the root may be read-only.
        datadir=tempfile.gettempdir(),
    )


async def read_again(consumer: AIOKafkaConsumer) -> Mapping[TP, int | None]:
    """Go back to what is committed, or to the oldest record where nothing is.

    Faust drops what it has fetched while a rebalance is under way, and seeks to the committed
    offsets after it. aiokafka leaves a partition without one where it is, behind what was dropped:
    the first records of a partition would be lost.
    """
    committed = cast(dict[TP, int | None], await consumer.seek_to_committed())
    if unread := [partition for partition, offset in committed.items() if not offset]:
        await consumer.seek_to_beginning(*unread)
    return committed


async def _check_errors(consumer: AIOKafkaConsumer) -> None:
    consumer._coordinator.check_errors()  # noqa: SLF001


class _NoWeb(BootStrategy):
    enable_web = False


class _ConsumerThread(driver.AIOKafkaConsumerThread):
    logger = _QUIET

    def verify_event_path(self, now: float, tp: TP) -> None:
        """Skip Faust's check for stuck partitions: the liveness probe watches the polling.

        It ends the process if a partition has no position yet, as right after `read_again`.
        """


class _NoTables(TableManager):
    logger = _QUIET

    async def on_start(self) -> None:
        # Skip the second that Faust waits for tables to be declared: there are none.
        await self._update_channels()
        await self.recovery.start()


def _app_type(worker: Worker[S], safe: Callable[[TP], int | None]) -> type[faust.App]:
    """Faust is configured by subclasses where other libraries take arguments."""

    class Thread(_ConsumerThread):
        def _create_worker_consumer(self, transport: driver.Transport) -> AIOKafkaConsumer:
            consumer = super()._create_worker_consumer(transport)
            # Faust hard-wires round robin, which would separate the topics of a domain.
            strategy = assignors(by_domain=worker.by_domain)
            consumer._partition_assignment_strategy = strategy  # noqa: SLF001
            # Faust knows it only together with its own transactions.
            consumer._isolation_level = READ_COMMITTED  # noqa: SLF001
            return consumer

        async def seek_to_committed(self) -> Mapping[TP, int]:
            return cast(
                Mapping[TP, int], await self.call_thread(read_again, self._ensure_consumer())
            )

    class Consumer(driver.Consumer):
        logger = _QUIET

        def _new_consumer_thread(self) -> Thread:
            return Thread(self, loop=self.loop, beacon=self.beacon)

        async def _wait_next_records(self, timeout: float) -> Any:  # noqa: ASYNC109
            # The liveness probe fails when the bus is no longer polled.
            worker.telemetry.health.polled()
            return await super()._wait_next_records(timeout)

        # The marker of a transaction takes an offset, so almost every record follows a gap. Faust
        # counts the record after a gap as acknowledged before it is, and after a gap behind the
        # first record of a topic it commits nothing any more: use our own count.

        async def _add_gap(self, tp: TP, offset_from: int, offset_to: int) -> None:
            pass

        def _new_offset(self, tp: TP) -> int | None:
            self._acked[tp].clear()
            self._acked_index[tp].clear()
            return safe(tp)

    class Transport(driver.Transport):
        pass

    Transport.Consumer = Consumer

    class App(faust.App):
        BootStrategy = _NoWeb
        logger = _QUIET

        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, TableManager=_NoTables, **options)

        def _new_transport(self) -> Transport:
            return Transport(self.conf.broker_consumer, self)

        def _crash(self, reason: BaseException) -> None:
            # Faust logs the error, and the process would stay alive without consuming.
            worker.fail(reason)
            super()._crash(reason)

    return App


def _instance(worker: Worker[S]) -> str | None:
    instance = worker.settings.instance
    return f"{worker.name}-{instance}" if instance else None


def _credentials(settings: KitSettings) -> CredentialsT | None:
    if settings.kafka_security.startswith("SASL"):
        return faust.SASLCredentials(
            username=settings.kafka_user,
            password=settings.kafka_password,
            mechanism=settings.kafka_mechanism,
            ssl_context=tls(settings),
        )
    context = tls(settings)
    return faust.SSLCredentials(context) if context else None


def _delivery(event: EventT[Any]) -> Delivery:
    message = event.message
    return Delivery(
        message.topic,
        message.partition,
        message.offset,
        message.key or b"",
        message.value,
        cast(list[tuple[str, bytes]], message.headers or []),
        message.timestamp,
    )


def _position(delivery: Delivery) -> tuple[str, int, int]:
    return delivery.topic, delivery.partition, delivery.offset
