"""Acknowledged records survive the loss of one of three brokers."""

from collections.abc import Callable

from kafka import TopicPartition

from services._kit.kafka_python import KafkaConsumer, KafkaProducer
from services.devcluster.connect import Running
from services.devcluster.kafka import cluster

TOPIC = "hirl.scale-planned.v1"
RECORDS = 300
KILLED_AT = 100


def test_no_acknowledged_record_is_lost_when_one_of_three_brokers_is_killed(
    start_kafka: Callable[..., Running],
) -> None:
    kafka = start_kafka("three", brokers=3)
    values = [f"{number}".encode() for number in range(RECORDS)]
    with KafkaProducer(**kafka.options(), acks="all", delivery_timeout_ms=60_000) as producer:
        sent = []
        for number, value in enumerate(values):
            sent.append(producer.send(TOPIC, key=value, value=value))
            if number == KILLED_AT:
                # Wait for one acknowledgement, so that the kill falls between records.
                sent[-1].get(30)
                cluster.kill_broker(2, kafka.home)
        for acknowledged in sent:
            acknowledged.get(60)
    assert sorted(_read(kafka)) == sorted(values)

    cluster.restart_missing(kafka.home)
    assert cluster.running(kafka.home) is not None
    # Three brokers need too much memory to keep them for the rest of the session.
    assert cluster.stop(kafka.home, wipe=True, timeout_s=0) == 3


def _read(kafka: Running) -> list[bytes]:
    with KafkaConsumer(**kafka.options(), consumer_timeout_ms=10_000) as consumer:
        partitions = [
            TopicPartition(TOPIC, number) for number in consumer.partitions_for_topic(TOPIC)
        ]
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        ends = consumer.end_offsets(partitions)
        assert sum(ends.values()) == RECORDS
        return [next(consumer).value for _ in range(RECORDS)]
