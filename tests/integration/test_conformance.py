import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kafka import TopicPartition

from schemas.fields import Event
from schemas.metrics_sampled import MetricsSampled
from schemas.topics import topic_of
from services.admin import client
from services.admin.credentials import read_credentials
from services.admin.reader import TopicReader
from services.devcluster.connect import Running
from services.devcluster.kafka.security import ADMIN, credentials_file
from tests.kit_conformance_helpers import Conformance
from tests.kit_example_helpers import granted, sampled
from tests.kit_kafka_helpers import OnKafka

Start = Callable[[dict[str, str]], OnKafka]


# Faust serves, so it is always tested; plain aiokafka is for comparison and tested on request.
ADAPTERS = ("faust", "plain") if os.environ.get("EVERY_ADAPTER") else ("faust",)


@pytest.fixture(params=ADAPTERS)
def example(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Start]:
    made: list[OnKafka] = []

    def make(connect: dict[str, str]) -> OnKafka:
        made.append(OnKafka(connect, request.param, tmp_path))
        return made[-1]

    yield make
    for bus in made:
        bus.close()


@pytest.fixture
def bus(kafka: Running, example: Start) -> OnKafka:
    return example({"HIRL_KAFKA_BOOTSTRAP": kafka.bootstrap})


class TestKafka(Conformance):
    """On a real broker, with the service in a process of its own."""


def test_inputs_that_expire_before_they_are_read_are_counted_in_the_log_and_skipped(
    kafka: Running, bus: OnKafka
) -> None:
    domain = f"{bus.prefix}a"
    bus.start()
    bus.publish(granted(domain, 1), sampled(domain, 1))
    bus.answers(1)
    # A good end commits what was read.
    assert bus.terminate() == 0
    bus.publish(*(sampled(domain, tick) for tick in range(2, 7)))
    expire(kafka, MetricsSampled)
    bus.revive()
    bus.publish(granted(domain, 7), sampled(domain, 7))
    assert [answer.tick for answer in bus.answers(2)] == [1, 7]
    lost = [line for line in bus.messages("0") if "were deleted before" in line]
    assert len(lost) == 1
    assert "hirl.metrics-sampled.v1" in lost[0]
    assert int(lost[0].split(" ")[0]) >= 5


def expire(kafka: Running, kind: type[Event]) -> None:
    """Delete every record of a topic, as its retention does."""
    with TopicReader(kafka.options()) as reader:
        ends = reader.ends([topic_of(kind).name])
    admin = client.admin(kafka.options())
    admin.delete_records({TopicPartition(*at): end for at, end in ends.items() if end})
    admin.close()


def test_a_second_process_takes_over_within_seconds_of_a_kill(bus: OnKafka) -> None:
    domains = [f"{bus.prefix}{name}" for name in "abcdefgh"]
    bus.start()
    bus.publish(*(event(domain, 1) for domain in domains for event in (granted, sampled)))
    bus.answers(8)
    bus.start(instance="1")
    # Half of the eight partitions have moved to the second process.
    bus.until(lambda: len(bus.partitions("1") or ()) == 4)
    bus.kill()
    killed = time.monotonic()
    bus.publish(*(event(domain, 2) for domain in domains for event in (granted, sampled)))
    answers = bus.answers(16)
    # The group notices a dead member after 6 s; the rest is for a busy machine.
    assert time.monotonic() - killed < 30.0
    newest = {answer.scope: answer.since_tick for answer in answers}
    assert newest == dict.fromkeys(domains, 2)


def test_with_cluster_scope_one_process_works_and_the_other_stands_by(
    bus: OnKafka,
) -> None:
    everything = list(range(8))
    bus.start(scope="cluster")
    bus.until(lambda: bus.partitions("0") == everything)
    bus.start(instance="1", scope="cluster")
    bus.until(lambda: bus.partitions("1") == [])
    assert bus.partitions("0") == everything
    bus.kill()
    bus.until(lambda: bus.partitions("1") == everything)


def test_services_connect_with_a_password_over_tls(secure_kafka: Running, example: Start) -> None:
    bus = example(read_credentials(credentials_file(secure_kafka.home, ADMIN)))
    domain = f"{bus.prefix}a"
    bus.start()
    bus.publish(granted(domain, 1), sampled(domain, 1))
    assert [answer.reason for answer in bus.answers(1)] == ["joined"]
    assert bus.terminate() == 0
