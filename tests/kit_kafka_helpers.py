"""The example service as a process on a real broker, for the conformance suite."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, TypeVar
from uuid import uuid4

from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from schemas.breaker_changed import BreakerChanged
from schemas.codec import Record, encode
from schemas.fields import Event
from schemas.rejected import Rejected
from schemas.topics import DOMAIN_PARTITIONS, TOPICS, state_topic, topic_of
from services._kit.kafka import Reader, connection, state_record_of
from services._kit.records import Delivery, EventReader
from services._kit.settings import KitSettings, load
from services._kit.state_records import FoundStates
from tests.kit_example_helpers import ExampleSettings

E = TypeVar("E", bound=Event)
TIMEOUT_SECONDS = 60.0
QUIET_SECONDS = 1.0
ROOT = Path(__file__).parents[1]


class OnKafka:
    """The example in its own process; each test has its own group, state topic and domains."""

    def __init__(self, connect: dict[str, str], adapter: str, folder: Path) -> None:
        """Connect with these HIRL_KAFKA_* variables."""
        self._connect = connect
        self._settings, _ = load("example", ExampleSettings, connect)
        self.name = f"example-{uuid4().hex[:8]}"
        self.prefix = f"{self.name}."
        self._adapter = adapter
        self._folder = folder
        self._journal = folder / "journal"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._output: IO[bytes] = (folder / "output").open("ab")
        asyncio.run(make_topics(self._settings, state_topic(self.name)))

    def start(
        self,
        *,
        patient: bool = True,
        instance: str = "0",
        scope: str = "domain",
        wait_seconds: float | None = None,
    ) -> None:
        wait = wait_seconds or (100 if patient else 0.5)
        self._processes[instance] = subprocess.Popen(
            [sys.executable, "-m", "tests.kit_example_helpers"],
            cwd=ROOT,
            stderr=self._output,
            env={
                # Settings of the shell must not reach the service.
                **{name: text for name, text in os.environ.items() if name[:5] != "HIRL_"},
                "EXAMPLE_NAME": self.name,
                "EXAMPLE_SCOPE": scope,
                **self._connect,
                "HIRL_ADAPTER": self._adapter,
                "HIRL_INSTANCE": instance,
                "HIRL_EXAMPLE_PREFIX": self.prefix,
                "HIRL_EXAMPLE_JOURNAL": str(self._journal),
                "HIRL_EXAMPLE_WAIT_SECONDS": str(wait),
            },
        )

    revive = start

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def send_signal(self, instance: str, number: signal.Signals) -> None:
        self._processes[instance].send_signal(number)

    def exit_status(self, instance: str) -> int | None:
        return self._processes[instance].poll()

    def terminate(self) -> int:
        return self._end(signal.SIGTERM)

    def failed(self) -> None:
        assert self._processes["0"].wait(TIMEOUT_SECONDS) == 1

    def partitions(self, instance: str) -> list[int] | None:
        """Partitions of a process according to its last log line about them; None before that."""
        assigned = [message for message in self.messages(instance) if "has partitions" in message]
        return json.loads(assigned[-1].split("partitions ")[1]) if assigned else None

    def messages(self, instance: str) -> list[str]:
        """All that a process logged."""
        lines = [json.loads(line) for line in self._lines()]
        return [line["message"] for line in lines if line["instance"] == instance]

    def states(self) -> dict[str, bytes]:
        """What a restart would find, by key."""
        return read_states(self._settings, self.name)

    def publish(self, *events: Event) -> None:
        records = [record for event in events for record in encode(event, "test")]
        asyncio.run(send(self._settings, records))

    def put(self, topic: str, key: bytes, value: bytes) -> None:
        asyncio.run(send(self._settings, [Record(topic, key, value, ())]))

    def answers(self, count: int) -> list[BreakerChanged]:
        self.until(lambda: len(self._answers()) >= count)
        # A service that publishes too much should be caught, so wait for more.
        time.sleep(QUIET_SECONDS)
        return self._answers()

    def dead_letters(self, count: int) -> list[Rejected]:
        self.until(lambda: len(self._letters()) >= count)
        return self._letters()

    def writes(self, count: int) -> list[str]:
        self.until(lambda: len(self._written()) >= count)
        return self._written()

    def close(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()
        self._output.close()
        asyncio.run(drop_topic(self._settings, state_topic(self.name)))

    def _end(self, number: signal.Signals) -> int:
        self._processes["0"].send_signal(number)
        return self._processes["0"].wait(TIMEOUT_SECONDS)

    def _lines(self) -> list[str]:
        return (self._folder / "output").read_text().splitlines()

    def _answers(self) -> list[BreakerChanged]:
        found = read_all(self._settings, BreakerChanged)
        return [event for event in found if event.scope.startswith(self.prefix)]

    def _letters(self) -> list[Rejected]:
        # Tests share the topic of dead letters, and this service also rejects malformed records of
        # other tests.
        found = read_all(self._settings, Rejected)
        return [
            event
            for event in found
            if event.service == self.name and event.key.startswith(self.prefix)
        ]

    def _written(self) -> list[str]:
        return self._journal.read_text().splitlines() if self._journal.exists() else []

    def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not condition():
            assert time.monotonic() < deadline, "\n".join(self._lines()[-20:])
            time.sleep(0.1)


async def send(settings: KitSettings, records: Sequence[Record]) -> None:
    """Write records, in order."""
    async with AIOKafkaProducer(**connection(settings), acks="all") as producer:
        for record in records:
            await producer.send(
                record.topic, record.value, key=record.key, headers=list(record.headers)
            )


async def make_topics(settings: KitSettings, *states: str) -> None:
    """Create missing topics of the bus, and the given state topics."""
    admin = AIOKafkaAdminClient(**connection(settings))
    await admin.start()
    existing = set(await admin.list_topics())
    wanted = {topic.name: topic.partitions for topic in TOPICS}
    wanted |= dict.fromkeys(states, DOMAIN_PARTITIONS)
    missing = [NewTopic(name, n, 1) for name, n in wanted.items() if name not in existing]
    if missing:
        await admin.create_topics(missing)
    await admin.close()


async def drop_topic(settings: KitSettings, name: str) -> None:
    """Delete a topic that a test has created."""
    admin = AIOKafkaAdminClient(**connection(settings))
    await admin.start()
    await admin.delete_topics([name])
    await admin.close()


def read_states(settings: KitSettings, service: str) -> dict[str, bytes]:
    """The newest state of each key of a service."""

    async def read() -> dict[str, bytes]:
        found = FoundStates()
        async with Reader(settings) as reader:
            async for one in reader.to_end([state_topic(service)]):
                found.add(one.key.decode(), state_record_of(one))
        return {key: found.join(key) for key in found}

    return asyncio.run(read())


def read_all(settings: KitSettings, kind: type[E]) -> list[E]:
    """Every event of a type that is in its topic now."""

    async def read() -> list[Delivery]:
        async with Reader(settings) as reader:
            return [found async for found in reader.to_end([topic_of(kind).name])]

    intake = EventReader()
    arrivals = [intake.read(delivery) for delivery in asyncio.run(read())]
    return [one.event for one in arrivals if one and isinstance(one.event, kind)]
