"""Samples of single pods as agents would send them, encoded beforehand and sent at a given rate."""

import random
import time
from collections.abc import Sequence
from typing import Any, Final

from kafka import KafkaProducer

from models.sim.config.scenario import load_scenario
from models.sim.world import World
from schemas.codec import Record, encode
from schemas.columns import PODS
from schemas.fields import Event
from schemas.metrics_sampled import MetricsSampled
from services.devcluster.request import Request
from services.simcluster.cluster import Observed, SimulatedCluster

_SOURCE: Final = "bench"
_PATIENCE_S: Final = 60.0
_MEASURED: Final = (
    "rps", "throughput", "errors", "latency_p50_s", "latency_p99_s", "cpu_cores", "memory_gib",
)  # fmt: skip


class Pods:
    """What is there to be sampled: apps by domain, with an inventory and a first tick."""

    def __init__(self, request: Request) -> None:
        cluster, _ = request.described()
        world = World(cluster, load_scenario(request.scenario, cluster), [request.seed])
        simulated = SimulatedCluster(world)
        self._first: Observed = simulated.observation()
        self.prologue: list[Event] = [*simulated.inventory(), *self._first.events]
        """To be published first: without it, samples of pods belong to nothing, and how many pods
        an app has is not known."""
        self.apps = {one.domain: one.apps for one in self._first.sampled}
        self._counts = {
            one.domain: {name: getattr(one, name) for name in PODS} for one in self._first.sampled
        }

    @property
    def most(self) -> int:
        """Samples of a tick that surely leave every domain open to its last record.

        A domain is complete when each app has as many samples as it has ready pods, and what comes
        then is ignored, which costs nothing. Samples are of apps by chance, so the app with the
        most pods is the last; by half of its pods it has them with no chance worth the name.
        """
        every = sum(map(len, self.apps.values()))
        ready: list[list[int]] = [counts["ready"] for counts in self._counts.values()]
        last = min((max(counts) for counts in ready if counts), default=0)
        return max(1, every * last // 2)

    def records(self, tick: int, samples: int, per_record: int) -> list[Record]:
        """About so many samples of a tick; the domains have as many as they have apps.

        Each sample is of an app by chance, as on a node. The first record of a domain says how
        many pods its apps have, as a collector does in each tick; the last one closes it.
        """
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
        count = -(-samples // per_record)
        batches = [
            self._told(domain, tick),
            *(
                self._batch(domain, tick, per_record, number == count - 1, draws)
                for number in range(count)
            ),
        ]
        return [record for batch in batches for record in encode(batch, _SOURCE)]

    def _told(self, domain: str, tick: int) -> MetricsSampled:
        return MetricsSampled(
            tick=tick,
            time=self._first.time,
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
            time=self._first.time,
            domain=domain,
            source=_SOURCE,
            final=final,
            apps=apps,
            pods=[f"{app}-{draws.getrandbits(32):08x}" for app in apps],
            **columns,
        )


class Feeder:
    """A producer that keeps a pace."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._producer = KafkaProducer(**options, acks=1, linger_ms=5, batch_size=256 * 1024)

    def close(self) -> None:
        """Disconnect."""
        self._producer.close(_PATIENCE_S)

    def publish(self, events: Sequence[Event]) -> None:
        """At once, and acknowledged."""
        for event in events:
            for record in encode(event, _SOURCE):
                self._send(record)
        self._producer.flush(_PATIENCE_S)

    def feed(self, records: Sequence[Record], seconds: float) -> float:
        """Spread over so many seconds; how long it really took, until all are acknowledged."""
        began = time.monotonic()
        for number, record in enumerate(records):
            ahead = began + seconds * number / len(records) - time.monotonic()
            if ahead > 0:
                time.sleep(ahead)
            self._send(record)
        self._producer.flush(_PATIENCE_S)
        return time.monotonic() - began

    def _send(self, record: Record) -> None:
        self._producer.send(
            record.topic, record.value, key=record.key, headers=list(record.headers)
        )


def _shuffled(queues: list[list[Record]], draws: random.Random) -> list[Record]:
    """Records of all domains by turns, each domain's in their order."""
    order = [place for place, queue in enumerate(queues) for _ in queue]
    draws.shuffle(order)
    waiting = [iter(queue) for queue in queues]
    return [next(waiting[place]) for place in order]
