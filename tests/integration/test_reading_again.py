"""Faust drops what it fetches during a rebalance; nothing of that may be lost."""

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from schemas.codec import encode
from schemas.metrics_sampled import MetricsSampled
from schemas.topics import state_topic, topic_of
from services._kit.faust_app import read_again
from services._kit.settings import load
from services.devcluster.connect import Running
from tests.kit_example_helpers import ExampleSettings, sampled
from tests.kit_kafka_helpers import make_topics, send

SAMPLES = topic_of(MetricsSampled)


async def fetched(consumer: AIOKafkaConsumer) -> dict[TopicPartition, list[int]]:
    """Offsets of everything there is, by partition."""
    found: dict[TopicPartition, list[int]] = {}
    while batch := await consumer.getmany(timeout_ms=1_000):
        for partition, records in batch.items():
            found.setdefault(partition, []).extend(record.offset for record in records)
    return found


@pytest.mark.parametrize("committed", [None, 0])
def test_dropped_records_are_read_again_where_nothing_was_read_before(
    kafka: Running, committed: int | None
) -> None:
    settings, _ = load("example", ExampleSettings, {"HIRL_KAFKA_BOOTSTRAP": kafka.bootstrap})
    partitions = [TopicPartition(SAMPLES.name, number) for number in range(SAMPLES.partitions)]

    async def read_twice() -> tuple[dict[TopicPartition, list[int]], ...]:
        await make_topics(settings, state_topic("example"))
        await send(settings, list(encode(sampled("read-again", 1), "test")))
        async with AIOKafkaConsumer(
            bootstrap_servers=kafka.bootstrap,
            group_id=f"read-again-{committed}",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer:
            consumer.assign(partitions)
            if committed is not None:
                await consumer.commit(dict.fromkeys(partitions, committed))
            dropped = await fetched(consumer)
            await read_again(consumer)
            return dropped, await fetched(consumer)

    dropped, again = asyncio.run(read_twice())
    assert dropped
    assert again == dropped
