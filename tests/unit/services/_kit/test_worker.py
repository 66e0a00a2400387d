"""A worker without a broker: a key that waits for its target delays nothing else."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from schemas.codec import encode
from schemas.fields import Event
from services._kit import kafka, transactions
from services._kit import worker as worker_module
from services._kit.clock import ManualClock, SystemClock
from services._kit.handler import Service, Step
from services._kit.kafka import Reader, TopicMissing
from services._kit.records import Delivery
from services._kit.settings import KitSettings
from services._kit.telemetry import COMPILING, Telemetry
from services._kit.worker import Group, Worker
from tests.kit_example_helpers import Example, ExampleSettings, ExampleState, declared, sampled


class SilentProducer:
    """A producer that acknowledges everything."""

    def __init__(self, **options: object) -> None: ...

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def begin_transaction(self) -> None: ...

    async def commit_transaction(self) -> None: ...

    async def send(self, *_: object, **__: object) -> asyncio.Future[None]:
        sent = asyncio.get_running_loop().create_future()
        sent.set_result(None)
        return sent


class SilentTarget:
    """A target that does not answer."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def carry_out(self, write: Any) -> Any:
        del write
        self.asked.set()
        await asyncio.Event().wait()


class Watched(Example):
    """Records the apps that it learned and the domains that were woken."""

    def __init__(self) -> None:
        super().__init__(ExampleSettings())
        self.woken: list[str] = []

    @property
    def apps(self) -> list[str]:
        return sorted(self._apps)

    def due(self, state: ExampleState) -> float | None:
        return 0.0 if state.domain not in self.woken else None

    def wake(self, state: ExampleState, clock: Any) -> Step[ExampleState]:
        del clock
        self.woken.append(state.domain)
        return Step(state)


class SlowReader(Reader):
    """Delivers one record at a time."""

    def __init__(self, *events: Event) -> None:
        self._left = [delivered(event) for event in events]

    async def next(self) -> AsyncIterator[Delivery]:
        await asyncio.sleep(0 if self._left else 60)
        yield self._left.pop(0)


def delivered(event: Event) -> Delivery:
    (record,) = encode(event, "test")
    return Delivery(record.topic, 0, 0, record.key, record.value, record.headers, 0.0)


async def _blocked_worker(handler: Watched) -> Worker[ExampleState]:
    """A worker with domains a, which waits for its target, and b."""
    clock, target = SystemClock(), SilentTarget()
    worker = Worker(Service(handler, target), KitSettings(), clock, Telemetry("example", clock))
    await worker._kafka.own([0])
    await worker._engine.take(delivered(sampled("b", 1)))
    worker._open.set()
    worker._spawn(worker._take(delivered(sampled("a", 1, source="write")), worker.term))
    await target.asked.wait()
    return worker


@pytest.fixture(autouse=True)
def no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answering(*_: object) -> bool:
        return True

    for module in (kafka, transactions):
        monkeypatch.setattr(module, "AIOKafkaProducer", SilentProducer)
    monkeypatch.setattr(worker_module, "wait_for_brokers", answering)


async def _cancel_tasks(worker: Worker[ExampleState]) -> None:
    for task in worker._tasks:
        task.cancel()
    await asyncio.gather(*worker._tasks, return_exceptions=True)


def test_reference_data_is_learned_while_a_domain_waits_for_its_target() -> None:
    handler = Watched()

    async def follow() -> None:
        worker = await _blocked_worker(handler)
        worker._spawn(worker._follow(SlowReader(*(declared(name, "a") for name in "xyz"))))
        await asyncio.sleep(0.05)
        await _cancel_tasks(worker)

    asyncio.run(follow())
    assert handler.apps == ["x", "y", "z"]
    assert set(handler.woken) == {"b"}


def test_a_domain_is_woken_in_time_while_another_waits_for_its_target() -> None:
    handler = Watched()

    async def watch() -> int:
        worker = await _blocked_worker(handler)
        worker._spawn(worker._watch())
        await asyncio.sleep(0.05)
        running = len(worker._tasks)
        assert worker._engine.next_due() is None
        await _cancel_tasks(worker)
        return running

    # The event, the watch and one call of `wake`, not one per look at the clock.
    assert asyncio.run(watch()) == 3
    assert handler.woken == ["b"]


def test_keys_are_not_woken_before_their_state_is_restored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handler, sleeps = Watched(), list[float]()
    sleep = asyncio.sleep

    async def watch() -> None:
        worker = await _blocked_worker(handler)
        worker._open.clear()

        async def record_sleep(seconds: float) -> None:
            sleeps.append(seconds)
            await sleep(0.01)

        monkeypatch.setattr(asyncio, "sleep", record_sleep)
        worker._spawn(worker._watch())
        await sleep(0.05)
        await _cancel_tasks(worker)

    asyncio.run(watch())
    assert set(sleeps) == {0.1}
    assert handler.woken == []


def test_a_service_compiles_before_it_polls_and_has_not_been_silent_afterwards() -> None:
    clock = ManualClock()
    telemetry = Telemetry("example", clock, silence_seconds=60.0)
    seen: list[tuple[bool, str]] = []

    class Compiling(Watched):
        def prepare(self) -> None:
            clock.advance(300)
            seen.append((telemetry.health.alive(), telemetry.health.missing()))

    asyncio.run(Worker(Service(Compiling()), KitSettings(), clock, telemetry)._prepare())
    assert seen == [(True, COMPILING)]
    assert telemetry.health.alive()
    assert telemetry.health.missing() == "reference data is being read"


def test_a_service_is_closed_even_if_leaving_the_group_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed: list[str] = []

    async def close() -> None:
        closed.append("closed")

    async def fail(*_: object) -> None:
        raise ConnectionError

    async def live() -> None:
        clock = SystemClock()
        service = Service(Watched(), close=close)
        worker = Worker(service, KitSettings(), clock, Telemetry("example", clock))
        for name in ("_work_and_drain", "_leave"):
            monkeypatch.setattr(worker, name, fail)
        await worker.run(cast(Group, None), asyncio.Event())

    with pytest.raises(ConnectionError):
        asyncio.run(live())
    assert closed == ["closed"]


class Metadata:
    """Metadata of a broker that has one topic."""

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return {0, 1} if topic == "there" else None


class EmptyConsumer:
    """A consumer of that broker."""

    def __init__(self, **_: object) -> None:
        self._client = self

    async def fetch_all_metadata(self) -> Metadata:
        return Metadata()


async def _read(topic: str) -> None:
    reader = Reader(KitSettings())
    await reader.require("there")
    async for _ in reader.to_end([topic]):
        raise AssertionError


def test_a_missing_topic_stops_the_start_with_one_line_that_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kafka, "AIOKafkaConsumer", EmptyConsumer)
    with pytest.raises(TopicMissing, match="gone is missing: run `hirl topics apply`") as error:
        asyncio.run(_read("gone"))
    assert "\n" not in str(error.value)
