"""Faults of the brokers: killed, stopped, out of disk, or rid of records before they are read."""

import os
import signal
import time
from pathlib import Path
from typing import Final

from kafka import TopicPartition

from schemas.scale_planned import ScalePlanned
from schemas.topics import TOPICS, topic_of
from services.admin import client
from services.admin.decisions import Key, read_decisions
from services.admin.reader import TopicReader
from services.devcluster import processes
from services.devcluster.kafka import cluster as kafka_cluster
from services.devcluster.kafka import description
from services.measure.chaos.processes import disk_full, paused
from services.measure.chaos.subject import NO_CLAIMS, Claims, Injection, Skipped, Subject

_OUTAGE_S: Final = (5.0, 30.0)
_DISK_S: Final = 20.0
"""A broker that cannot write ends by itself within this time."""
_AWAY_TICKS: Final = 8
"""How long a service is stopped while its inputs expire."""
_POLL_S: Final = 0.2
_PLANS: Final = topic_of(ScalePlanned).name


def kill_all(subject: Subject) -> Claims:
    """All brokers crash, and are back after a while."""
    for node in _nodes(subject.home):
        kafka_cluster.kill_broker(node, subject.home)
    _be_without(subject)
    return NO_CLAIMS


def stop_all(subject: Subject) -> Claims:
    """All brokers are stopped in good order, and are back after a while."""
    kafka_cluster.stop(subject.home)
    _be_without(subject)
    return NO_CLAIMS


def lose_one(subject: Subject) -> Claims:
    """One broker of several crashes, and is back after a while."""
    kafka_cluster.kill_broker(subject.rng.choice(_nodes(subject.home)), subject.home)
    _be_without(subject)
    return NO_CLAIMS


def fill_disk(subject: Subject) -> Claims:
    """Brokers cannot write any more, and are restarted when they can."""
    cluster = description.read(subject.home)
    pids = [node.pid for node in cluster.nodes if node.pid is not None] if cluster else []
    try:
        with disk_full(pids):
            deadline = time.monotonic() + _DISK_S
            while any(map(processes.of_pid, pids)) and time.monotonic() < deadline:
                time.sleep(_POLL_S)
            time.sleep(subject.rng.uniform(*_OUTAGE_S))
    finally:
        kafka_cluster.restart_missing(subject.home)
    return NO_CLAIMS


def expiring(name: str) -> Injection:
    """Delete the inputs of a service while it is away, before it has read them."""

    def inject(subject: Subject) -> Claims:
        supervisor = subject.run.supervisor
        if supervisor is None:
            raise Skipped("the services have no supervisor")
        pid = subject.pid(name)
        # The supervisor would start it again at once.
        with paused(supervisor.pid):
            os.kill(pid, signal.SIGKILL)
            time.sleep(subject.seconds(_AWAY_TICKS))
            return Claims(deleted=_expire(subject, name))

    return inject


def _expire(subject: Subject, name: str) -> frozenset[Key]:
    """Delete all present inputs of a service; returns the plans that were not applied yet."""
    topics = [
        topic.name for topic in TOPICS if name in topic.consumers and topic.cleanup == "delete"
    ]
    with TopicReader(subject.options) as reader:
        ends = reader.ends(topics)
    # After the ends were read: nothing may be deleted that the audit has not seen.
    decisions = read_decisions(subject.options, dead_letters=False)
    subject.kept.append(decisions)
    admin = client.admin(subject.options)
    try:
        admin.delete_records({TopicPartition(*at): end for at, end in ends.items() if end})
    finally:
        admin.close()
    if _PLANS not in topics or name != "actuator":
        return frozenset()
    return frozenset(decisions.plans) - frozenset(decisions.applied)


def _be_without(subject: Subject) -> None:
    try:
        time.sleep(subject.rng.uniform(*_OUTAGE_S))
    # After Ctrl-C too: what was done so far is audited.
    finally:
        kafka_cluster.restart_missing(subject.home)


def _nodes(home: Path) -> list[int]:
    cluster = kafka_cluster.running(home)
    return [] if cluster is None else [node.id for node in cluster.nodes]
