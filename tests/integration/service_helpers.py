"""A whole service as a process on a real Kafka and a real API server, and what kills them."""

import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from schemas.codec import encode
from schemas.fields import Event
from schemas.topics import topic_of
from services._kit.kafka_python import KafkaConsumer, KafkaProducer
from services._kit.records import Delivery, EventReader
from services.devcluster.connect import Running
from services.devcluster.kafka import cluster
from services.lab import controlplane
from services.lab.controlplane import API_SERVER, Lab
from tests.integration.lab_helpers import ROOT

ANSWER_S: Final = 180.0
"""Kernels may have to be compiled first."""


@dataclass
class ServiceProcess:
    """A service that can be killed at any time, and is started again."""

    name: str
    kafka: Running
    log: Path
    settings: Mapping[str, str]
    kills: int = 0
    _child: "subprocess.Popen[bytes] | None" = None

    def start(self) -> None:
        """A process of the same name: it gets its partitions back at once."""
        with self.log.open("ab") as output:
            self._child = subprocess.Popen(
                [sys.executable, "-m", f"services.{self.name}"],
                cwd=ROOT,
                stdout=output,
                stderr=output,
                env={
                    **{name: text for name, text in os.environ.items() if name[:5] != "HIRL_"},
                    "HIRL_KAFKA_BOOTSTRAP": self.kafka.bootstrap,
                    "HIRL_INSTANCE": "1",
                    "OPENBLAS_NUM_THREADS": "1",
                    **self.settings,
                },
            )

    def kill(self) -> None:
        """End it as a crash would, and start the next one."""
        self.stop()
        self.kills += 1
        self.start()

    def stop(self) -> None:
        """End it as a crash would."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()

    def check(self) -> None:
        """Fail with its log if it has ended by itself."""
        assert self._child is not None
        assert self._child.poll() is None, self.log.read_text()[-3000:]


@dataclass
class Bus:
    """What a test publishes, and reads of one type."""

    kafka: Running
    _producer: KafkaProducer = field(init=False)

    def __post_init__(self) -> None:
        # Patient: the broker is killed, and nothing that was published may be missing.
        self._producer = KafkaProducer(
            **self.kafka.options(), acks="all", retries=1_000, delivery_timeout_ms=120_000,
            request_timeout_ms=5_000, max_block_ms=120_000, reconnect_backoff_max_ms=500,
        )  # fmt: skip

    def publish(self, *events: Event) -> None:
        """Send, without waiting for the broker."""
        for event in events:
            for one in encode(event, "test"):
                self._producer.send(
                    one.topic, key=one.key, value=one.value, headers=list(one.headers)
                )

    def flush(self) -> None:
        """Wait for the broker."""
        self._producer.flush(timeout=120)

    def close(self) -> None:
        self._producer.close(timeout=1)


class Published:
    """Events of one type, as consumers that read committed records get them."""

    def __init__(self, kafka: Running, kind: type[Event]) -> None:
        self.events: list[Event] = []
        self._topic, self._kind, self._intake = topic_of(kind).name, kind, EventReader()
        self._consumer = KafkaConsumer(
            **kafka.options(), isolation_level="read_committed", auto_offset_reset="earliest",
            enable_auto_commit=False, reconnect_backoff_max_ms=500,
        )  # fmt: skip
        self._consumer.subscribe([self._topic])

    def poll(self) -> None:
        """Take in what has arrived."""
        for records in self._consumer.poll(timeout_ms=100).values():
            for one in records:
                delivery = Delivery(
                    one.topic, one.partition, one.offset, one.key, one.value, tuple(one.headers),
                    one.timestamp / 1000,
                )  # fmt: skip
                found = self._intake.read(delivery)
                if found is not None and isinstance(found.event, self._kind):
                    self.events.append(found.event)

    def close(self) -> None:
        self._consumer.close()


@dataclass
class Killer:
    """Kills the service, the API server and the broker, one at a time."""

    service: ServiceProcess
    lab: Lab
    rng: random.Random
    killed: Counter[str] = field(default_factory=Counter)

    def kill(self, what: str) -> None:
        """At a random moment of the next half second; everything runs again afterwards."""
        time.sleep(self.rng.uniform(0.0, 0.5))
        self.killed[what] += 1
        if what == "service":
            self.service.kill()
        elif what == "API server":
            controlplane.kill(self.lab, API_SERVER)
            time.sleep(self.rng.uniform(0.0, 2.0))
            self.lab = controlplane.restart(Path(self.lab.home))
        else:
            home = self.service.kafka.home
            cluster.kill_broker(self._broker(), home)
            time.sleep(self.rng.uniform(0.0, 2.0))
            cluster.restart_missing(home)

    def _broker(self) -> int:
        (node,) = self.service.kafka.cluster.nodes
        return node.id
