"""Faults on the topics: many records that mean nothing, or that meant something before."""

import asyncio
from collections.abc import Sequence
from typing import Final

from aiokafka import AIOKafkaProducer

from schemas.topics import BY_NAME, TOPICS
from services.admin.reader import TopicReader
from services.measure.chaos import records
from services.measure.chaos.records import Fuzz, HostileRecord
from services.measure.chaos.subject import NO_CLAIMS, Claims, Injection, Subject

FLOODS: Final = 6
"""Kinds of faults that share the number of hostile records: four of fuzzed ones, and the two
below."""
_FEW: Final = 400
_LINGER_MS: Final = 5
_AT_ONCE: Final = 2_000
"""Records that are made and sent together: large ones would fill the memory."""


def fuzzing(kind: Fuzz) -> Injection:
    """Many records of one kind of nonsense, on every topic."""

    def inject(subject: Subject) -> Claims:
        left = subject.hostile_records // FLOODS
        while left > 0:
            count = min(left, _AT_ONCE)
            send(subject, records.fuzzed(subject.rng, kind, count))
            left -= count
        return NO_CLAIMS

    return inject


def replay(subject: Subject) -> Claims:
    """The newest records of every topic again, duplicated and out of order."""
    _send_again(subject, newest=True)
    return NO_CLAIMS


def send_late(subject: Subject) -> Claims:
    """The oldest records of every topic again: they come long after their time."""
    _send_again(subject, newest=False)
    return NO_CLAIMS


def oversize(subject: Subject) -> Claims:
    """Records as large as a broker accepts."""
    send(subject, [one for _ in range(5) for one in records.oversized(subject.rng)])
    return NO_CLAIMS


def send_future(subject: Subject) -> Claims:
    """Valid events of a domain, far ahead of the present tick."""
    domain = subject.rng.choice(subject.domains)
    send(subject, records.from_the_future(subject.rng, domain, subject.tick()))
    return NO_CLAIMS


def misplace(subject: Subject) -> Claims:
    """The newest real records once more, in places where they do not belong."""
    domain = subject.rng.choice(subject.domains)
    keyed = [topic.name for topic in TOPICS if topic.key == "domain"]
    newest = _existing(subject, keyed, _FEW // len(keyed), newest=True)
    send(subject, records.misplaced(subject.rng, domain, newest))
    return NO_CLAIMS


def _send_again(subject: Subject, *, newest: bool) -> None:
    topics = [topic.name for topic in TOPICS]
    each = max(1, subject.hostile_records // FLOODS // len(topics))
    # Twice the half of them, or less if the topics do not have so many.
    found = _existing(subject, topics, (each + 1) // 2, newest=newest) * 2
    subject.rng.shuffle(found)
    send(subject, found)


def _existing(
    subject: Subject, topics: Sequence[str], most: int, *, newest: bool
) -> list[HostileRecord]:
    """Records of topics as they are on the broker: the first or the last of each."""
    found: list[HostileRecord] = []
    with TopicReader(subject.options) as reader:
        for topic in topics:
            read = reader.newest_records if newest else reader.oldest_records
            some = [one.delivery for one in read(BY_NAME[topic].event, most)][:most]
            found += [HostileRecord(d.topic, d.key, d.value, tuple(d.headers)) for d in some]
    return found


def send(subject: Subject, hostile: Sequence[HostileRecord]) -> None:
    """Send all records, and count those that a broker accepted."""
    subject.sent += asyncio.run(_send(subject.options["bootstrap_servers"], hostile))


async def _send(bootstrap: list[str], hostile: Sequence[HostileRecord]) -> int:
    # Not kafka-python: it refuses null headers and empty keys, which other clients send.
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap, max_request_size=2_000_000, linger_ms=_LINGER_MS
    )
    await producer.start()
    try:
        sent = [
            await producer.send(
                one.topic,
                one.value,
                key=one.key,
                headers=list(one.headers),
                partition=_partition(one),
            )
            for one in hostile
        ]
        answers = await asyncio.gather(*sent, return_exceptions=True)
    finally:
        await producer.stop()
    return sum(not isinstance(answer, BaseException) for answer in answers)


def _partition(one: HostileRecord) -> int | None:
    if one.partition is None:
        return None
    count = next(topic.partitions for topic in TOPICS if topic.name == one.topic)
    return one.partition % count
