"""What happens when a record or a state makes the handler fail again and again.

A failure may be temporary (memory, a bug that is being fixed), so the service stops and its
supervisor restarts it. Failures are counted among the service's states, where the next process
finds them. The third time, the service goes on without the culprit, and dead letters name what
is lost:

- a record that fails in `key`, `handle` or `learn` is dead-lettered;
- what fails in `start`, `load`, `due`, `wake` or `written`, or cannot be saved or published, is
  blamed on the key: from the third time on its state is dropped, and the key starts over.
"""

import logging
from collections import defaultdict
from collections.abc import Iterable
from math import inf
from typing import Final, Generic, NamedTuple

from schemas.topics import state_topic
from services._kit.clock import Clock
from services._kit.handler import Handler, S
from services._kit.records import BusWriter, Delivery, Publisher, Rejection
from services._kit.state_records import StateRecord
from services._kit.state_store import StateStore

log = logging.getLogger(__name__)

POISON: Final = "poison"
"""Error of a dead letter: it made the handler fail each time."""
UNSETTLED: Final = "unsettled"
"""Error of a dead letter: nothing was wrong with the record, but it waited in a dropped state."""
REFERENCE_PARTITION: Final = 0
"""Partition of the state topic for failures to learn and rejected reference data: reference data is
read before the process knows its partitions."""
MOST_FAILURES: Final = 3
STATE_MEMORY_S: Final = 3600.0
"""Seconds after which a failure of a state no longer counts. A handled record is done with, but a
state lives on, and bugs months apart must not add up to its loss. Success does not reset the
count: after each start, a state may well take some steps before it fails again."""
_SAVED_AGAIN_S: Final = 60.0
"""A count at its limit is saved again after this long: a restart must not take a key that fails
all the time for one that failed long ago, and a broken key must not write a record per event."""
_PREFIX: Final = "!failures/"
"""No key of a state begins like this: names begin with a letter or digit."""
_REJECTED_PREFIX: Final = "!rejected/"
_MOST_REJECTED: Final = 1000
"""Rejected records of a reference topic that are remembered one by one: the newest ones."""
_MOST_WAITING: Final = 200
"""Dead letters of reference data that are published together."""
_MOST_WAITING_BYTES: Final = 1_000_000


class Failures(NamedTuple):
    """How often one culprit failed, and when it last did."""

    times: int = 0
    latest: float = 0.0
    """Wall time of the last failure, in seconds since 1970."""


class FailureCounts:
    """How often each culprit failed: a record by its position, a state by its topic and key."""

    def __init__(self, writer: BusWriter, clock: Clock) -> None:
        self._writer = writer
        self._clock = clock
        self._failures: dict[str, Failures] = {}
        self._saved_at: dict[str, float] = {}
        """Wall time of the failure that was saved last, by culprit."""

    def restore(self, key: str, data: bytes | None) -> bool:
        """Take in a record of the state topic; False if it is not a count."""
        if not key.startswith(_PREFIX):
            return False
        culprit = key.removeprefix(_PREFIX)
        if data is None:
            self._drop(culprit)
        else:
            times, _, latest = data.partition(b" ")
            self._failures[culprit] = Failures(int(times), float(latest))
            self._saved_at[culprit] = float(latest)
        return True

    async def failed(self, culprit: str, partition: int | None, memory_s: float = inf) -> bool:
        """Count a failure. True: stop the service; False: go on without the culprit."""
        before = self._failures.get(culprit, Failures())
        now = self._clock.date()
        remembered = before.times if now - before.latest <= memory_s else 0
        times = min(remembered + 1, MOST_FAILURES)
        self._failures[culprit] = Failures(times, now)
        if remembered < MOST_FAILURES or now - self._saved_at.get(culprit, -inf) >= _SAVED_AGAIN_S:
            count = StateRecord(b"%d %.3f" % (times, now))
            await self._writer.save(_PREFIX + culprit, count, partition)
            self._saved_at[culprit] = now
        return times < MOST_FAILURES

    async def forget(self, culprit: str, partition: int | None) -> None:
        """The culprit succeeded in the end, or is gone."""
        if self._drop(culprit):
            await self._writer.save(_PREFIX + culprit, None, partition)

    def clear(self) -> None:
        """Drop everything; counts are restored together with the states."""
        self._failures.clear()
        self._saved_at.clear()

    def _drop(self, culprit: str) -> Failures | None:
        self._saved_at.pop(culprit, None)
        return self._failures.pop(culprit, None)


class RejectedReferences:
    """Records of reference topics whose dead letter is published.

    Every start reads these topics whole: without this, it would publish the same letters again.
    Unlike the counts, they stay when partitions are revoked: reference data is read only once.
    """

    def __init__(self, writer: BusWriter) -> None:
        self._writer = writer
        self._offsets: defaultdict[str, set[int]] = defaultdict(set)
        """By topic and partition."""
        self._up_to: defaultdict[str, int] = defaultdict(lambda: -1)
        """The newest offset that is not remembered any more: older rejections were published."""

    def restore(self, key: str, data: bytes | None) -> bool:
        """Take in a record of the state topic; False if it is something else."""
        if not key.startswith(_REJECTED_PREFIX):
            return False
        place, numbers = key.removeprefix(_REJECTED_PREFIX), set(map(int, (data or b"").split()))
        # Another process of the service may have rejected others: both were published.
        self._offsets[place] |= {number for number in numbers if number >= 0}
        self._up_to[place] = max(self._up_to[place], *(-1 - number for number in numbers), -1)
        return True

    def __contains__(self, delivery: Delivery) -> bool:
        place, offset = _place(delivery), delivery.offset
        return offset <= self._up_to[place] or offset in self._offsets[place]

    async def add(self, deliveries: Iterable[Delivery]) -> None:
        """Remember records after their dead letters were published."""
        added: defaultdict[str, set[int]] = defaultdict(set)
        for delivery in deliveries:
            added[_place(delivery)].add(delivery.offset)
        for place, offsets in added.items():
            every = sorted(self._offsets[place] | offsets)
            forgotten, newest = every[:-_MOST_REJECTED], every[-_MOST_REJECTED:]
            self._offsets[place] = set(newest)
            self._up_to[place] = max(self._up_to[place], *forgotten, -1)
            # Offsets are never negative, so a negative number is that of `_up_to`.
            saved = [-1 - self._up_to[place]] * (self._up_to[place] >= 0) + newest
            record = StateRecord(b" ".join(b"%d" % number for number in saved))
            await self._writer.save(_REJECTED_PREFIX + place, record, REFERENCE_PARTITION)


def _place(delivery: Delivery) -> str:
    return f"{delivery.topic}/{delivery.partition}"


class FailurePolicy(Generic[S]):
    """Stops the service, or gives up the culprit."""

    def __init__(
        self,
        handler: Handler[S],
        store: StateStore[S],
        writer: BusWriter,
        publisher: Publisher,
        clock: Clock,
    ) -> None:
        self._handler, self._store = handler, store
        self._writer, self._publisher, self._clock = writer, publisher, clock
        self.counts = FailureCounts(writer, clock)
        self.rejected = RejectedReferences(writer)
        self._references: list[Rejection] = []
        """Rejected reference data whose dead letters are not published yet."""

    async def record_failed(
        self, delivery: Delivery, error: Exception, key: str | None = None
    ) -> None:
        """Raise the error or, the last time, dead-letter the record.

        With a key, its state goes back to what was saved last: what only waits in memory may be
        the cause.
        """
        position = delivery.position
        log.error("%s failed to handle %s", self._handler.name, position, exc_info=error)
        if await self.counts.failed(position, delivery.partition):
            raise error
        await self._publisher.reject(Rejection(delivery, error, POISON))
        if key is not None:
            await self._reject_unsettled(key, error)
            self._resume(key)
        # After the dead letters: a crash before them counts the record again and loses nothing.
        await self.counts.forget(position, delivery.partition)

    async def reject_reference(self, delivery: Delivery, error: Exception, kind: str) -> None:
        """Have the dead letter published once, although every start reads the record again.

        Only `publish_rejected` publishes for sure: heartbeats must not wait behind a flood of bad
        records for the acknowledgement of each.
        """
        if delivery in self.rejected:
            self._publisher.count_rejected(delivery, error, kind)
            return
        self._references.append(Rejection(delivery, error, kind))
        size = sum(len(one.delivery.value or b"") for one in self._references)
        if len(self._references) >= _MOST_WAITING or size > _MOST_WAITING_BYTES:
            await self.publish_rejected()

    async def publish_rejected(self) -> None:
        """Publish the dead letters of reference data that wait, and remember them."""
        waiting, self._references = self._references, []
        if waiting:
            await self._publisher.reject(*waiting)
            await self.rejected.add(one.delivery for one in waiting)

    async def state_failed(self, key: str, cause: str, error: Exception) -> None:
        """Raise the error or, from the third time on, return.

        The count stays then: the next events of the key may fail in the same way, and the service
        must not stop for each of them.
        """
        log.error("%s failed in `%s` of `%s`", self._handler.name, cause, key, exc_info=error)
        culprit, partition = f"{state_topic(self._handler.name)}/{key}", self._store.partition(key)
        if await self.counts.failed(culprit, partition, STATE_MEMORY_S):
            raise error

    async def drop_state(self, key: str, error: Exception, kind: str = POISON) -> None:
        """Start a key over. Inputs that wait in its state go too: they may be the cause."""
        log.error("%s drops the state of `%s` and starts over", self._handler.name, key)
        # Dead letter before tombstone: after a crash in between, the state fails and is dropped
        # again, so it is never lost without a dead letter.
        await self.dead_letter_state(key, error, kind)
        data, records = self._lost_records(key)
        await self._writer.commit((), records, self._store.partition(key))
        self._store.committed(key, records)
        self._store.set_saved(key, data)
        await self._reject_unsettled(key, error)
        self._resume(key)

    async def dead_letter_state(self, key: str, error: Exception, kind: str = POISON) -> None:
        """Publish the dead letter of a state, with what was saved of it."""
        topic, saved = state_topic(self._handler.name), self._store.last_saved(key)
        state = Delivery(topic, -1, -1, key.encode(), saved, (), self._clock.date())
        await self._publisher.reject(Rejection(state, error, kind))

    async def _reject_unsettled(self, key: str, error: Exception) -> None:
        """Dead-letter the inputs that are lost with a state."""
        lost = self._store.take_unsettled(key)
        await self._publisher.reject(*(Rejection(one, error, UNSETTLED) for one in lost))
        self._writer.acknowledge(lost)

    def _lost_records(self, key: str) -> tuple[bytes | None, dict[str, StateRecord | None]]:
        """What is saved in place of a dropped state, if anything, and its records."""
        try:
            lost = self._handler.lost(key)
            if lost is not None:
                data = self._handler.save(lost)
                return data, self._store.records(key, data)
        except Exception:
            # The handler failed before, or it would not be here: dropping must succeed anyway.
            log.exception("%s cannot save a lost state of `%s`", self._handler.name, key)
        return None, self._store.records(key, None)

    def _resume(self, key: str) -> None:
        try:
            self._store.resume(key)
        except Exception:
            # The next event of the key fails in the same way, and is counted.
            log.exception("%s cannot start `%s` again", self._handler.name, key)
