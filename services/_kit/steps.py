"""One step of a handler: decided, encoded, published with its state, its writes carried out.

What fails on the way is blamed on a record or on a key (`failures.py`). `engine.py` gives the
turns, in which the methods here are called.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Generic, NamedTuple

from schemas.codec import Record
from schemas.fields import Event
from services._kit.clock import Clock
from services._kit.errors import Refused
from services._kit.failures import POISON, FailurePolicy
from services._kit.handler import S, Service, Step
from services._kit.logs import tracing
from services._kit.records import BusWriter, Delivery, Publisher, Received, Rejection
from services._kit.state_codec import saved_alike
from services._kit.state_records import StateRecord
from services._kit.state_store import StateStore
from services._kit.telemetry import Telemetry

WRITTEN: Final = "written"


class GivenUp(Exception):  # noqa: N818  control flow, not an error
    """A record or a step was given up; its dead letters are published."""


class Prepared(NamedTuple, Generic[S]):
    """A step, encoded: everything that can fail without a bus has succeeded."""

    step: Step[S]
    records: Sequence[Record]
    data: bytes | None = None
    """Bytes of the new state; None where nothing that is saved has changed."""
    state_records: Mapping[str, StateRecord | None] = MappingProxyType({})
    """What to write to the state topic, by key; nothing if the state need not be saved."""


class Steps(Generic[S]):
    """Carries out steps, with the states of the keys in this process."""

    def __init__(
        self, service: Service[S], writer: BusWriter, clock: Clock, telemetry: Telemetry
    ) -> None:
        self.handler = service.handler
        self._executor = service.executor
        self._writer = writer
        self._clock = clock
        self._telemetry = telemetry
        self._store = StateStore(service.handler)
        self._publisher = Publisher(service, writer, clock, telemetry)
        self._policy = FailurePolicy(service.handler, self._store, writer, self._publisher, clock)
        self._failures = self._policy.counts

    async def _handle(self, received: Received, key: str) -> bool:
        """Handle an event; returns whether a restart would lose nothing of it."""
        delivery, event = received.last, received.event
        if event is None:  # handlers have no use for a tombstone of a compacted input
            self._publisher.count(delivery, "tombstone")
            return True
        with tracing(event):
            try:
                prepared = await self._step_of(delivery, event, key)
            except GivenUp:
                return True
            try:
                settled = await self._carry_out(key, prepared)
            except GivenUp:
                # The state was dropped after a write: nothing of this input waits in it any more.
                settled = True
            # It succeeded: earlier failures were temporary.
            await self._failures.forget(delivery.position, delivery.partition)
        refused = prepared.step.refused
        if refused is not None:
            await self._publisher.reject(Rejection(delivery, refused, refused.kind))
        else:
            self._publisher.count(delivery, "handled")
        return settled

    async def _step_of(self, delivery: Delivery, event: Event, key: str) -> Prepared[S]:
        """Call the handler. What fails before or after `handle` is blamed on the key."""
        try:
            state = self._store.get_or_start(key)
        except Refused as error:
            await self._publisher.reject(Rejection(delivery, error, error.kind))
            raise GivenUp from error
        except Exception as error:
            await self._policy.state_failed(key, "start", error)
            await self._publisher.reject(Rejection(delivery, error, POISON))
            raise GivenUp from error

        try:
            with self._telemetry.decision_seconds.labels(delivery.topic).time():
                step = self.handler.handle(event, state, self._clock)
        except Refused as error:
            await self._publisher.reject(Rejection(delivery, error, error.kind))
            raise GivenUp from error
        except Exception as error:
            await self._policy.record_failed(delivery, error, key)
            raise GivenUp from error

        try:
            return self._prepare(key, step)
        except Exception as error:
            await self._policy.state_failed(key, "save", error)
            await self._policy.drop_state(key, error)
            await self._publisher.reject(Rejection(delivery, error, POISON))
            raise GivenUp from error

    async def _decide(self, key: str, cause: str, decide: Callable[[], Step[S]]) -> Prepared[S]:
        """Call the handler where no record can be blamed, only the key."""
        try:
            with self._telemetry.decision_seconds.labels(cause).time():
                step = decide()
            return self._prepare(key, step)
        except Exception as error:
            await self._policy.state_failed(key, cause, error)
            await self._policy.drop_state(key, error)
            raise GivenUp from error

    def _prepare(self, key: str, step: Step[S]) -> Prepared[S]:
        """Encode a step, so that everything that can fail without a bus fails before publishing."""
        if step.read is not None:
            return Prepared(step, ())  # encoded when the result is there
        records = self._publisher.encode(step.events)
        if saved_alike(step.state, self._store.get(key)):
            if not step.writes:
                return Prepared(step, records)
            # Saved as it is: the commit proves that no other process owns the key by now.
            again = self._store.last_saved(key) or self.handler.save(step.state)
            return Prepared(step, records, None, self._store.records(key, again))
        data = self.handler.save(step.state)
        return Prepared(step, records, data, self._store.records(key, data))

    async def _carry_out(self, key: str, prepared: Prepared[S]) -> bool:
        """Carry out a step in the order that `handler.py` promises; whether it is settled."""
        if prepared.step.read is not None:
            return await self._carry_out(key, await self._read(key, prepared.step))
        step, records, data, states = prepared
        if records or states:
            # Together: a restart finds both or neither, and a process that lost the key, neither.
            await self._writer.commit(records, states, self._store.partition(key))
        if states:
            self._store.committed(key, states)
            sent = sum(len(record.value) for record in states.values() if record is not None)
            self._telemetry.state_bytes.labels(key).set(sent)
        self._publisher.published(step.events)
        self._store.put(key, step.state, data)
        settled = step.settled
        # Writes after state: a restart finds in the state what has to be requested again, and a
        # process that lost the key has failed to commit.
        for write in step.writes:
            settled = await self._write(key, write)
        return settled

    async def _read(self, key: str, step: Step[S]) -> Prepared[S]:
        """What the handler makes of the result. The store still has the state before the step."""
        result = await self._execute(step.read)

        def decide() -> Step[S]:
            after = self.handler.written(result, step.state, self._clock)
            return after._replace(events=[*step.events, *after.events])

        return await self._decide(key, WRITTEN, decide)

    async def _write(self, key: str, write: Any) -> bool:
        result = await self._execute(write)
        # Fetched again: the step that requested the write has replaced the state.
        state = self._store.get_or_start(key)
        prepared = await self._decide(
            key, WRITTEN, lambda: self.handler.written(result, state, self._clock)
        )
        return await self._carry_out(key, prepared)

    async def _execute(self, request: Any) -> Any:
        if self._executor is None:
            raise TypeError(f"{self.handler.name} requests reads or writes but has no executor")
        return await self._executor.carry_out(request)

    def _settle(
        self, key: str, before: bytes | None, settled: bool, deliveries: Sequence[Delivery] = ()
    ) -> None:
        """Acknowledge the inputs of a settled state; hold those of an unsettled one."""
        if not settled:
            self._store.hold(key, deliveries)
        elif self._store.last_saved(key) is before:
            # Nothing was saved, so inputs that are held are still only in memory.
            self._writer.acknowledge(deliveries)
        else:
            self._writer.acknowledge([*self._store.take_unsettled(key), *deliveries])
