"""The lag counts everything that is not acknowledged, in whatever order acknowledgements come."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from faust.types import TP

from services._kit import kafka
from services._kit.clock import SystemClock
from services._kit.faust_app import FaustGroup
from services._kit.handler import Service
from services._kit.records import Delivery
from services._kit.settings import KitSettings
from services._kit.telemetry import Telemetry
from services._kit.worker import Worker
from tests.kit_example_helpers import Example, ExampleSettings

TOPIC = "hirl.metrics-sampled.v1"
END = 10


class Message(SimpleNamespace):
    """A record as Faust delivers it."""

    def ack(self, consumer: object) -> None: ...


def message(offset: int) -> Any:
    fields = {"topic": TOPIC, "partition": 3, "key": b"a", "value": b"", "headers": []}
    return SimpleNamespace(message=Message(**fields, offset=offset, timestamp=0.0, tp=TP(TOPIC, 3)))


class Stream:
    """A stream of three records."""

    def noack(self) -> "Stream":
        return self

    async def events(self) -> Any:
        for offset in range(3):
            yield message(offset)


def test_the_lag_begins_with_the_first_record_that_is_not_acknowledged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kafka, "AIOKafkaProducer", lambda **_: None)

    async def lags() -> list[int]:
        clock = SystemClock()
        worker = Worker(
            Service(Example(ExampleSettings())), KitSettings(), clock, Telemetry("example", clock)
        )
        group, delivered = FaustGroup(worker), []

        async def dispatch(delivery: Delivery, term: int) -> None:
            del term
            delivered.append(delivery)

        monkeypatch.setattr(worker, "dispatch", dispatch)
        consumer = SimpleNamespace(highwater=lambda _: END)
        monkeypatch.setattr(group, "_app", SimpleNamespace(consumer=consumer))
        await group._consume(cast(Any, Stream()))
        found = [group.lag()[TOPIC]]
        for index in (2, 1, 0):
            group.acknowledge(delivered[index])
            found.append(group.lag()[TOPIC])
        return found

    assert asyncio.run(lags()) == [END, END, END, END - 3]
