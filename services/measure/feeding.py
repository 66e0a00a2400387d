"""Samples of single pods as agents would send them, encoded in advance, sent at a given rate."""

import random
import time
from collections.abc import Sequence
from typing import Any, Final

from models.sim.config.scenario import load_scenario
from models.sim.world import World
from schemas.codec import Record, encode
from schemas.fields import Event
from schemas.metrics_sampled import PODS, MetricsSampled
from services._kit.kafka_python import KafkaProducer
from services._kit.ticks import axis_of
from services.devcluster.request import Request
from services.simcluster.cluster import SimulatedCluster

_SOURCE: Final = "bench"
_TIMEOUT_S: Final = 60.0
"""Timeout of the broker's acknowledgements."""
_MEASURED: Final = (
    "rps", "throughput", "errors", "latency_p50_s", "latency_p99_s", "cpu_cores", "memory_gib",
)  # fmt: skip


class Pods:
    """Apps by domain whose pods are sampled, with an inventory and a first tick."""

    def __init__(self, request: Request) -> None:
        cluster, _ = request.load()
        world = World(cluster, load_scenario(request.scenario, cluster), [request.seed])
        simulated = SimulatedCluster(world)
        first = simulated.observation()
        self._axis = axis_of(first.tick, first.time, cluster.tick_seconds)
        self.prologue: list[Event] = [*simulated.inventory(), *first.events]
        """Events to publish first: they declare the apps and their number of pods."""
        self.apps = {one.domain: one.apps for one in first.sampled}
        self._counts = {
            one.domain: {name: getattr(one, name) for name in PODS} for one in first.sampled
        }

    @property
    def most(self) -> int:
        """Samples per tick that leave every domain open until its last record.

        A domain is complete when each app has as many samples as ready pods; later samples are
        ignored, which costs nothing and would falsify the rate. Apps are drawn at random, so the
        app with the most pods completes last. Half of its pods is a safe limit.
        """
        every = sum(map(len, self.apps.values()))
        ready: list[list[int]] = [counts["ready"] for counts in self._counts.values()]
        last = min((max(counts) for counts in ready if counts), default=0)
        return max(1, every * last // 2)

    def records(self, tick: int, samples: int, per_record: int) -> list[Record]:
        """About `samples` samples of a tick; a domain's share is its share of apps.

        Each sample is of a random app, as on a node. The first record of a domain contains the
        pod counts of its apps, as a collector sends them each tick; the last record closes it.
        """
        # Seeded by tick: a measurement can be repeated with the same records.
        draws = random.Random(tick)
        every = sum(map(len, self.apps.values()))
        queues = [
            self._of_domain(domain, tick, max(1, samples * len(apps) // every), per_record, draws)
            for domain, apps in self.apps.items()
        ]
        return _shuffled(queues, draws)

    def _of_domain(
        self, domain: str, tick: int, samples: int, per_record: int, draws: random.Random
    ) -> list[Record]:
        # Rounded up: the last record is full, too, so all records cost the same.
        count = -(-samples // per_record)
        batches = [
            self._counts_record(domain, tick),
            *(
                self._batch(domain, tick, per_record, number == count - 1, draws)
                for number in range(count)
            ),
        ]
        return [record for batch in batches for record in encode(batch, _SOURCE)]

    def _counts_record(self, domain: str, tick: int) -> MetricsSampled:
        return MetricsSampled(
            tick=tick,
            time=self._axis.time_at(tick),
            domain=domain,
            source=_SOURCE,
            apps=self.apps[domain],
            **self._counts[domain],
        )

    def _batch(
        self, domain: str, tick: int, size: int, final: bool, draws: random.Random
    ) -> MetricsSampled:
        apps = draws.choices(self.apps[domain], k=size)
        columns: dict[str, Any] = {
            name: [round(draws.random(), 4) for _ in range(size)] for name in _MEASURED
        }
        return MetricsSampled(
            tick=tick,
            time=self._axis.time_at(tick),
            domain=domain,
            source=_SOURCE,
            final=final,
            apps=apps,
            pods=[f"{app}-{draws.getrandbits(32):08x}" for app in apps],
            **columns,
        )


class Feeder:
    """A producer that keeps a given rate."""

    def __init__(self, options: dict[str, Any]) -> None:
        # Large batches and one acknowledgement: the sender must not be the bottleneck.
        self._producer = KafkaProducer(**options, acks=1, linger_ms=5, batch_size=256 * 1024)

    def close(self) -> None:
        """Close the connection."""
        self._producer.close(_TIMEOUT_S)

    def publish(self, events: Sequence[Event]) -> None:
        """Send at full speed and wait for acknowledgement."""
        for event in events:
            for record in encode(event, _SOURCE):
                self._send(record)
        self._producer.flush(_TIMEOUT_S)

    def feed(self, records: Sequence[Record], seconds: float) -> float:
        """Send spread over `seconds`; return the real time until all are acknowledged."""
        began = time.monotonic()
        for number, record in enumerate(records):
            # By a schedule, not by pauses between records: lateness doesn't add up.
            ahead = began + seconds * number / len(records) - time.monotonic()
            if ahead > 0:
                time.sleep(ahead)
            self._send(record)
        self._producer.flush(_TIMEOUT_S)
        return time.monotonic() - began

    def _send(self, record: Record) -> None:
        self._producer.send(
            record.topic, record.value, key=record.key, headers=list(record.headers)
        )


def _shuffled(queues: list[list[Record]], draws: random.Random) -> list[Record]:
    """Records of all domains interleaved at random; each domain's stay in order."""
    order = [index for index, queue in enumerate(queues) for _ in queue]
    draws.shuffle(order)
    waiting = [iter(queue) for queue in queues]
    return [next(waiting[index]) for index in order]
