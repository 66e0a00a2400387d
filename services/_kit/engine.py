"""Drives a handler: the part of every adapter that does not depend on the bus.

Events of a key are handled one at a time, in the order of delivery; keys do not wait for each
other. `steps.py` handles the one whose turn it is.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Final

from schemas.state_reset import StateReset
from schemas.topics import BY_NAME
from services._kit.clock import Clock
from services._kit.errors import Refused, Stopped
from services._kit.failures import POISON, REFERENCE_PARTITION
from services._kit.handler import CLUSTER, S, Service, Step
from services._kit.records import (
    TOO_MANY,
    BusWriter,
    Delivery,
    EventReader,
    PartitionOf,
    Received,
    Rejection,
    any_partition,
    kind_of,
)
from services._kit.resets import RESET, Resets, reason_of
from services._kit.state_records import StateRecord
from services._kit.steps import GivenUp, Steps
from services._kit.telemetry import Telemetry

log = logging.getLogger(__name__)

WAKE: Final = "wake"
_MOST_KEYS: Final = 2000
"""States of one process: far more domains than a cluster has."""


class Engine(Steps[S]):
    """A handler at work, with the states of the keys in this process."""

    def __init__(
        self, service: Service[S], writer: BusWriter, clock: Clock, telemetry: Telemetry
    ) -> None:
        super().__init__(service, writer, clock, telemetry)
        self._reference = EventReader()
        self._partition_of: PartitionOf = any_partition
        self._resets = Resets(service.handler.name, writer)
        self._clear()
        self._failed = False
        self.term = 0
        """Rises when states are released: records fetched in an earlier term are dropped."""
        self._active = 0
        self._idle = asyncio.Event()

    # What the bus delivers.

    def expect_partitions(self, partition_of: PartitionOf) -> None:
        """Refuse inputs in other partitions from now on; before the first `take`."""
        self._partition_of = partition_of
        self._reader = EventReader(partition_of, self._given_up.append)

    async def take(self, delivery: Delivery) -> None:
        """Handle a record of an input and acknowledge what is done."""
        term, began = self.term, perf_counter()
        # Clocks of two machines differ: a record may seem to come from the future.
        self._telemetry.event_age.labels(delivery.topic).observe(
            max(0.0, self._clock.date() - delivery.timestamp)
        )
        # Decoding needs no turn: a malformed record has no key to wait for.
        try:
            received = self._reader.read(delivery)
        except Exception as error:  # noqa: BLE001  no content may stop the service
            await self._publisher.reject(Rejection(delivery, error, kind_of(error)))
            self._writer.acknowledge([delivery])
            return
        if received is None:
            # Not acknowledged: a restart needs all parts again to assemble the event.
            self._publisher.count(delivery, "part")
            self._publisher.count_dropped(delivery, self._reader.take_dropped())
            await self._reject_given_up()
            return
        deliveries = received.deliveries
        try:
            key = self._key_of(received)
        except Refused as error:
            await self._publisher.reject(Rejection(delivery, error, error.kind))
            self._writer.acknowledge(deliveries)
            return
        except Exception as error:  # noqa: BLE001  logged there
            await self._record_failed(delivery, error)
            self._writer.acknowledge(deliveries)
            return
        # Nothing is awaited before this lock, and asyncio's locks are first come, first served:
        # events of a key are handled in the order in which they were delivered.
        async with self._turn(key):
            if term != self.term:
                return  # the partition was revoked; its new owner gets the record
            self._store.set_partition(key, delivery.partition)
            # A new event may be what a dropped state needs: wake it again from now on.
            self._resting.discard(key)
            before = self._store.last_saved(key)
            settled = await self._handle(received, key)
            self._settle(key, before, settled, deliveries)
        self._telemetry.handling_seconds.labels(delivery.topic).observe(perf_counter() - began)

    async def _reject_given_up(self) -> None:
        """Dead-letter records of parts that have waited too long among too many others."""
        records = self._given_up[:]
        self._given_up.clear()
        await self._publisher.reject(*(Rejection(one, TOO_MANY, TOO_MANY.kind) for one in records))
        self._writer.acknowledge(records)

    async def take_reference(self, delivery: Delivery) -> None:
        """Take in a record of a reference topic.

        After the last one of a batch, call `finish_references` and `wake(early=True)`.
        """
        try:
            received = self._reference.read(delivery)
        except Exception as error:  # noqa: BLE001  no content may stop the service
            await self._policy.reject_reference(delivery, error, kind_of(error))
            return
        if received is None:
            self._publisher.count_dropped(delivery, self._reference.take_dropped())
            return
        try:
            self._learn(received)
        except Refused as error:
            await self._policy.reject_reference(delivery, error, error.kind)
        except Exception as error:
            log.exception("%s failed to learn %s", self.handler.name, delivery.position)
            if await self._failures.failed(delivery.position, REFERENCE_PARTITION):
                raise
            # The count stays: the next start reads the record again.
            await self._policy.reject_reference(delivery, error, POISON)
        else:
            await self._failures.forget(delivery.position, REFERENCE_PARTITION)
            self._publisher.count(delivery, "learned")

    async def finish_references(self) -> None:
        """Publish the dead letters of reference records; call it after each batch."""
        await self._policy.publish_rejected()

    def _learn(self, received: Received) -> None:
        kind = BY_NAME[received.last.topic].event
        if isinstance(received.event, StateReset):
            self._resets.learn(received.event)
        elif received.event is None:
            # The tombstone of an order removes nothing: it may be carried out already.
            if kind is not StateReset:
                self.handler.forget(kind, received.last.key.decode(), self._clock)
        else:
            self.handler.learn_recorded(received.event, received.last.timestamp, self._clock)

    def restore_failures(self, key: str, data: bytes | None) -> bool:
        """Take in a record of the state topic before `take_reference`; False if it is a state."""
        return self._failures.restore(key, data) or self._policy.rejected.restore(key, data)

    def restore(self, key: str, record: StateRecord | None, partition: int | None) -> None:
        """Take in a record of the state topic, in order; None is a tombstone."""
        value = None if record is None else record.value
        if not self.restore_failures(key, value) and not self._resets.restore(key, value):
            self._store.restore(key, record, partition)

    async def begin(self) -> None:
        """Load the states after all their records were restored."""
        self._store.join()
        for order in self._resets.pending(self._store.saved_keys):
            await self._reset(order)
        for key in self._store.saved_keys:
            try:
                self._store.load(key)
            except Exception as error:  # noqa: BLE001  logged there
                await self._policy.state_failed(key, "load", error)
                await self._policy.drop_state(key, error)
        if self.handler.scope == CLUSTER:  # its state exists even if it was never saved
            await self._begin_cluster()

    async def _begin_cluster(self) -> None:
        try:
            self._store.get_or_start(CLUSTER)
        except Exception as error:  # noqa: BLE001  logged there
            await self._policy.state_failed(CLUSTER, "start", error)
            await self._policy.dead_letter_state(CLUSTER, error)

    async def release(self) -> None:
        """Finish what is being handled, drop what waits for its turn, and drop all states."""
        self.term += 1
        # Turns that have begun are finished: their outputs may be half published.
        while self._active:
            self._idle.clear()
            await self._idle.wait()
        self._clear()

    # Orders.

    async def _carry_out_resets(self) -> None:
        term = self.term
        keys = {*self._store.saved_keys, *dict(self._store.items())}
        for order in self._resets.pending(keys):
            async with self._turn(order.key):
                # Not again, if another early wake was first.
                if term == self.term and self._resets.pending([order.key]):
                    await self._reset(order)

    async def _reset(self, order: StateReset) -> None:
        """Drop a state as ordered; a crash in between drops it again."""
        partition = self._store.partition(order.key)
        await self._policy.drop_state(order.key, reason_of(order), RESET)
        await self._resets.carried_out(order, partition)

    # Time.

    def next_due(self) -> float | None:
        """When, by `Clock.now`, the next state that is not about to be woken is due."""
        dues = map(self._due, self._idle_states().values())
        return min((due for due in dues if due is not None), default=None)

    async def wake(self, *, early: bool = False) -> int:
        """Wake the states that are due or, early, all of them; returns how many did something.

        Early means after new reference data: a state may wait for that instead of for time.
        States that already wait for their turn to be woken are left out: they will see the
        newest reference data then.
        """
        if early:
            await self._carry_out_resets()
        now = self._clock.now()
        idle = self._idle_states()
        # Sorted, so that the memory bus is deterministic.
        chosen = [key for key in sorted(idle) if early or self._is_due(idle[key], now)]
        self._waking.update(chosen)
        return sum(await asyncio.gather(*(self._wake(key) for key in chosen)))

    async def _wake(self, key: str) -> bool:
        term = self.term
        async with self._turn(key):
            if term != self.term:
                return False
            self._waking.discard(key)
            state, before = self._store.get(key), self._store.last_saved(key)
            if state is None:
                return False  # dropped, and not started again
            try:
                prepared = await self._decide(key, WAKE, lambda: self._woken(state))
                settled = await self._carry_out(key, prepared)
            except GivenUp:
                self._resting.add(key)
                return True
            self._settle(key, before, settled)
            step = prepared.step
            return prepared.data is not None or bool(step.events or step.writes or step.read)

    def _idle_states(self) -> dict[str, S]:
        """States that can be woken, by key."""
        busy = self._waking | self._resting
        return {key: state for key, state in self._store.items() if key not in busy}

    def _is_due(self, state: S, now: float) -> bool:
        due = self._due(state)
        return due is not None and due <= now

    def _due(self, state: S) -> float | None:
        try:
            return self.handler.due(state)
        except Exception:  # noqa: BLE001  called again in `_woken`, where the failure is counted
            return 0.0

    def _woken(self, state: S) -> Step[S]:
        self.handler.due(state)
        return self.handler.wake(state, self._clock)

    # Helpers.

    async def _record_failed(self, delivery: Delivery, error: Exception) -> None:
        """A record without a key fails outside of any turn."""
        try:
            await self._policy.record_failed(delivery, error)
        except BaseException:
            self._failed = True  # nothing after it may be handled
            raise

    @asynccontextmanager
    async def _turn(self, key: str) -> AsyncIterator[None]:
        """One at a time per key. After a failure raises Stopped: order would be lost."""
        async with self._locks[key]:
            if self._failed:
                raise Stopped
            self._active += 1
            try:
                yield
            except BaseException:
                self._failed = True
                raise
            finally:
                self._active -= 1
                self._idle.set()

    def _key_of(self, received: Received | None) -> str:
        if received is None:
            return ""
        if received.event is None:
            return received.last.key.decode(errors="replace")
        key = self.handler.key(received.event)
        if len(self._store.items()) >= _MOST_KEYS:
            self._check_known(key)
        return key

    def _check_known(self, key: str) -> None:
        """Refuse a new key beyond the most: names cost a forger nothing."""
        if key not in self._store and key not in self._store.saved_keys:
            raise Refused(
                "too-many-keys",
                f"expected at most {_MOST_KEYS:,} keys in a process, got `{key:.80}` beyond them: "
                "check who writes it, or divide the keys among more processes",
            )

    def _clear(self) -> None:
        self._store.clear()
        # Events that still wait for one of the old locks see a newer term and are dropped.
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._waking: set[str] = set()  # to be woken in their next turn
        # Keys whose state was dropped in `wake`. A state that fails each time would be woken and
        # dropped in a loop, so the key rests until its next event.
        self._resting: set[str] = set()
        self._given_up: list[Delivery] = []  # records of parts that wait no longer
        self._reader = EventReader(self._partition_of, self._given_up.append)
        self._failures.clear()
        self._resets.clear()
