"""What a service is, whatever bus carries it: events in, events out, and a state per key.

A handler does no IO and asks no clock of its own. Adapters (`memory.py`, `faust_app.py`) bring it
events one at a time per key and carry out what it answers, in this order:

1. `events` are published, and acknowledged by the bus;
2. `state` is saved, and acknowledged, if it is another object than before;
3. `writes` are carried out one after another; each result comes back through `written`, whose
   step is treated the same way;
4. the input is acknowledged, unless the step is not `settled`.

A crash in between delivers the input again. So the same event in the same state must give the
same events (with the same ids), and one that the state says is done must change nothing. A write
that the state says is not finished is asked for again: by the event that is delivered again or,
where `wake` asked for it, because `due` still names a time.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Literal, NamedTuple, Protocol, TypeVar

from schemas.fields import Event
from schemas.topics import key_of
from services._kit.clock import Clock
from services._kit.telemetry import Telemetry

S = TypeVar("S")

CLUSTER = "cluster"
"""Key of the one state of a service that sees the whole cluster."""


class Step(NamedTuple, Generic[S]):
    """What a handler answers. Returning the very state it was given saves nothing."""

    state: S
    events: Sequence[Event] = ()
    writes: Sequence[Any] = ()
    """Effects to carry out on what is no bus, e.g. HTTP writes; the executor knows them."""
    settled: bool = True
    """False while the state holds what `save` leaves out, e.g. frames of a tick that is not whole:
    such inputs are acknowledged by the next settled step of the key that changes the state, so
    that a restart gets them again. No later offset is committed before: settle soon."""


class Refused(Exception):  # noqa: N818  an event was refused; nothing is wrong with the service
    """An event that can be read but makes no sense: it goes to the dead letters, nothing changes.

    A handler raises it from `start`, `handle` or `learn`. Any other exception is a mistake of ours
    and stops the service. A record that does so three times in `key`, `handle` or `learn` is
    dead-lettered too. What goes wrong in `start`, `load`, `due`, `wake` or `written`, or with what
    is to be saved or published, is the key's: from the third time on it does without its state.
    """

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind = kind
        self.detail = detail


class Handler(ABC, Generic[S]):
    """A service. `S` is its state, best an immutable value.

    One that is changed in place must not be left half changed by `Refused`, and must be returned
    as another object whenever it is to be saved. After any other exception nobody sees it again.
    """

    name: ClassVar[str]
    """Of the service, as `schemas/topics.py` writes it."""
    inputs: ClassVar[tuple[type[Event], ...]] = ()
    """Consumed in the service's group, in order per key."""
    reference: ClassVar[tuple[type[Event], ...]] = ()
    """Small topics, read whole by every process before it handles anything, then followed."""
    scope: ClassVar[Literal["domain", "cluster"]] = "domain"
    """Of a state. By domain, processes share the domains; with one state for the cluster, one
    process has all the work and the others stand by. A cluster's state exists from the start."""

    def key(self, event: Event) -> str:
        """Of the state to which an event belongs."""
        return CLUSTER if self.scope == "cluster" else key_of(event)

    def learn(self, event: Event) -> None:
        """Take in reference data. Every state is woken afterwards, as it may have waited for it."""

    def forget(self, kind: type[Event], key: str) -> None:
        """Reference data was removed: a tombstone."""

    def prepare(self) -> None:
        """Do what takes long and needs no input, before the service says that it is ready."""

    @abstractmethod
    def start(self, key: str) -> S:
        """State of a key of which nothing is known."""

    @abstractmethod
    def handle(self, event: Event, state: S, clock: Clock) -> Step[S]:
        """Answer one event."""

    def written(self, result: Any, state: S, clock: Clock) -> Step[S]:
        """Answer the result of a write."""
        raise NotImplementedError(f"{self.name} asks for writes and does not take their results")

    def due(self, state: S) -> float | None:  # noqa: ARG002  for those who wait
        """When `wake` is to be called, by `Clock.now`; None: nothing is waited for."""
        return None

    def wake(self, state: S, clock: Clock) -> Step[S]:  # noqa: ARG002  as above
        """Do what time or new reference data allow. It may come at any time: look at the clock."""
        return Step(state)

    @abstractmethod
    def save(self, state: S) -> bytes:
        """State as bytes; equal states give equal bytes."""

    @abstractmethod
    def load(self, key: str, data: bytes) -> S:
        """What `save` wrote; reference data is there already.

        A form that is no longer understood raises `Refused`, or what looking for a name or a type
        raises that is not there: then the key starts anew.
        """


class Executor(Protocol):
    """Carries out the writes of a handler. It retries what may be retried, then answers."""

    async def carry_out(self, write: Any) -> Any:
        """Result of one write; a failed one is a result too. An exception stops the service."""


def _look_away(telemetry: Telemetry) -> Callable[[Event], None]:  # noqa: ARG001
    """Observe nothing."""
    return lambda event: None  # noqa: ARG005


async def _nothing() -> None:
    """Close nothing."""


@dataclass(frozen=True)
class Service(Generic[S]):
    """A handler with what surrounds it; made once per process, by one function."""

    handler: Handler[S]
    executor: Executor | None = None
    """Where the handler asks for writes."""
    observe: Callable[[Telemetry], Callable[[Event], None]] = _look_away
    """Metrics of the service's own: makes them in the registry of the telemetry, and gives what is
    to see each published event. A class with `__init__(telemetry)` and `__call__(event)` fits."""
    close: Callable[[], Awaitable[None]] = _nothing
    """Awaited once, at the end of the process."""
