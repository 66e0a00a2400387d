"""Drives a handler: the part of every adapter that does not know its bus.

One event at a time per key, in the order in which they were taken; keys do not wait for each other.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Any, Final, Generic, NamedTuple, Protocol

import msgspec

from schemas.codec import Malformed
from schemas.fields import Event
from schemas.topics import BY_NAME, state_topic, topic_of
from services._kit.clock import Clock
from services._kit.consume import Arrival, Delivery, Intake, rejection
from services._kit.handler import CLUSTER, Refused, S, Service, Step
from services._kit.logs import tracing
from services._kit.poison import STATE_MEMORY_S, Attempts
from services._kit.telemetry import Telemetry

log = logging.getLogger(__name__)

WAKE: Final = "wake"
WRITTEN: Final = "written"
POISON: Final = "poison"
FAILURES_OF_REFERENCE: Final = 0
"""Partition of the state topic where failures to learn are counted: reference data is read before
it is known which partitions this process will have."""
_NOT_UNDERSTOOD: Final = (
    Refused, LookupError, AttributeError, TypeError, ValueError, msgspec.DecodeError,
)  # fmt: skip
"""What `load` raises over bytes of another form."""


class Outlet(Protocol):
    """What an engine needs of a bus."""

    async def publish(self, events: Sequence[Event]) -> None:
        """Returns when all are acknowledged."""

    async def save(self, key: str, data: bytes | None, partition: int | None) -> None:
        """Returns when the record of the state's key is acknowledged; None removes it.

        With a partition, whoever is given that partition of the inputs finds the record.
        """

    def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        """These are done with: they need not come again after a restart."""


class Stopped(Exception):  # noqa: N818  not an error of this event
    """An earlier event failed, so nothing after it may be handled."""


class _Dropped(Exception):  # noqa: N818  as above
    """A state failed for the last time and began anew: the rest of its step is void."""


class _Ready(NamedTuple, Generic[S]):
    """A step and the bytes of its state: whatever can fail in a handler has not."""

    step: Step[S]
    data: bytes | None
    """None: the state is the one before."""


class Engine(Generic[S]):
    """A handler at work, with the states of the keys that are here."""

    def __init__(
        self, service: Service[S], outlet: Outlet, clock: Clock, telemetry: Telemetry
    ) -> None:
        self.handler = service.handler
        self._executor = service.executor
        self._observe = service.observe(telemetry)
        self._outlet = outlet
        self._clock = clock
        self._telemetry = telemetry
        self._attempts = Attempts(outlet, clock)
        self._reference = Intake()
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
            await self._reject(delivery, error, error.kind)
            self._outlet.acknowledge(deliveries)
            return
        except Exception as error:  # noqa: BLE001  logged there
            await self._blame(delivery, error)
            self._outlet.acknowledge(deliveries)
            return
        if arrival is None:
            self._count(delivery, "part")
            return
        async with self._turn(key):
            if term != self.term:
                return  # the partition went elsewhere, and the record with it
            self._partitions[key] = delivery.partition
            before = self._states.get(key)
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
            await self._reject(delivery, error, error.kind)
        except Exception as error:
            log.exception("%s could not learn %s", self.handler.name, delivery.place)
            if await self._attempts.failed(delivery.place, FAILURES_OF_REFERENCE):
                raise
            # Its failures are not forgotten: the next start reads it again.
            await self._reject(delivery, error, POISON)
        else:
            await self._attempts.forget(delivery.place, FAILURES_OF_REFERENCE)
            self._count(delivery, "learned")

    def _learn(self, arrival: Arrival) -> None:
        if arrival.event is None:
            self.handler.forget(BY_NAME[arrival.last.topic].event, arrival.last.key.decode())
        else:
            self.handler.learn(arrival.event)

    def recall(self, key: str, data: bytes | None) -> None:
        """A record of the state topic, before `study`: of use if it counts failures to learn."""
        self._attempts.restore(key, data)

    def restore(self, key: str, data: bytes | None, partition: int | None) -> None:
        """A record of the state topic, in their order; None is a tombstone."""
        if self._attempts.restore(key, data):
            return
        self._saved[key] = data
        if partition is not None:
            self._partitions[key] = partition

    def begin(self) -> None:
        """All records of states were restored: load the newest of each key."""
        for key, data in self._saved.items():
            if data is not None:
                self._load(key, data)
        self._saved.clear()
        if self.handler.scope == CLUSTER:  # it exists even if it was never saved
            self._state(CLUSTER)

    def _load(self, key: str, data: bytes) -> None:
        try:
            self._states[key] = self.handler.load(key, data)
        except _NOT_UNDERSTOOD as error:
            surprise = not isinstance(error, Refused)
            log.warning(
                "%s starts `%s` anew, as it does not understand what it saved: %r",
                self.handler.name, key, error, exc_info=surprise,
            )  # fmt: skip

    async def release(self) -> None:
        """Finish what is being handled, let go of what waits, and forget all states."""
        self.term += 1
        while self._active:
            self._idle.clear()
            await self._idle.wait()
        self._forget_all()

    # Time.

    def next_due(self) -> float | None:
        """Wall time at which the next state wants to be woken that is not about to be."""
        waiting = [state for key, state in self._states.items() if key not in self._called]
        dues = map(self._due, waiting)
        return min((due for due in dues if due is not None), default=None)

    async def wake(self, *, early: bool = False) -> int:
        """Wake the states whose time has come or, early, all of them; how many did something.

        Early is after new reference data: a state may wait for it that waits for no time. One that
        waits for its turn to be woken is left out: it will see what is newest then.
        """
        now = self._clock.now()
        idle = [key for key in sorted(self._states) if key not in self._called]
        chosen = [key for key in idle if early or self._is_due(key, now)]
        self._called.update(chosen)
        return sum(await asyncio.gather(*(self._wake(key) for key in chosen)))

    async def _wake(self, key: str) -> bool:
        term = self.term
        async with self._turn(key):
            if term != self.term:
                return False
            self._called.discard(key)
            state = self._state(key)
            try:
                ready = await self._decide(key, WAKE, lambda: self._woken(state))
                settled = await self._carry(key, ready)
            except _Dropped:
                return True
            self._settle(key, state, settled)
            step = ready.step
            return step.state is not state or bool(step.events or step.writes)

    def _is_due(self, key: str, now: float) -> bool:
        due = self._due(self._states[key])
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
            self._count(delivery, "tombstone")
            return True
        with tracing(event):
            try:
                state = self._state(key)
                ready = self._timed(
                    delivery.topic, key, lambda: self.handler.handle(event, state, self._clock)
                )
            except Refused as error:
                await self._reject(delivery, error, error.kind)
                return True
            except Exception as error:  # noqa: BLE001  logged there
                await self._blame(delivery, error)
                return True
            try:
                settled = await self._carry(key, ready)
            except _Dropped:
                settled = True
            await self._attempts.forget(delivery.place, delivery.partition)
        self._count(delivery, "handled")
        return settled

    async def _blame(self, delivery: Delivery, error: Exception) -> None:
        """A record that makes the handler fail: stop or, the last time, go on without it."""
        log.error("%s could not handle %s", self.handler.name, delivery.place, exc_info=error)
        if await self._attempts.failed(delivery.place, delivery.partition):
            self._failed = True  # nothing that follows may be handled before it
            raise error
        await self._reject(delivery, error, POISON)
        await self._attempts.forget(delivery.place, delivery.partition)

    async def _carry(self, key: str, ready: _Ready[S]) -> bool:
        """Carry out a step, in the order that `handler.py` promises; whether it is settled."""
        step, data = ready
        await self._publish(step.events)
        if data is not None:
            await self._outlet.save(key, data, self._partitions.get(key))
            self._states[key] = step.state
            self._telemetry.state_bytes.labels(key).set(len(data))
        settled = step.settled
        for write in step.writes:
            settled = await self._write(key, write)
        return settled

    async def _write(self, key: str, write: Any) -> bool:
        if self._executor is None:
            raise TypeError(f"{self.handler.name} asks for writes and has no executor")
        result = await self._executor.carry_out(write)
        state = self._state(key)
        ready = await self._decide(
            key, WRITTEN, lambda: self.handler.written(result, state, self._clock)
        )
        return await self._carry(key, ready)

    # A state that makes the handler fail.

    async def _decide(self, key: str, cause: str, decide: Callable[[], Step[S]]) -> _Ready[S]:
        """What a handler answers where no record can be blamed: stop or, the last time, drop."""
        try:
            return self._timed(cause, key, decide)
        except Exception as error:
            log.exception("%s failed in `%s` of `%s`", self.handler.name, cause, key)
            partition = self._partitions.get(key)
            if await self._attempts.failed(self._place(key), partition, STATE_MEMORY_S):
                raise
            await self._drop(key, error)
            raise _Dropped from error

    async def _drop(self, key: str, error: Exception) -> None:
        """Begin a state anew; whatever waits in it goes too, as it may be what is wrong."""
        log.error("%s drops the state of `%s` and starts it anew", self.handler.name, key)
        topic, partition = state_topic(self.handler.name), self._partitions.get(key)
        state = Delivery(topic, -1, -1, key.encode(), None, (), self._clock.date())
        await self._reject(state, error, POISON)
        await self._outlet.save(key, None, partition)
        self._states[key] = self.handler.start(key)
        self._outlet.acknowledge(self._unsettled.pop(key, []))
        await self._attempts.forget(self._place(key), partition)

    def _place(self, key: str) -> str:
        """Of a state, as failures are counted."""
        return f"{state_topic(self.handler.name)}/{key}"

    def _settle(
        self, key: str, before: S | None, settled: bool, deliveries: Sequence[Delivery] = ()
    ) -> None:
        """Acknowledge what led to a settled state; keep the rest for a restart."""
        if not settled:
            # To be acknowledged they need no value, and frames are large.
            self._unsettled[key].extend(one._replace(value=None) for one in deliveries)
        elif self._states.get(key) is before:
            # Nothing came of it, so it settles nothing that was there before.
            self._outlet.acknowledge(deliveries)
        else:
            self._outlet.acknowledge([*self._unsettled.pop(key, []), *deliveries])

    async def _publish(self, events: Sequence[Event]) -> None:
        if not events:
            return
        await self._outlet.publish(events)
        for event in events:
            self._telemetry.published.labels(topic_of(event).name).inc()
            self._observe(event)

    async def _reject(self, delivery: Delivery, error: Exception, kind: str) -> None:
        log.warning("rejected %s: %s", delivery.place, error)
        letter = rejection(self.handler.name, delivery, error, kind, self._clock)
        await self._publish([letter])
        self._count(delivery, "rejected")
        self._telemetry.dead_letters.labels(delivery.topic, kind).inc()

    # Small things.

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

    def _timed(self, cause: str, key: str, decide: Callable[[], Step[S]]) -> _Ready[S]:
        with self._telemetry.decision_seconds.labels(cause).time():
            step = decide()
        same = step.state is self._states.get(key)
        return _Ready(step, None if same else self.handler.save(step.state))

    def _key_of(self, arrival: Arrival | None) -> str:
        if arrival is None:
            return ""
        if arrival.event is None:
            return arrival.last.key.decode(errors="replace")
        return self.handler.key(arrival.event)

    def _state(self, key: str) -> S:
        if key not in self._states:
            self._states[key] = self.handler.start(key)
        return self._states[key]

    def _count(self, delivery: Delivery, outcome: str) -> None:
        self._telemetry.events.labels(delivery.topic, outcome).inc()

    def _forget_all(self) -> None:
        self._states: dict[str, S] = {}
        self._partitions: dict[str, int] = {}
        self._unsettled: defaultdict[str, list[Delivery]] = defaultdict(list)
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._called: set[str] = set()  # to be woken in their next turn
        self._saved: dict[str, bytes | None] = {}
        self._intake = Intake()
        self._attempts.clear()
