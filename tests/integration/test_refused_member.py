"""A process that its consumer group refuses ends, so that it is restarted, instead of waiting."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from schemas.metrics_sampled import MetricsSampled
from schemas.topics import app_id, state_topic, topic_of
from services._kit.settings import load
from services.devcluster.connect import Running
from tests.kit_example_helpers import ExampleSettings
from tests.kit_kafka_helpers import ROOT, TIMEOUT_SECONDS, make_topics

NAME = "refused"


async def _ended_beside_a_stranger(kafka: Running, log: Path) -> int:
    """Exit status of a service whose group shares its partitions in another way."""
    connect = {"HIRL_KAFKA_BOOTSTRAP": kafka.bootstrap}
    settings, _ = load(NAME, ExampleSettings, connect)
    await make_topics(settings, state_topic(NAME))
    async with AIOKafkaConsumer(
        topic_of(MetricsSampled).name,
        bootstrap_servers=kafka.bootstrap,
        group_id=app_id(NAME),
        partition_assignment_strategy=[RoundRobinPartitionAssignor],
    ) as stranger:
        await stranger.getmany(timeout_ms=1_000)
        environment = {name: text for name, text in os.environ.items() if name[:5] != "HIRL_"}
        with log.open("wb") as output:
            process = subprocess.Popen(  # noqa: ASYNC220  it is waited for in a thread
                [sys.executable, "-m", "tests.kit_example_helpers"],
                cwd=ROOT,
                stderr=output,
                env={**environment, **connect, "EXAMPLE_NAME": NAME, "HIRL_EXAMPLE_PREFIX": NAME},
            )
            try:
                return await asyncio.to_thread(process.wait, TIMEOUT_SECONDS)
            finally:
                process.kill()
                process.wait()


def test_a_process_that_its_group_refuses_ends(kafka: Running, tmp_path: Path) -> None:
    log = tmp_path / "log"
    status = asyncio.run(_ended_beside_a_stranger(kafka, log))
    assert status == 1, log.read_text()
    assert "InconsistentGroupProtocol" in log.read_text().splitlines()[-1]
