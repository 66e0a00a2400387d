"""The port every service implements: events in, events out, and one state per key.

A handler does no IO and reads no clock of its own. It keeps two kinds of data:

- The *state* of each key is a frozen value. `handle`, `wake` and `written` never change the state
  they are given; they return a new one. Copy arrays before kernels update them in place.
- *Reference data* (declared apps, pools, overrides, ...) belongs to the process, not to a key.
  Every process reads it whole, so it is never saved, and handlers may keep it in mutable members.
  Only `learn` and `forget` change it.

Adapters (`memory.py`, `faust_app.py`, `plain.py`) deliver events one at a time per key and carry
out the returned `Step` in this order:

0. if it has a `read`, carry that out first and continue with the step that `written` returns for
   its result, which begins with the events of this one: nothing is saved in between, because
   reading changes nothing outside;
1. commit `events` and `state` together (the state, if anything that is saved changed, or if there
   are writes): readers see both or neither, and only the owner of the key's partition can commit;
2. carry out `writes` one after another; each result goes to `written`, and the step that it
   returns is treated the same way;
3. acknowledge the input, unless the step is not `settled`.

A crash in between delivers the input again. So the same event in the same state must give the
same events with the same ids, and an event that the state has already covered must change nothing.
An unfinished write is requested again: by the redelivered event or, where `wake` requested it,
because `due` still returns a time.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Literal, NamedTuple, Protocol, TypeVar

from schemas.fields import Event
from schemas.topics import key_of
from services._kit import state_codec
from services._kit.clock import Clock
from services._kit.errors import Refused
from services._kit.telemetry import Telemetry

S = TypeVar("S")

CLUSTER = "cluster"
"""Key of the only state of a service that works for the whole cluster."""


class Step(NamedTuple, Generic[S]):
    """What a handler returns. The state it was given means: nothing changed, save nothing."""

    state: S
    events: Sequence[Event] = ()
    writes: Sequence[Any] = ()
    """Effects outside the bus, such as HTTP writes, for the service's executor."""
    read: Any = None
    """What to ask the executor before anything of this step is saved or written. `written` gets
    the result and this step's state."""
    settled: bool = True
    """False while transient fields hold input that a restart would lose, such as frames of an
    incomplete tick. Such inputs are acknowledged by the key's next settled step that saves, so a
    restart gets them again. No later offset is committed before that: settle soon."""
    refused: Refused | None = None
    """Dead-letter the event as if this was raised, but keep the state: later events may show that
    the refused one was right."""


class Handler(ABC, Generic[S]):
    """A service. `S`, its state, is a frozen dataclass; see `state_codec.py` for what it may hold.

    `errors.Refused` dead-letters an event. Any other exception is a bug and stops the service:
    `failures.py` says what happens when it occurs again and again.
    """

    name: ClassVar[str]
    """Service name as in `schemas/topics.py`."""
    inputs: ClassVar[tuple[type[Event], ...]] = ()
    """Topics consumed in the service's group, in order per key."""
    reference: ClassVar[tuple[type[Event], ...]] = ()
    """Small topics that every process reads whole before it handles anything, then follows."""
    scope: ClassVar[Literal["domain", "cluster"]] = "domain"
    """What a state is for. Per domain: processes share the domains. For the cluster: one process
    works and the others stand by; its only state exists from the start."""

    def key(self, event: Event) -> str:
        """Key of the state that handles the event."""
        return CLUSTER if self.scope == "cluster" else key_of(event)

    def learn(self, event: Event, clock: Clock) -> None:
        """Take in reference data. All states are woken afterwards: they may have waited for it."""

    def learn_recorded(self, event: Event, recorded_at: float, clock: Clock) -> None:  # noqa: ARG002
        """Take in reference data with the broker's time of its record, in seconds since 1970.

        For what is limited by time: no client chooses this time, and a restart sees it again.
        """
        self.learn(event, clock)

    def forget(self, kind: type[Event], key: str, clock: Clock) -> None:
        """Remove reference data after a tombstone."""

    def prepare(self) -> None:
        """Do slow work that needs no input, such as compiling, before the service is ready."""

    @abstractmethod
    def start(self, key: str) -> S:
        """State of a new key. The axes of apps of its arrays are empty."""

    def lost(self, key: str) -> S | None:  # noqa: ARG002  for handlers that must not start over
        """State of a key whose saved state was unreadable or dropped; None: as a new key."""
        return None

    @abstractmethod
    def handle(self, event: Event, state: S, clock: Clock) -> Step[S]:
        """React to one event."""

    def written(self, result: Any, state: S, clock: Clock) -> Step[S]:
        """React to the result of a write or a read."""
        raise NotImplementedError(f"{self.name} requests writes but does not handle their results")

    def due(self, state: S) -> float | None:  # noqa: ARG002  for handlers that wait
        """When to call `wake`, by `Clock.now`; None while nothing is waited for."""
        return None

    def wake(self, state: S, clock: Clock) -> Step[S]:  # noqa: ARG002  as above
        """Do what time or new reference data allow. Called at any time: check the clock."""
        return Step(state)

    def save(self, state: S) -> bytes:
        """State as bytes, without its transient fields."""
        return state_codec.encode(state)

    def load(self, key: str, data: bytes) -> S:
        """The reverse of `save`. Raises Refused on a wrong form: then `lost` decides."""
        return self.accept(key, state_codec.decode(type(self.start(key)), data))

    def accept(self, key: str, state: S) -> S:
        """Check a loaded state against the present configuration; override to adapt it."""
        state_codec.check_form(state, self.start(key))
        return state


class Executor(Protocol):
    """Carries out the writes and reads of a handler, with the retries that make sense."""

    async def carry_out(self, request: Any) -> Any:
        """Result of one of them; a failure is a result too. An exception stops the service."""


def _observe_nothing(telemetry: Telemetry) -> Callable[[Event], None]:  # noqa: ARG001
    return lambda event: None  # noqa: ARG005


async def _close_nothing() -> None:
    pass


@dataclass(frozen=True)
class Service(Generic[S]):
    """A handler and what its process needs besides; built once per process."""

    handler: Handler[S]
    executor: Executor | None = None
    """Required where the handler requests writes."""
    observe: Callable[[Telemetry], Callable[[Event], None]] = _observe_nothing
    """Creates the service's own metrics in the telemetry's registry and returns a callback for
    each published event. A class with `__init__(telemetry)` and `__call__(event)` fits."""
    close: Callable[[], Awaitable[None]] = _close_nothing
    """Awaited once, at the end of the process."""
