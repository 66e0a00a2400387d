"""The faults: to processes, to the broker, to the target, and on the topics.

A fault is injected, lasts for a while, and is over when its function returns; what it could have
damaged is recorded by the caller as a window of ticks.
"""

import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from kafka import KafkaProducer
from kafka.errors import KafkaError

from schemas.domain_observed import DomainObserved
from schemas.scale_planned import ScalePlanned
from schemas.topics import TOPICS
from services.admin.reader import TopicReader
from services.devcluster import record
from services.devcluster.connect import options_for_home
from services.devcluster.kafka import cluster as kafka_cluster
from services.devcluster.probe import read_progress
from services.devcluster.record import COLLECTOR
from services.devcluster.specs import DECIDING
from services.measure.chaos import records
from services.measure.chaos.flaky_target import BEHAVIOURS, FlakyTarget
from services.measure.chaos.records import HostileRecord

VICTIMS: Final = (COLLECTOR, *DECIDING)
_PAUSE_S: Final = (10.0, 20.0)
"""Longer than a session timeout: the group moves on without the paused process."""
_OUTAGE_S: Final = (5.0, 30.0)
_TARGET_S: Final = 10.0
_BURST: Final = 400
"""Records of one fault on the topics."""


class Place(NamedTuple):
    """The system that faults are injected into."""

    root: Path
    target: FlakyTarget
    rng: random.Random

    @property
    def run(self) -> record.Run:
        """The system as its supervisor records it now."""
        return record.running(self.root)

    @property
    def options(self) -> dict[str, Any]:
        """Arguments for a client of its Kafka, as administrator."""
        return options_for_home(Path(self.run.kafka_home))

    def tick(self) -> int:
        """The present tick; 0 before the cluster answers."""
        progress = read_progress(self.run)
        return 0 if progress is None else progress.tick


Injection = Callable[[Place], frozenset[str]]
"""Injects a fault and returns the busy apps that it called idle."""


class Fault(NamedTuple):
    """One kind of fault."""

    name: str
    inject: Injection


def all_faults(brokers: int) -> list[Fault]:
    """Every kind, for a cluster of this many brokers."""
    found = [Fault(f"kill {name}", _killing(name)) for name in VICTIMS]
    found += [Fault(f"pause {name}", _pausing(name)) for name in VICTIMS]
    found += [Fault(f"target {name}", _breaking(name)) for name in BEHAVIOURS]
    found += [
        Fault("broker killed", _kill_brokers),
        Fault("records replayed", _replay),
        Fault("records from the future", _send_future),
        Fault("records misplaced", _misplace),
        Fault("records fuzzed", _fuzz),
        Fault("records oversized", _oversize),
        Fault("samples forged", _forge_samples),
        Fault("budgets forged", _forge_budgets),
    ]
    if brokers > 1:
        found.append(Fault("one broker lost", _lose_broker))
    return found


# Processes.


def _killing(name: str) -> Injection:
    def inject(place: Place) -> frozenset[str]:
        os.kill(_pid(place, name), signal.SIGKILL)
        return frozenset()

    return inject


def _pausing(name: str) -> Injection:
    def inject(place: Place) -> frozenset[str]:
        pid = _pid(place, name)
        os.kill(pid, signal.SIGSTOP)
        try:
            time.sleep(place.rng.uniform(*_PAUSE_S))
        finally:
            os.kill(pid, signal.SIGCONT)
        return frozenset()

    return inject


def _pid(place: Place, name: str) -> int:
    process = place.run.status(name).process
    if process is None:
        raise ProcessLookupError(f"{name} does not run")
    return process.pid


# The broker.


def _kill_brokers(place: Place) -> frozenset[str]:
    home = Path(place.run.kafka_home)
    for node in _nodes(home):
        kafka_cluster.kill_broker(node, home)
    time.sleep(place.rng.uniform(*_OUTAGE_S))
    kafka_cluster.restart_missing(home)
    return frozenset()


def _lose_broker(place: Place) -> frozenset[str]:
    home = Path(place.run.kafka_home)
    kafka_cluster.kill_broker(place.rng.choice(_nodes(home)), home)
    time.sleep(place.rng.uniform(*_OUTAGE_S))
    kafka_cluster.restart_missing(home)
    return frozenset()


def _nodes(home: Path) -> list[int]:
    cluster = kafka_cluster.running(home)
    return [] if cluster is None else [node.id for node in cluster.nodes]


# The target.


def _breaking(behaviour: Any) -> Injection:
    def inject(place: Place) -> frozenset[str]:
        place.target.behaviour = behaviour
        try:
            time.sleep(_TARGET_S)
        finally:
            place.target.behaviour = "pass"
        return frozenset()

    return inject


# Records.


def _fuzz(place: Place) -> frozenset[str]:
    send(place.options, records.fuzzed(place.rng, _BURST))
    return frozenset()


def _oversize(place: Place) -> frozenset[str]:
    send(place.options, [one for _ in range(5) for one in records.oversized(place.rng)])
    return frozenset()


def _send_future(place: Place) -> frozenset[str]:
    domain = place.rng.choice(place.run.simulation.domains)
    send(place.options, records.from_the_future(place.rng, domain, place.tick()))
    return frozenset()


def _misplace(place: Place) -> frozenset[str]:
    """The newest real records once more, in places where they do not belong."""
    domain = place.rng.choice(place.run.simulation.domains)
    newest = _newest(place, [topic.name for topic in TOPICS if topic.key == "domain"])
    send(place.options, records.misplaced(place.rng, domain, newest))
    return frozenset()


def _replay(place: Place) -> frozenset[str]:
    """The newest records of every topic again, duplicated and out of order."""
    newest = _newest(place, [topic.name for topic in TOPICS])
    again = newest * 2
    place.rng.shuffle(again)
    send(place.options, again)
    return frozenset()


def _forge_samples(place: Place) -> frozenset[str]:
    """Call a domain's apps idle, in the ticks that are sampled next."""
    domain = place.rng.choice(place.run.simulation.domains)
    busy = _busy_apps(place, [domain])
    with TopicReader(place.options) as reader:
        frame = reader.find_newest(DomainObserved, domain, lambda _: True)
    if frame is not None:
        # Several ticks ahead: some arrive before the true samples, and close the tick.
        ticks = range(frame.tick + 1, frame.tick + 5)
        for tick in ticks:
            send(place.options, records.forged_samples(domain, tick, frame.time, frame.apps))
    return busy


def _forge_budgets(place: Place) -> frozenset[str]:
    domains = place.run.simulation.domains
    busy = _busy_apps(place, domains)
    send(place.options, records.forged_budgets(domains, place.tick()))
    return busy


def _busy_apps(place: Place, domains: Sequence[str]) -> frozenset[str]:
    """Apps that need all they have: only deceived services would decrease them now."""
    found: set[str] = set()
    with TopicReader(place.options) as reader:
        for domain in domains:
            plan = reader.find_newest(ScalePlanned, domain, lambda _: True)
            if plan is not None:
                apps = zip(plan.apps, plan.need, plan.replicas, strict=True)
                found.update(app for app, need, replicas in apps if need >= replicas)
    return frozenset(found)


def _newest(place: Place, topics: Sequence[str]) -> list[HostileRecord]:
    """The last records of topics as they are on the broker."""
    most, found = _BURST // len(topics), list[HostileRecord]()
    with TopicReader(place.options) as reader:
        for topic in topics:
            last = [one.delivery for one in reader.read_to_end([topic])][-most:]
            found += [HostileRecord(d.topic, d.key, d.value, tuple(d.headers)) for d in last]
    return found


def send(options: dict[str, Any], hostile: Sequence[HostileRecord]) -> int:
    """Send all records; returns how many a broker accepted."""
    producer = KafkaProducer(**options, max_request_size=2_000_000)
    accepted = 0
    try:
        sent = []
        for one in hostile:
            try:
                sent.append(
                    producer.send(
                        one.topic,
                        one.value,
                        key=one.key or None,
                        headers=list(one.headers),
                        partition=_partition(one),
                    )
                )
            except (KafkaError, AssertionError, TypeError, ValueError):
                # The client refuses some of these by itself; others would not.
                continue
        for future in sent:
            try:
                future.get(30)
                accepted += 1
            except KafkaError:
                continue
    finally:
        producer.close()
    return accepted


def _partition(one: HostileRecord) -> int | None:
    if one.partition is None:
        return None
    count = next(topic.partitions for topic in TOPICS if topic.name == one.topic)
    return one.partition % count
