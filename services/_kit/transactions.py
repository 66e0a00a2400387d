"""Fenced writes to Kafka: one transactional producer per owned partition.

A process that was paused or cut off does not know that another one took over its partitions. The
new owner starts a producer with the same transactional id before it reads any state; from then on
the broker refuses everything the earlier producer sends, and aborts what it left open. Readers
that read committed records only never see such a write.
"""

import asyncio
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final, NamedTuple

from aiokafka import AIOKafkaProducer
from aiokafka.errors import (
    InvalidProducerIdMapping,
    InvalidTxnState,
    KafkaError,
    ProducerFenced,
    TransactionalIdAuthorizationFailed,
)

from services._kit.errors import Unprepared

READ_COMMITTED: Final = "read_committed"
"""Isolation of every consumer: a record counts once its transaction is committed."""
CLUSTER_LANE: Final = -1
"""Stands for all partitions of a service whose only state is the cluster's."""
_TIMEOUT_MS: Final = 10_000
"""A transaction takes milliseconds. Until one that was left open is aborted, by the next owner or
after this time by the broker, no consumer reads past it."""
_START_S: Final = 30.0
"""A broker that cannot create its transaction log never names a coordinator."""
_OUSTED: Final = (ProducerFenced, InvalidProducerIdMapping, InvalidTxnState)


class Outgoing(NamedTuple):
    """A record to send."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    partition: int | None = None


class Fenced(Unprepared):
    """Stop: another process owns the partition, and nothing of this step became visible."""

    def __init__(self, transactional_id: str) -> None:
        super().__init__(
            f"fenced: another process took over {transactional_id}, or this one was paused for "
            "longer than a transaction may take; it restarts with the newer state"
        )


class NoTransactions(Unprepared):
    """The broker does not let this service write in transactions."""


class FencedProducer:
    """Commits the steps of one partition, one at a time. After a failure it is of no more use."""

    def __init__(self, transactional_id: str, options: dict[str, Any]) -> None:
        self._id = transactional_id
        self._producer = AIOKafkaProducer(
            **options, transactional_id=transactional_id, transaction_timeout_ms=_TIMEOUT_MS
        )
        self._turn = asyncio.Lock()
        self._failed = False

    async def start(self) -> None:
        """Fence every earlier producer of this id; its open transaction is aborted on return."""
        try:
            async with asyncio.timeout(_START_S):
                await self._producer.start()
        except TransactionalIdAuthorizationFailed as error:
            raise NoTransactions(
                f"no right to use the transactional id {self._id}: run `hirl topics apply --acls`"
            ) from error
        except TimeoutError as error:
            raise NoTransactions(
                f"no transaction coordinator for {self._id} within {_START_S:.0f} s: do the "
                "brokers run, is transaction.state.log.replication.factor above their number?"
            ) from error

    async def stop(self) -> None:
        """Disconnect."""
        await self._producer.stop()

    async def commit(self, records: Iterable[Outgoing]) -> None:
        """Write all records or none; return when the outcome is final."""
        async with self._turn:
            if self._failed:  # a key of the same partition was waiting for its turn
                raise KafkaError(f"{self._id}: an earlier transaction failed")
            try:
                await self._commit(records)
            except BaseException as error:
                # Not aborted here: brokers that are gone would have to be waited for. The next
                # owner's start aborts it.
                self._failed = True
                # aiokafka wraps an answer that it does not expect.
                if isinstance(error, _OUSTED) or isinstance(error.__cause__, _OUSTED):
                    asyncio.get_running_loop().set_exception_handler(_report_unless_fenced)
                    raise Fenced(self._id) from error
                raise

    async def _commit(self, records: Iterable[Outgoing]) -> None:
        await self._producer.begin_transaction()
        sent = [
            await self._producer.send(
                record.topic,
                record.value,
                key=record.key,
                partition=record.partition,
                headers=list(record.headers),
            )
            for record in records
        ]
        # aiokafka commits even if a send has failed.
        for acknowledged in sent:
            await acknowledged
        await self._producer.commit_transaction()


def _report_unless_fenced(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Aiokafka leaves several futures with the error behind; one line about it is enough."""
    if not isinstance(context.get("exception"), _OUSTED):
        loop.default_exception_handler(context)


class Lanes:
    """The fenced producers of the partitions that this process owns."""

    def __init__(self, service: str, options: dict[str, Any], *, by_domain: bool) -> None:
        self._service = service
        self._options = options
        self._by_domain = by_domain
        self._producers: dict[int, FencedProducer] = {}

    async def own(self, partitions: Collection[int]) -> None:
        """Take over partitions: from here on no earlier owner can write for them."""
        await self.disown()
        numbers = partitions if self._by_domain else [CLUSTER_LANE]
        self._producers = {
            number: FencedProducer(transactional_id(self._service, number), self._options)
            for number in numbers
        }
        await asyncio.gather(*(producer.start() for producer in self._producers.values()))

    async def disown(self) -> None:
        """Close the producers; nothing may be in flight."""
        producers, self._producers = self._producers, {}
        stopped = [producer.stop() for producer in producers.values()]
        await asyncio.gather(*stopped, return_exceptions=True)

    async def commit(self, partition: int | None, records: Iterable[Outgoing]) -> None:
        """Write all records or none, as the owner of the partition."""
        number = partition if self._by_domain and partition is not None else CLUSTER_LANE
        await self._producers[number].commit(records)


def transactional_id(service: str, partition: int) -> str:
    """The id under which the owner of a partition writes."""
    return f"hirl-{service}-{'cluster' if partition == CLUSTER_LANE else partition}"
