"""CPU time of encoding and decoding: all events of a tick, and one frame as JSON and msgpack."""

import random
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Final, Literal

import msgspec

from schemas.codec import decode, encode
from schemas.domain_observed import DomainObserved, Pods
from schemas.fields import Event
from schemas.topics import TOPICS, Topic
from services.devcluster.record import SIMCLUSTER
from services.devcluster.specs import DECIDING

_REPEATS: Final = 15
_READERS: Final = frozenset({*DECIDING, "provisioner", SIMCLUSTER})
"""Principals that run; the topics also name planned ones, which cost nothing yet."""
_MEASURED: Final = 10
_FEATURES: Final = 18
"""Together with pods, load and usual load these are the 37 columns of a frame."""


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """CPU time of all events of a type in one tick that begins a minute."""

    event: str
    readers: int
    """Services that decode it."""
    records: int
    kib: float
    encode_ms: float
    decode_ms: float
    """CPU time of one reader."""

    @property
    def tick_ms(self) -> float:
        """CPU time of the writer and all readers together."""
        return self.encode_ms + self.readers * self.decode_ms


def costs(events: Sequence[Event]) -> list[Cost]:
    """Cost by event type, in the order of data flow."""
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


class Speed(msgspec.Struct, frozen=True, kw_only=True):
    """Medians for one format."""

    apps: int
    format: Literal["JSON", "msgpack"]
    records: int
    kib: float
    encode_ms: float
    decode_ms: float


def frame_speeds(apps: int) -> tuple[Speed, Speed]:
    """CPU time of a frame: as our JSON with headers, checks and parts, and as plain msgpack."""
    return _json(frame(apps)), _msgpack(frame(apps))


def frame(apps: int) -> DomainObserved:
    """A frame of random numbers, so that no value is shorter than usual."""
    # Seeded, so that two runs measure the same bytes.
    draws = random.Random(apps)

    def numbers() -> list[float]:
        return [draws.uniform(0, 100) for _ in range(apps)]

    def counts() -> list[int]:
        return [draws.randrange(2000) for _ in range(apps)]

    return DomainObserved(
        tick=8640,
        time="2026-11-27T00:00:00Z",
        domain="payments",
        apps=[f"payments/payments-app-{number:04}" for number in range(apps)],
        pods=Pods(**{name: counts() for name in Pods.__struct_fields__}),
        measured={f"measured_{number}": list(numbers()) for number in range(_MEASURED)},
        features={f"feature_{number}": numbers() for number in range(_FEATURES)},
        load_pods=numbers(),
        usual_load_pods=numbers(),
    )


def _json(event: DomainObserved) -> Speed:
    records = encode(event, "aggregator")
    return Speed(
        apps=len(event.apps),
        format="JSON",
        records=len(records),
        kib=_kib([record.value for record in records]),
        encode_ms=_median_ms(lambda: encode(event, "aggregator")),
        decode_ms=_median_ms(
            lambda: [decode(record.topic, record.value, record.headers) for record in records]
        ),
    )


def _msgpack(event: DomainObserved) -> Speed:
    encoder = msgspec.msgpack.Encoder()
    decoder = msgspec.msgpack.Decoder(DomainObserved)
    value = encoder.encode(event)
    return Speed(
        apps=len(event.apps),
        format="msgpack",
        records=1,
        kib=_kib([value]),
        encode_ms=_median_ms(lambda: encoder.encode(event)),
        decode_ms=_median_ms(lambda: decoder.decode(value)),
    )


def _kib(values: Sequence[bytes]) -> float:
    return sum(map(len, values)) / 1024


def _median_ms(work: Callable[[], object]) -> float:
    # Once unmeasured: the first call fills caches and allocates.
    work()
    seconds = []
    for _ in range(_REPEATS):
        # CPU time of this process: other work on the machine doesn't count.
        began = time.process_time()
        work()
        seconds.append(time.process_time() - began)
    return statistics.median(seconds) * 1e3
