"""No content of a record stops a service: what cannot be used becomes one dead letter."""

import asyncio
from typing import Any

import pytest
from aiokafka.partitioner import DefaultPartitioner
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.app_declared import AppDeclared
from schemas.breaker_changed import BreakerChanged
from schemas.codec import Malformed, encode
from schemas.fields import Event, Part
from schemas.rejected import Rejected
from schemas.scale_applied import ScaleApplied
from schemas.topics import BY_NAME, topic_of
from services._kit import engine as engine_module
from services._kit.clock import ManualClock
from services._kit.engine import Engine
from services._kit.handler import Service
from services._kit.kafka import default_partitioner
from services._kit.memory import MemoryBus
from services._kit.records import MOST_WAITING, Delivery, EventReader
from services._kit.telemetry import Telemetry
from tests.kit_example_helpers import TIME, Example, ExampleSettings, declared, granted, sampled

SAMPLES = topic_of(type(sampled("a", 1))).name
BUDGETS = topic_of(type(granted("a", 1))).name
INVENTORY = topic_of(AppDeclared).name
PARTITIONS = 8
HEADERS = st.lists(
    st.tuples(
        st.sampled_from(["content-type", "ce_type", "ce_specversion", "x"]) | st.text(),
        st.none() | st.binary() | st.just(b"x" * 700_000),
    ),
    max_size=40,
)
VALUES = st.none() | st.binary() | st.sampled_from(
    [encode(event, "test")[0].value for event in (sampled("a", 1), granted("a", 1))]
    + [encode(declared("web", "a"), "test")[0].value]
)  # fmt: skip
RECORDS = st.tuples(
    st.sampled_from([SAMPLES, BUDGETS, INVENTORY]),
    st.sampled_from([b"a", b"web", b"", b"\xff\xfe", b"!failures/a"]) | st.binary(max_size=5000),
    VALUES,
    HEADERS,
)


def bus_with_example() -> MemoryBus:
    bus = MemoryBus(ManualClock(1000.0))
    bus.add(lambda: Service(Example(ExampleSettings())))
    return bus


def errors(bus: MemoryBus) -> list[tuple[str, str]]:
    return [(letter.topic, letter.error) for letter in bus.dead_letters]


def verdict(topic: str, key: bytes, value: bytes | None, headers: Any) -> str:
    """What is wrong with a record, as a reader that has seen no other says; empty: nothing."""
    try:
        EventReader().read(Delivery(topic, 0, 0, key, value, headers, 0.0))
    except Malformed as error:
        return error.kind
    return ""


@given(st.lists(RECORDS, max_size=5))
@settings(deadline=None)
def test_a_malformed_record_is_one_dead_letter_of_its_kind_and_changes_nothing_else(
    records: list[Any],
) -> None:
    bus, undisturbed, expected = bus_with_example(), bus_with_example(), []
    for topic, key, value, headers in records:
        problem = verdict(topic, key, value, headers)
        if problem:
            expected.append((topic, bus._topics[topic].end, problem))
        else:
            undisturbed.put(topic, key, value, tuple(headers))
        bus.put(topic, key, value, tuple(headers))
    for each in (bus, undisturbed):
        each.publish(granted("b", 1), sampled("b", 1))
        each.run()
    found = [(letter.topic, letter.offset, letter.error) for letter in bus.dead_letters]
    assert sorted(found) == sorted(expected)
    # What is valid is handled as if the others had never been.
    assert bus.events(BreakerChanged) == undisturbed.events(BreakerChanged)
    assert "b" in {answer.scope for answer in bus.events(BreakerChanged)}
    for key in ("a", "b", "web"):
        assert bus.state("example", key) == undisturbed.state("example", key)


@pytest.mark.parametrize("topic", [SAMPLES, INVENTORY])
@pytest.mark.parametrize(
    ("key", "value", "headers"),
    [
        (b"a", b"{", [("x", None)]),
        (b"a", b"{", [(f"h{number}", b"x" * 70_000) for number in range(10)]),
        (b"a", b"{", [("x", b"\x00" * 700_000)]),
        (b"\xff" * 900_000, b"{", []),
    ],
)
def test_a_bad_record_with_any_headers_and_key_is_dead_lettered(
    topic: str, key: bytes, value: bytes, headers: list[Any]
) -> None:
    bus = bus_with_example()
    bus.put(topic, key, value, tuple(headers))
    bus.run()
    assert errors(bus) == [(topic, "json")]


@pytest.mark.parametrize("topic", [BUDGETS, INVENTORY])
@pytest.mark.parametrize("key", [b"\xff\xfe", b""])
def test_a_tombstone_of_a_key_that_is_no_text_is_dead_lettered(topic: str, key: bytes) -> None:
    bus = bus_with_example()
    bus.put(topic, key, None)
    bus.run()
    assert errors(bus) == [(topic, "wrong-key")]


@pytest.mark.parametrize("event", [sampled("a", 1), granted("a", 1), declared("web", "a")])
def test_a_record_with_another_key_than_its_event_is_dead_lettered(event: Event) -> None:
    bus = bus_with_example()
    (record,) = encode(event, "test")
    bus.put(record.topic, b"other", record.value, record.headers)
    bus.run()
    assert errors(bus) == [(record.topic, "wrong-key")]
    assert bus.events(BreakerChanged) == []


class RecordingWriter:
    """A bus of many partitions that only records."""

    def __init__(self) -> None:
        self.published: list[str] = []
        self.acknowledged: list[int] = []
        self.writes = 0
        """Times that an acknowledgement was waited for."""

    async def publish(self, records: Any) -> None:
        self.published += [record.topic for record in records]
        self.writes += 1

    async def commit(self, records: Any, *_: object) -> None:
        await self.publish(records)

    async def save(self, *_: object) -> None:
        self.writes += 1

    def acknowledge(self, deliveries: Any) -> None:
        self.acknowledged += [delivery.partition for delivery in deliveries]


def take_from(partition: int, value: bytes | None, topic: str) -> RecordingWriter:
    writer, clock = RecordingWriter(), ManualClock()
    engine = Engine(Service(Example(ExampleSettings())), writer, clock, Telemetry("example", clock))
    counts = {SAMPLES: PARTITIONS, BUDGETS: PARTITIONS}
    engine.expect_partitions(default_partitioner(counts))
    asyncio.run(engine.take(Delivery(topic, partition, 0, b"payments", value, (), 0.0)))
    return writer


@pytest.mark.parametrize(
    ("topic", "value"),
    [
        (SAMPLES, encode(sampled("payments", 1, source="bad"), "test")[0].value),
        (BUDGETS, encode(granted("payments", 1), "test")[0].value),
        (BUDGETS, None),
    ],
)
def test_a_record_is_used_in_the_partition_of_its_key_only(topic: str, value: bytes | None) -> None:
    every = list(range(PARTITIONS))
    right = DefaultPartitioner()(b"payments", every, every)
    letters = {
        partition: take_from(partition, value, topic).published.count(topic_of(Rejected).name)
        for partition in every
    }
    refused_anyway = topic == SAMPLES
    assert letters == {partition: int(refused_anyway or partition != right) for partition in every}


def test_a_record_in_a_wrong_partition_is_acknowledged() -> None:
    writer = take_from(0, encode(granted("payments", 1), "test")[0].value, BUDGETS)
    assert writer.published == [topic_of(Rejected).name]
    assert writer.acknowledged == [0]


def test_a_flood_of_parts_is_dead_lettered_beyond_the_most_and_counted() -> None:
    writer, clock = RecordingWriter(), ManualClock()
    telemetry = Telemetry("example", clock)
    engine = Engine(Service(Example(ExampleSettings())), writer, clock, telemetry)
    outcomes = topic_of(ScaleApplied).name

    async def flood() -> None:
        for tick in range(MOST_WAITING + 10):
            part = ScaleApplied(
                domain="a", tick=tick, time=TIME, decision_id="a", epoch=0, apps=[], outcomes=[],
                reasons=[], replicas=[], cpu_request=[], memory_request=[], replicas_before=[],
                part=Part(number=1, of=2),
            )  # fmt: skip
            (record,) = encode(part, "test")
            await engine.take(Delivery(outcomes, 5, tick, b"a", record.value, (), 0.0))

    asyncio.run(flood())
    assert writer.published == [topic_of(Rejected).name] * 10
    assert writer.acknowledged == [5] * 10
    values = telemetry.registry.get_sample_value
    assert values("hirl_dead_letters_total", {"topic": outcomes, "error": "part"}) == 10
    # Few ticks of a key are collected at a time.
    dropped = values("hirl_events_total", {"topic": outcomes, "outcome": "part-dropped"})
    assert dropped == MOST_WAITING + 10 - 4


def test_keys_beyond_the_most_are_dead_lettered_and_known_ones_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine_module, "_MOST_KEYS", 2)
    bus = bus_with_example()
    for domain in ("a", "b", "forged", "a"):
        bus.publish(granted(domain, 1), sampled(domain, 1))
    bus.run()
    assert errors(bus) == [(BUDGETS, "too-many-keys"), (SAMPLES, "too-many-keys")]
    bus.kill(Example.name)
    bus.start(Example.name)
    bus.publish(granted("b", 2), sampled("b", 2), sampled("forged", 2))
    bus.run()
    assert errors(bus)[2:] == [(SAMPLES, "too-many-keys")]
    assert {answer.scope for answer in bus.events(BreakerChanged)} == {"a", "b"}


def test_a_bad_record_of_a_reference_topic_gets_one_dead_letter_over_restarts() -> None:
    bus = bus_with_example()
    bus.put(INVENTORY, b"web", b"{")
    bus.run()
    for _ in range(3):
        bus.kill(Example.name)
        bus.start(Example.name)
        bus.run()
    counted = bus.telemetry(Example.name).registry.get_sample_value(
        "hirl_dead_letters_total", {"topic": INVENTORY, "error": "json"}
    )
    assert (len(bus.dead_letters), counted) == (1, 1.0)
    bus.put(INVENTORY, b"web", b"[")
    bus.run()
    assert len(bus.dead_letters) == 2


def test_remembered_rejections_are_bounded() -> None:
    bus = bus_with_example()
    for _ in range(1100):
        bus.put(INVENTORY, b"web", b"{")
    bus.run()
    assert len(bus.dead_letters) == 1100
    saved = bus.state(Example.name, f"!rejected/{INVENTORY}/0")
    assert saved is not None
    assert len(saved.split()) == 1001, "and the offset up to which older ones are remembered"


def test_a_flood_of_bad_reference_records_costs_a_few_writes() -> None:
    writer, clock = RecordingWriter(), ManualClock()
    engine = Engine(Service(Example(ExampleSettings())), writer, clock, Telemetry("example", clock))

    async def study() -> None:
        for offset in range(2500):
            await engine.take_reference(Delivery(INVENTORY, 0, offset, b"web", b"{", (), 0.0))
        await engine.finish_references()

    asyncio.run(study())
    assert len(writer.published) == 2500
    # A heartbeat behind them must not wait for thousands of acknowledgements.
    assert writer.writes <= 30


def test_a_flood_of_bad_reference_records_is_dead_lettered_once_over_restarts() -> None:
    bus = bus_with_example()
    for _ in range(2500):
        bus.put(INVENTORY, b"web", b"{")
    bus.run()
    bus.kill(Example.name)
    bus.start(Example.name)
    bus.run()
    assert len(bus.dead_letters) == 2500


def test_every_topic_that_services_share_by_domain_is_keyed_by_it() -> None:
    shared = [topic for topic in BY_NAME.values() if topic.partitions > 1]
    # Transitions and judgements of models are for the trainer, the registry and operators.
    assert {topic.key for topic in shared} == {"domain", "agent", "scope"}
