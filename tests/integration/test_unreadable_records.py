"""Records that a broker accepts and that clients' libraries cannot decode stop no reader."""

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from schemas.app_declared import AppDeclared
from schemas.capacity_requested import CapacityRequested, NodesByUrgency
from schemas.codec import encode
from schemas.fields import Event
from schemas.metrics_sampled import MetricsSampled
from schemas.rejected import Rejected
from schemas.topics import topic_of
from services._kit.settings import load
from services.admin.reader import TopicReader
from services.devcluster.connect import Running
from services.simcluster.feed import KafkaFeed
from tests.hostile_record_helpers import HOSTILE, send, send_hostile
from tests.kit_example_helpers import ExampleSettings, declared, granted, sampled
from tests.kit_kafka_helpers import OnKafka, read_all

SAMPLES = topic_of(MetricsSampled).name
APPS = topic_of(AppDeclared).name
REQUESTS = topic_of(CapacityRequested).name
KINDS = {"name": "headers", "snappy": "batch", "bomb": "batch"}


# As in the conformance suite: plain aiokafka is tested on request.
ADAPTERS = ("faust", "plain") if os.environ.get("EVERY_ADAPTER") else ("faust",)


@pytest.fixture(params=ADAPTERS)
def bus(request: pytest.FixtureRequest, kafka: Running, tmp_path: Path) -> Iterator[OnKafka]:
    made = OnKafka({"HIRL_KAFKA_BOOTSTRAP": kafka.bootstrap}, request.param, tmp_path)
    yield made
    made.close()


def letters(bus: OnKafka, topic: str, places: dict[str, tuple[int, int]]) -> dict[str, list[str]]:
    """Errors of the dead letters about the records at these places, by kind of record."""
    found = [
        one for one in read_all(bus._settings, Rejected)
        if one.service == bus.name and one.topic == topic
    ]  # fmt: skip
    return {
        kind: [one.error for one in found if (one.partition, one.offset) == place]
        for kind, place in places.items()
    }


def test_each_unreadable_record_is_one_dead_letter_and_others_are_handled(
    bus: OnKafka, kafka: Running
) -> None:
    domain = f"{bus.prefix}a"
    bus.start()
    bus.publish(granted(domain, 1), sampled(domain, 1))
    bus.answers(1)
    places = {
        kind: send_hostile(kafka.options(), kind, SAMPLES, domain.encode()) for kind in HOSTILE
    }
    bus.publish(granted(domain, 2), sampled(domain, 2))
    assert [answer.since_tick for answer in bus.answers(2)] == [1, 2]
    expected = {kind: [error] for kind, error in KINDS.items()}
    bus.until(lambda: letters(bus, SAMPLES, places) == expected)
    assert bus.terminate() == 0
    # Acknowledged: the next process does not meet them again.
    bus.start()
    bus.publish(granted(domain, 3), sampled(domain, 3))
    assert bus.answers(3)[-1].since_tick == 3
    assert letters(bus, SAMPLES, places) == expected


def test_reference_data_around_unreadable_records_is_learned_at_each_start(
    bus: OnKafka, kafka: Running
) -> None:
    domain = f"{bus.prefix}a"
    bus.publish(declared(f"{domain}-1", domain))
    places = {
        kind: send_hostile(kafka.options(), kind, APPS, f"{domain}-{kind}".encode())
        for kind in HOSTILE
    }
    bus.publish(declared(f"{domain}-2", domain), granted(domain, 1), sampled(domain, 1))
    for tick in (1, 2):
        bus.start()
        answer = bus.answers(tick)[-1]
        assert (answer.since_tick, answer.readings) == (tick, {"apps": 2})
        assert bus.terminate() == 0
        bus.publish(granted(domain, tick + 1), sampled(domain, tick + 1))
    assert letters(bus, APPS, places) == {kind: [error] for kind, error in KINDS.items()}


def test_tools_show_unreadable_records_and_those_that_follow(kafka: Running) -> None:
    event = sampled("tools-a", 1)
    (good,) = encode(event, "test")
    with TopicReader(kafka.options()) as reader:
        places = {kind: send_hostile(kafka.options(), kind, SAMPLES, good.key) for kind in HOSTILE}
        last = send(kafka.options(), SAMPLES, good.key, good.value)
        found = {
            (one.delivery.partition, one.delivery.offset): one
            for one in reader.read_to_end([SAMPLES])
        }
    assert found[last].event == event
    for kind, place in places.items():
        assert found[place].problem.startswith(KINDS[kind])


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110  no event tells it
            await asyncio.sleep(0.05)


def test_the_provisioner_reads_the_requests_around_unreadable_records(kafka: Running) -> None:
    settings, _ = load("simcluster", ExampleSettings, {"HIRL_KAFKA_BOOTSTRAP": kafka.bootstrap})
    received: list[Event] = []
    request = CapacityRequested(
        tick=1, time="2026-01-05T00:00:10Z", pool="shared", epoch=1, valid_until_tick=19,
        nodes=NodesByUrgency(),
    )  # fmt: skip
    (good,) = encode(request, "test")

    async def follow() -> None:
        feed = KafkaFeed(settings)
        task = asyncio.create_task(feed.run(received.append))
        await until(lambda: feed.ready)
        for kind in HOSTILE:
            await asyncio.to_thread(send_hostile, kafka.options(), kind, REQUESTS, good.key)
        await asyncio.to_thread(send, kafka.options(), REQUESTS, good.key, good.value)
        await until(lambda: bool(received) or task.done())
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(follow())
    assert received == [request]
