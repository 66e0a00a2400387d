import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import faust
import pytest
from faust.transport.drivers import aiokafka as driver
from faust.types import TP, Message

from schemas.breaker_changed import BreakerChanged
from schemas.metrics_sampled import MetricsSampled
from services._kit import kafka, plain
from services._kit.clock import SystemClock
from services._kit.faust_app import FaustGroup, make_app
from services._kit.handler import Service
from services._kit.kafka import SingleActiveAssignor, assignors, connection, state_record_of
from services._kit.records import Delivery
from services._kit.settings import KitSettings
from services._kit.state_records import StateRecord
from services._kit.telemetry import Telemetry
from services._kit.worker import Worker
from tests.kit_example_helpers import Example, ExampleSettings, ExampleState


class Sent:
    """A producer that remembers."""

    def __init__(self, **options: object) -> None:
        self.options = options
        self.records: list[tuple[bytes | None, int | None, list[tuple[str, bytes]]]] = []

    async def send_and_wait(  # the names are aiokafka's
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes,
        partition: int | None,
        headers: list[tuple[str, bytes]],
    ) -> None:
        del topic, key
        self.records.append((value, partition, headers))


@pytest.fixture
def writer(monkeypatch: pytest.MonkeyPatch) -> kafka.KafkaWriter:
    monkeypatch.setattr(kafka, "AIOKafkaProducer", Sent)
    return kafka.KafkaWriter("soldier", KitSettings(), by_domain=True)


def sent(writer: kafka.KafkaWriter) -> Sent:
    producer: object = writer._producer
    assert isinstance(producer, Sent)
    return producer


def test_the_producer_writes_once_and_waits_for_every_replica(writer: kafka.KafkaWriter) -> None:
    options = sent(writer).options
    assert (options["acks"], options["enable_idempotence"]) == ("all", True)


def test_failure_counts_go_to_the_partition_of_their_key(writer: kafka.KafkaWriter) -> None:
    asyncio.run(writer.save("a", StateRecord(b"1", (("header", b"value"),)), 3))
    asyncio.run(writer.save("a", None, 3))
    assert sent(writer).records == [(b"1", 3, [("header", b"value")]), (None, 3, [])]


def test_a_record_of_a_state_topic_is_read_as_it_was_sent() -> None:
    delivery = Delivery("state", 3, 0, b"a", b"1", [("header", b"value")], 0.0)
    assert state_record_of(delivery) == StateRecord(b"1", [("header", b"value")])
    assert state_record_of(delivery._replace(value=None)) is None


def test_credentials_and_certificates_are_used_only_where_configured(tmp_path: Path) -> None:
    plain = connection(KitSettings(kafka_user="soldier", kafka_password="x"))  # noqa: S106
    assert plain == {"bootstrap_servers": "127.0.0.1:9092", "security_protocol": "PLAINTEXT"}
    with pytest.raises(FileNotFoundError):
        connection(KitSettings(kafka_security="SSL", kafka_ca=str(tmp_path / "none.pem")))
    sasl = connection(KitSettings(kafka_security="SASL_SSL", kafka_user="soldier"))
    assert sasl["sasl_mechanism"] == "SCRAM-SHA-512"
    assert sasl["ssl_context"].check_hostname


def worker(handler: Example, settings: KitSettings) -> Worker[ExampleState]:
    clock = SystemClock()
    return Worker(Service(handler), settings, clock, Telemetry("example", clock))


@pytest.mark.usefixtures("writer")
def test_inputs_with_different_numbers_of_partitions_are_refused() -> None:
    class Mismatched(Example):
        inputs = (MetricsSampled, BreakerChanged)

    with pytest.raises(TypeError, match="differ in partitions"):
        worker(Mismatched(ExampleSettings()), KitSettings())


@pytest.mark.usefixtures("writer")
def test_the_faust_app_is_a_static_member_and_opens_no_port() -> None:
    settings = KitSettings(instance="2", kafka_bootstrap="a:1, b:2", kafka_allow_plaintext=True)
    app = make_app(worker(Example(ExampleSettings()), settings), lambda _: None)
    assert app.conf.id == f"hirl-{Example.name}"
    assert app.conf.consumer_group_instance_id == f"{Example.name}-2"
    assert [url.port for url in app.conf.broker] == [1, 2]
    assert not app.boot_strategy._should_enable_web()
    assert not app.conf.stream_wait_empty
    assert app.conf.broker_session_timeout == 6.0


class Fetched:
    """The stream of an agent that has one record."""

    def __init__(self, message: Message) -> None:
        self._message = message

    def noack(self) -> "Fetched":
        return self

    async def events(self) -> AsyncIterator[SimpleNamespace]:
        yield SimpleNamespace(message=self._message)


@pytest.mark.usefixtures("writer")
def test_records_in_flight_are_kept_by_position_without_their_values(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken: list[Delivery] = []
    working = worker(Example(ExampleSettings()), KitSettings())

    async def dispatch(delivery: Delivery, term: int) -> None:
        del term
        taken.append(delivery)

    monkeypatch.setattr(working, "dispatch", dispatch)
    group = FaustGroup(working)
    message = Message("t", 1, 7, 0.0, 0, [], b"a", b"a large frame", None)
    asyncio.run(group._consume(cast(Any, Fetched(message))))
    assert [one.value for one in taken] == [b"a large frame"]
    assert list(group._in_flight) == [("t", 1, 7)]
    assert group._in_flight["t", 1, 7].value is None


@contextmanager
def consumer_of(app: faust.App) -> Iterator[Any]:
    """The consumer of an app, in a running event loop; its thread is not started."""
    consumer: Any = app.consumer
    yield consumer
    consumer._thread.thread_loop.close()


@pytest.mark.usefixtures("writer")
def test_offsets_are_committed_up_to_the_first_record_in_flight_whatever_gaps_there_are() -> None:
    """Faust alone commits past a record that follows a gap, such as a transaction's marker."""
    group = FaustGroup(worker(Example(ExampleSettings()), KitSettings()))
    partition = TP("t", 1)

    def acknowledge(consumer: Any, *offsets: int) -> int | None:
        for at in offsets:
            del group._in_flight["t", 1, at]
            consumer._acked[partition].append(at)
        return cast(int | None, consumer._new_offset(partition))

    async def commits() -> list[int | None]:
        with consumer_of(group._app) as consumer:
            for at in (0, 4, 6, 8):
                await consumer._add_gap(partition, at - 1, at)
                group._in_flight["t", 1, at] = Message("t", 1, at, 0.0, 0, [], b"a", None, None)
                group._read[partition] = at + 1
            found = [acknowledge(consumer, *offsets) for offsets in ((0, 6), (8,), (4,))]
            assert not consumer._acked[partition]
            assert not consumer._gap
            return found

    assert asyncio.run(commits()) == [4, 4, 9]


class Consumer:
    """A consumer that never connects."""

    def __init__(self, **options: Any) -> None:
        self._isolation_level = options.get("isolation_level")


@pytest.mark.usefixtures("writer")
def test_every_consumer_reads_committed_records_only(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (kafka, plain):
        monkeypatch.setattr(module, "AIOKafkaConsumer", Consumer)
    create = "_create_worker_consumer"
    monkeypatch.setattr(driver.AIOKafkaConsumerThread, create, lambda *_: Consumer())
    working = worker(Example(ExampleSettings()), KitSettings())

    async def levels() -> list[str]:
        with consumer_of(make_app(working, lambda _: None)) as by_faust:
            made: list[Any] = [
                kafka.Reader(KitSettings())._consumer,
                plain.PlainGroup(working)._consumer,
                by_faust._thread._create_worker_consumer(None),
            ]
            return [one._isolation_level for one in made]

    assert asyncio.run(levels()) == ["read_committed"] * 3


TOPICS = ["left", "right"]
PARTITIONS = set(range(8))
CLUSTER: Any = SimpleNamespace(partitions_for_topic=lambda _: PARTITIONS)


def assigned(kind: Any, members: list[str]) -> dict[str, dict[str, list[int]]]:
    found = kind.assign(CLUSTER, {member: kind.metadata(TOPICS) for member in members})
    return {member: dict(answer.assignment) for member, answer in found.items()}


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8])
def test_by_domain_a_member_has_the_same_partitions_of_every_topic(count: int) -> None:
    members = [f"soldier-{number}" for number in range(count)]
    found = assigned(assignors(by_domain=True)[0], members)
    for topics in found.values():
        assert topics["left"] == topics["right"]
    assert sorted(number for topics in found.values() for number in topics["left"]) == list(
        range(8)
    )


def test_for_the_cluster_the_first_member_has_everything() -> None:
    found = assigned(SingleActiveAssignor, ["commander-1-uuid", "commander-0-uuid"])
    everything = sorted(PARTITIONS)
    assert found == {
        "commander-0-uuid": {"left": everything, "right": everything},
        "commander-1-uuid": {},
    }


def test_a_cluster_wide_service_can_join_members_of_the_first_release() -> None:
    preferred, *others = assignors(by_domain=False)
    assert preferred is SingleActiveAssignor
    assert "range" in {kind.name for kind in others}
