"""What events cost on their way on to the bus and off it: those of one tick, kind by kind."""

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from schemas.codec import decode, encode
from schemas.fields import Event
from schemas.topics import TOPICS, Topic
from services.devcluster.record import SIMCLUSTER
from services.devcluster.specs import DECIDING

_REPEATS: Final = 9
_READERS: Final = frozenset({*DECIDING, "provisioner", SIMCLUSTER})


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """Of all events of a kind in one tick that begins a minute."""

    event: str
    readers: int
    """Services that decode it."""
    records: int
    kib: float
    encode_ms: float
    decode_ms: float
    """Of one reader."""

    @property
    def tick_ms(self) -> float:
        """Of all who write and read it."""
        return self.encode_ms + self.readers * self.decode_ms


def costs(events: Sequence[Event]) -> list[Cost]:
    """CPU time by kind, in the order in which data flows."""
    found = [(topic, [one for one in events if type(one) is topic.event]) for topic in TOPICS]
    return [_cost(own, topic) for topic, own in found if own]


def _cost(events: list[Event], topic: Topic) -> Cost:
    records = [record for event in events for record in encode(event, "bench")]
    return Cost(
        event=topic.event.__name__,
        readers=len(_READERS.intersection(topic.consumers)),
        records=len(records),
        kib=sum(len(record.value) for record in records) / 1024,
        encode_ms=_median_ms(lambda: [encode(event, "bench") for event in events]),
        decode_ms=_median_ms(
            lambda: [decode(record.topic, record.value, record.headers) for record in records]
        ),
    )


def _median_ms(work: Callable[[], object]) -> float:
    work()
    seconds = []
    for _ in range(_REPEATS):
        began = time.process_time()
        work()
        seconds.append(time.process_time() - began)
    return statistics.median(seconds) * 1e3
