"""What a service's process does in the models, with the real engine, handler and codecs.

A process works in turns: it starts, takes a record, or is woken. A turn runs until it needs the
world: to commit a step, or to send a request to the target. What it waits for is a value, so
anything can happen first: a crash, a pause, a lost answer. When the world has answered, the turn is
run again from its beginning with all answers so far. Handlers are pure, so it comes to the same
point and goes on. Equal turns have equal results, which are remembered.

The rules of Kafka are the world's: who may commit, what was committed, what is delivered again.
"""

import asyncio
import selectors
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from schemas.codec import Record
from schemas.fields import Event
from services._kit import state_codec
from services._kit.clock import Clock, ManualClock
from services._kit.engine import Engine
from services._kit.handler import Executor, Handler, Service, Step
from services._kit.records import Delivery
from services._kit.state_records import StateRecord
from services._kit.telemetry import Telemetry
from services._kit.transactions import Fenced

S = TypeVar("S")
T = TypeVar("T")

Position = tuple[str, int]
"""Topic and offset."""
Known = Hashable
"""What a process has learned of the reference topics."""
States = tuple[tuple[str, bytes], ...]
"""Saved bytes by key: the content of a state topic."""

_ENCODER: Final = msgspec.msgpack.Encoder(enc_hook=state_codec._encode_array, order="deterministic")


# What a turn waits for, and what it is answered.


class Commit(NamedTuple):
    """Events and states to be written together, or not at all."""

    records: tuple[tuple[str, bytes], ...]
    """Topic and value."""
    states: tuple[tuple[str, bytes | None], ...]
    based_on: States
    """What the process believes to be saved of these keys."""


class Request(NamedTuple):
    """A request to the target."""

    method: str
    path: str
    body: bytes


Point = Commit | Request
Ask = Callable[[Point], Any]

DONE: Final = "done"
FENCED: Final = "fenced"
"""Answers to a commit."""
LOST: Final = "lost"
GIVEN_UP: Final = "given up"
REJECTED: Final = "rejected"
"""Answers to a request, besides a body: none, so the client tries again; none, and the time for the
tick is over; something on the way to the target does not let it pass."""


class Answer(NamedTuple):
    """What the world answered, when, and what the process knew by then."""

    value: Any
    now: float
    known: Known


class Turn(NamedTuple):
    """What a process is doing: it takes a record or, without one, starts or is woken."""

    now: float
    known: Known
    delivery: Delivery | None = None
    restored: States = ()
    """The state topic, where it starts."""
    answers: tuple[Answer, ...] = ()


# What becomes of a turn.


class Memory(Generic[S]):
    """What a process has in memory between two turns; equal if everything in it is equal."""

    def __init__(self, engine: Engine[S], client: Hashable) -> None:
        store = engine._store
        self.states, self.saved = dict(store._states), dict(store._saved)
        self.unsettled = {key: list(held) for key, held in store._unsettled.items()}
        self.client = client
        """What the client of the target remembers."""
        dues = [engine.handler.due(state) for state in self.states.values()]
        self.due = min((due for due in dues if due is not None), default=None)
        held = {key: [one.position for one in found] for key, found in self.unsettled.items()}
        self._bytes = _ENCODER.encode([self.states, self.saved, held, repr(client)])

    def __hash__(self) -> int:
        return hash(self._bytes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Memory) and self._bytes == other._bytes


class Waits(NamedTuple):
    """The turn needs the world."""

    point: Point
    acknowledged: frozenset[Position]


class Done(NamedTuple):
    """The turn is over."""

    memory: Memory[Any]
    acknowledged: frozenset[Position]
    dead_letters: int


class Died(NamedTuple):
    """The process ended."""

    problem: str
    """What it did wrong; empty if it was fenced."""


Result = Waits | Done | Died


class Suspended(BaseException):
    """Unwinds a turn that waits; not an Exception, so that the engine does not handle it."""

    def __init__(self, point: Point) -> None:
        super().__init__()
        self.point = point


class Forbidden(BaseException):
    """A handler asks for something that what it knows forbids."""


# Running turns.


class Knowing(Handler[S]):
    """The handler with what the process knows now; it is exchanged when the process learns.

    Handlers are pure, so it is asked the same thing only once: a turn that is run again is cheap.
    """

    def __init__(self, inner: Handler[S], answers: dict[Hashable, tuple[Any, Any]]) -> None:
        self.inner, self._answers = inner, answers
        # The engine reads these as those of the handler's class.
        for name in ("name", "inputs", "reference", "scope"):
            setattr(self, name, getattr(inner, name))

    def start(self, key: str) -> S:
        return self.inner.start(key)

    def lost(self, key: str) -> S | None:
        return self.inner.lost(key)

    def handle(self, event: Event, state: S, clock: Clock) -> Step[S]:
        key = "handle", clock.now(), type(event), msgspec.msgpack.encode(event)
        return self._once(key, state, lambda: self.inner.handle(event, state, clock))

    def written(self, result: Any, state: S, clock: Clock) -> Step[S]:
        key = "written", clock.now(), type(result), msgspec.msgpack.encode(result)
        return self._once(key, state, lambda: self.inner.written(result, state, clock))

    def wake(self, state: S, clock: Clock) -> Step[S]:
        return self._once(("wake", clock.now()), state, lambda: self.inner.wake(state, clock))

    def due(self, state: S) -> float | None:
        return self.inner.due(state)

    def save(self, state: S) -> bytes:
        return self._once("save", state, lambda: self.inner.save(state))

    def load(self, key: str, data: bytes) -> S:
        return self._once(("load", key, data), None, lambda: self.inner.load(key, data))

    def _once(self, key: Hashable, state: S | None, ask: Callable[[], T]) -> T:
        full = id(self.inner), id(state), key
        if full not in self._answers:
            # The state is kept too, or another one could get its id.
            self._answers[full] = ask(), state
        answer: T = self._answers[full][0]
        return answer


class Script:
    """Answers a turn's questions as long as there are answers, then suspends it.

    It is the engine's `BusWriter`.
    """

    def __init__(self, turn: Turn, clock: ManualClock, learn: Callable[[Known], None]) -> None:
        self._answers = iter(turn.answers)
        self._clock, self._learn = clock, learn
        self.last_saved: Callable[[str], bytes | None] = lambda _: None
        self.acknowledged: set[Position] = set()
        self.dead_letters = 0

    def ask(self, point: Point) -> Any:
        """The world's answer."""
        answer = next(self._answers, None)
        if answer is None:
            raise Suspended(point)
        self._clock.move_to(answer.now)
        self._learn(answer.known)
        return answer.value

    async def commit(
        self,
        records: Sequence[Record],
        states: Mapping[str, StateRecord | None],
        partition: int | None,
    ) -> None:
        del partition
        saved = {key: self.last_saved(key) for key in states}
        point = Commit(
            tuple((one.topic, one.value) for one in records),
            tuple((key, None if one is None else one.value) for key, one in states.items()),
            tuple((key, data) for key, data in saved.items() if data is not None),
        )
        if self.ask(point) == FENCED:
            raise Fenced("the model")

    async def publish(self, records: Sequence[Record]) -> None:
        # Dead letters need no owner and change no decision.
        self.dead_letters += len(records)

    async def save(self, key: str, state: StateRecord | None, partition: int | None) -> None:
        raise AssertionError(f"a failure was counted: {key} {state} {partition}")

    def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        self.acknowledged |= {(one.topic, one.offset) for one in deliveries}


class _Skipping(selectors.SelectSelector):
    """Skips the time that a loop would sleep."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("a turn waits for something that is not the world")
        self.now += timeout
        return []


class _Loop(asyncio.SelectorEventLoop):
    """An event loop in which sleeping takes no time."""

    def __init__(self) -> None:
        self._skipping = _Skipping()
        super().__init__(self._skipping)

    def time(self) -> float:
        return self._skipping.now


Clients = Callable[[Ask, Hashable], tuple[Executor, Callable[[], Hashable]]]
"""Makes the client of the target from a way to ask the world and from what it remembered; returns
also what it remembers by then."""


def no_client(ask: Ask, remembered: Hashable) -> tuple[None, Callable[[], Hashable]]:
    """For a service that writes nothing outside of Kafka."""
    del ask
    return None, lambda: remembered


class Processes(Generic[S]):
    """Runs turns of a service's processes."""

    def __init__(
        self,
        handler_of: Callable[[Known], Handler[S]],
        engine: type[Engine[S]] = Engine,
        clients: Clients | Callable[[Ask, Hashable], tuple[None, Any]] = no_client,
    ) -> None:
        self._handler_of, self._engine, self._clients = handler_of, engine, clients
        self._handlers: dict[Known, Handler[S]] = {}
        self._results: dict[tuple[Memory[S] | None, Turn], Result] = {}
        self._answers: dict[Hashable, tuple[Any, Any]] = {}
        self._memories: dict[Memory[S], Memory[S]] = {}
        self._telemetry = Telemetry("model", ManualClock())
        self._loop = _Loop()

    def close(self) -> None:
        self._loop.close()

    def handler(self, known: Known) -> Handler[S]:
        """The handler of a process that knows this much."""
        if known not in self._handlers:
            self._handlers[known] = self._handler_of(known)
        return self._handlers[known]

    def run(self, memory: Memory[S] | None, turn: Turn) -> Result:
        """Run a turn as far as it is answered; a process that starts has no memory."""
        key = memory, turn
        if key not in self._results:
            self._results[key] = self._run(memory, turn)
        return self._results[key]

    def _run(self, memory: Memory[S] | None, turn: Turn) -> Result:
        clock = ManualClock(turn.now)
        handler = Knowing(self.handler(turn.known), self._answers)

        def learn(known: Known) -> None:
            handler.inner = self.handler(known)

        script = Script(turn, clock, learn)
        client, remembers = self._clients(script.ask, None if memory is None else memory.client)
        engine = self._engine(Service(handler, client), script, clock, self._telemetry)
        script.last_saved = engine._store.last_saved
        try:
            self._loop.run_until_complete(_turn(engine, memory, turn))
        except Suspended as found:
            return Waits(found.point, frozenset(script.acknowledged))
        except Fenced:
            return Died("")
        except Forbidden as error:
            return Died(str(error))
        after = Memory(engine, remembers())
        shared = self._memories.setdefault(after, after)
        return Done(shared, frozenset(script.acknowledged), script.dead_letters)


async def _turn(engine: Engine[S], memory: Memory[S] | None, turn: Turn) -> None:
    if memory is None:
        for key, data in turn.restored:
            engine.restore(key, StateRecord(data), 0)
        await engine.begin()
    else:
        store = engine._store
        store._states.update(memory.states)
        store._saved.update(memory.saved)
        for key, held in memory.unsettled.items():
            store.hold(key, held)
    if turn.delivery is None:
        await engine.wake(early=True)
    else:
        await engine.take(turn.delivery)
