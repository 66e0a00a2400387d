"""Drives a handler: the part of every adapter that does not know its bus.

One event at a time per key, in the order in which they were taken; keys do not wait for each other.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Any, Final, Generic, NamedTuple

from schemas.codec import Malformed, Record
from schemas.fields import Event
from schemas.topics import BY_NAME
from services._kit.clock import Clock
from services._kit.consume import Arrival, Delivery, Intake
from services._kit.errors import Refused
from services._kit.giving_up import POISON, GivingUp
from services._kit.handler import CLUSTER, S, Service, Step
from services._kit.keep import Keep
from services._kit.logs import tracing
from services._kit.outbox import Outbox, Outlet
from services._kit.parcel import Parcel, parcel_of
from services._kit.state_codec import saved_alike
from services._kit.telemetry import Telemetry

log = logging.getLogger(__name__)

WAKE: Final = "wake"
WRITTEN: Final = "written"
FAILURES_OF_REFERENCE: Final = 0
"""Partition of the state topic where failures to learn are counted: reference data is read before
it is known which partitions this process will have."""


class Stopped(Exception):  # noqa: N818  not an error of this event
    """An earlier event failed, so nothing after it may be handled."""


class _Over(Exception):  # noqa: N818  as above
    """Dead letters are all that comes of a record or of a step of a state."""


class _Ready(NamedTuple, Generic[S]):
    """A step as it will be sent: whatever can fail without a bus has not."""

    step: Step[S]
    records: Sequence[Record]
    data: bytes | None = None
    """Of the state; None where nothing that is saved has changed."""
    parcel: Parcel | None = None
    """The same as they are sent."""


class Engine(Generic[S]):
    """A handler at work, with the states of the keys that are here."""

    def __init__(
        self, service: Service[S], outlet: Outlet, clock: Clock, telemetry: Telemetry
    ) -> None:
        self.handler = service.handler
        self._executor = service.executor
        self._outlet = outlet
        self._clock = clock
        self._telemetry = telemetry
        self._reference = Intake()
        self._keep = Keep(service.handler)
        self._outbox = Outbox(service, outlet, clock, telemetry)
        self._giving_up = GivingUp(service.handler, self._keep, outlet, self._outbox, clock)
        self._attempts = self._giving_up.attempts
        self._forget_all()
        self._failed = False
        self.term = 0
        """Rises when states are released: what was taken before is nobody's any more."""
        self._active = 0
        self._idle = asyncio.Event()

    # What the bus brings.

    async def take(self, delivery: Delivery) -> None:
        """Handle a record of an input, and acknowledge what is done with."""
        term, began = self.term, perf_counter()
        self._telemetry.event_age.labels(delivery.topic).observe(
            max(0.0, self._clock.date() - delivery.timestamp)
        )
        deliveries: Sequence[Delivery] = (delivery,)
        try:
            arrival = self._intake.read(delivery)
            deliveries = deliveries if arrival is None else arrival.deliveries
            key = self._key_of(arrival)
        except (Malformed, Refused) as error:
            await self._outbox.reject(delivery, error, error.kind)
            self._outlet.acknowledge(deliveries)
            return
        except Exception as error:  # noqa: BLE001  logged there
            await self._blame(delivery, error)
            self._outlet.acknowledge(deliveries)
            return
        if arrival is None:
            self._outbox.count(delivery, "part")
            return
        async with self._turn(key):
            if term != self.term:
                return  # the partition went elsewhere, and the record with it
            self._keep.locate(key, delivery.partition)
            self._resting.discard(key)
            before = self._keep.last_saved(key)
            settled = await self._answer(arrival, key)
            self._settle(key, before, settled, deliveries)
        self._telemetry.handling_seconds.labels(delivery.topic).observe(perf_counter() - began)

    async def study(self, delivery: Delivery) -> None:
        """Take in a record of a reference topic; `wake` everybody when there is no more."""
        try:
            arrival = self._reference.read(delivery)
            if arrival is None:
                return
            self._learn(arrival)
        except (Malformed, Refused) as error:
            await self._outbox.reject(delivery, error, error.kind)
        except Exception as error:
            log.exception("%s could not learn %s", self.handler.name, delivery.place)
            if await self._attempts.failed(delivery.place, FAILURES_OF_REFERENCE):
                raise
            # Its failures are not forgotten: the next start reads it again.
            await self._outbox.reject(delivery, error, POISON)
        else:
            await self._attempts.forget(delivery.place, FAILURES_OF_REFERENCE)
            self._outbox.count(delivery, "learned")

    def _learn(self, arrival: Arrival) -> None:
        if arrival.event is None:
            kind, key = BY_NAME[arrival.last.topic].event, arrival.last.key.decode()
            self.handler.forget(kind, key, self._clock)
        else:
            self.handler.learn(arrival.event, self._clock)

    def recall(self, key: str, data: bytes | None) -> None:
        """A record of the state topic, before `study`: of use if it counts failures to learn."""
        self._attempts.restore(key, data)

    def restore(self, key: str, data: bytes | None, partition: int | None) -> None:
        """A record of the state topic, in their order; None is a tombstone."""
        if self._attempts.restore(key, data):
            return
        self._keep.restore(key, data, partition)

    async def begin(self) -> None:
        """All records of states were restored: load the newest of each key."""
        for key in self._keep.saved:
            try:
                self._keep.load(key)
            except Exception as error:  # noqa: BLE001  logged there
                await self._giving_up.fault(key, "load", error)
                await self._giving_up.drop(key, error)
        if self.handler.scope == CLUSTER:  # it exists even if it was never saved
            await self._begin_cluster()

    async def _begin_cluster(self) -> None:
        try:
            self._keep.of(CLUSTER)
        except Exception as error:  # noqa: BLE001  logged there
            await self._giving_up.fault(CLUSTER, "start", error)
            await self._giving_up.mourn(CLUSTER, error)

    async def release(self) -> None:
        """Finish what is being handled, let go of what waits, and forget all states."""
        self.term += 1
        while self._active:
            self._idle.clear()
            await self._idle.wait()
        self._forget_all()

    # Time.

    def next_due(self) -> float | None:
        """When, by `Clock.now`, the next state wants to be woken that is not about to be."""
        dues = map(self._due, self._idle_states().values())
        return min((due for due in dues if due is not None), default=None)

    async def wake(self, *, early: bool = False) -> int:
        """Wake the states whose time has come or, early, all of them; how many did something.

        Early is after new reference data: a state may wait for it that waits for no time. One that
        waits for its turn to be woken is left out: it will see what is newest then.
        """
        now = self._clock.now()
        idle = self._idle_states()
        chosen = [key for key in sorted(idle) if early or self._is_due(idle[key], now)]
        self._called.update(chosen)
        return sum(await asyncio.gather(*(self._wake(key) for key in chosen)))

    async def _wake(self, key: str) -> bool:
        term = self.term
        async with self._turn(key):
            if term != self.term:
                return False
            self._called.discard(key)
            if key not in self._keep:
                return False  # it was dropped, and has not begun anew
            state, before = self._keep.of(key), self._keep.last_saved(key)
            try:
                ready = await self._decide(key, WAKE, lambda: self._woken(state))
                settled = await self._carry(key, ready)
            except _Over:
                self._resting.add(key)
                return True
            self._settle(key, before, settled)
            return ready.data is not None or bool(ready.step.events or ready.step.writes)

    def _idle_states(self) -> dict[str, S]:
        """By key: those that can be woken."""
        busy = self._called | self._resting
        return {key: state for key, state in self._keep.items() if key not in busy}

    def _is_due(self, state: S, now: float) -> bool:
        due = self._due(state)
        return due is not None and due <= now

    def _due(self, state: S) -> float | None:
        try:
            return self.handler.due(state)
        except Exception:  # noqa: BLE001  asked again in `_woken`, where it can be counted
            return 0.0

    def _woken(self, state: S) -> Step[S]:
        self.handler.due(state)
        return self.handler.wake(state, self._clock)

    # One event.

    async def _answer(self, arrival: Arrival, key: str) -> bool:
        """Handle an event; whether nothing of it would be lost in a restart."""
        delivery, event = arrival.last, arrival.event
        if event is None:  # a tombstone of a compacted input has nothing to say to a handler
            self._outbox.count(delivery, "tombstone")
            return True
        with tracing(event):
            try:
                ready = await self._asked(delivery, event, key)
            except _Over:
                return True
            try:
                settled = await self._carry(key, ready)
            except _Over:
                settled = True
            await self._attempts.forget(delivery.place, delivery.partition)
        self._outbox.count(delivery, "handled")
        return settled

    async def _asked(self, delivery: Delivery, event: Event, key: str) -> _Ready[S]:
        """What comes of a record. The key is to blame where it cannot begin or be kept."""
        try:
            state = self._keep.of(key)
        except Refused as error:
            await self._outbox.reject(delivery, error, error.kind)
            raise _Over from error
        except Exception as error:
            await self._giving_up.fault(key, "start", error)
            await self._outbox.reject(delivery, error, POISON)
            raise _Over from error
        step = await self._handled(delivery, event, key, state)
        try:
            return self._prepared(key, step)
        except Exception as error:
            await self._giving_up.fault(key, "save", error)
            await self._giving_up.drop(key, error)
            await self._outbox.reject(delivery, error, POISON)
            raise _Over from error

    async def _handled(self, delivery: Delivery, event: Event, key: str, state: S) -> Step[S]:
        try:
            with self._telemetry.decision_seconds.labels(delivery.topic).time():
                return self.handler.handle(event, state, self._clock)
        except Refused as error:
            await self._outbox.reject(delivery, error, error.kind)
            raise _Over from error
        except Exception as error:
            await self._giving_up.blame(delivery, error, key)
            raise _Over from error

    def _prepared(self, key: str, step: Step[S]) -> _Ready[S]:
        """Everything that can go wrong without a bus does so here, before anything is said."""
        records = self._outbox.encode(step.events)
        if saved_alike(step.state, self._keep.get(key)):
            return _Ready(step, records)
        data = self.handler.save(step.state)
        return _Ready(step, records, data, parcel_of(key, data))

    async def _carry(self, key: str, ready: _Ready[S]) -> bool:
        """Carry out a step, in the order that `handler.py` promises; whether it is settled."""
        step, records, data, parcel = ready
        await self._outbox.publish(step.events, records)
        if data is not None:
            await self._outlet.save(key, parcel, self._keep.partition(key))
            self._telemetry.state_bytes.labels(key).set(len(data))
        self._keep.put(key, step.state, data)
        settled = step.settled
        for write in step.writes:
            settled = await self._write(key, write)
        return settled

    async def _write(self, key: str, write: Any) -> bool:
        if self._executor is None:
            raise TypeError(f"{self.handler.name} asks for writes and has no executor")
        result = await self._executor.carry_out(write)
        state = self._keep.of(key)
        ready = await self._decide(
            key, WRITTEN, lambda: self.handler.written(result, state, self._clock)
        )
        return await self._carry(key, ready)

    async def _decide(self, key: str, cause: str, decide: Callable[[], Step[S]]) -> _Ready[S]:
        """What a handler answers where no record can be blamed: stop or, the last time, drop."""
        try:
            with self._telemetry.decision_seconds.labels(cause).time():
                step = decide()
            return self._prepared(key, step)
        except Exception as error:
            await self._giving_up.fault(key, cause, error)
            await self._giving_up.drop(key, error)
            raise _Over from error

    def _settle(
        self, key: str, before: bytes | None, settled: bool, deliveries: Sequence[Delivery] = ()
    ) -> None:
        """Acknowledge what led to a settled state; keep the rest for a restart."""
        if not settled:
            self._keep.hold(key, deliveries)
        elif self._keep.last_saved(key) is before:
            # Nothing was saved, so inputs that waited before are still only in memory.
            self._outlet.acknowledge(deliveries)
        else:
            self._outlet.acknowledge([*self._keep.let_go(key), *deliveries])

    # Small things.

    async def _blame(self, delivery: Delivery, error: Exception) -> None:
        """A record that belongs to no key: its failure is nobody's turn."""
        try:
            await self._giving_up.blame(delivery, error)
        except BaseException:
            self._failed = True  # nothing that follows may be handled before it
            raise

    @asynccontextmanager
    async def _turn(self, key: str) -> AsyncIterator[None]:
        """One at a time per key; after a failure nobody, as order would be lost."""
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

    def _key_of(self, arrival: Arrival | None) -> str:
        if arrival is None:
            return ""
        if arrival.event is None:
            return arrival.last.key.decode(errors="replace")
        return self.handler.key(arrival.event)

    def _forget_all(self) -> None:
        self._keep.clear()
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._called: set[str] = set()  # to be woken in their next turn
        # Dropped when they were woken. One that fails each time would be so at once, for ever:
        # with an event that comes, it is worth another try.
        self._resting: set[str] = set()
        self._intake = Intake()
        self._attempts.clear()
