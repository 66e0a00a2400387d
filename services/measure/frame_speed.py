"""How long a domain's frame takes on its way: as it is sent, and as msgpack for comparison."""

import random
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from schemas.codec import decode, encode
from schemas.domain_observed import DomainObserved, Pods

_REPEATS = 15
_MEASURED = 10
_FEATURES = 18
"""With pods, load and usual load these make the 37 columns of a frame."""


class Speed(msgspec.Struct, frozen=True, kw_only=True):
    """Medians of one format."""

    apps: int
    format: Literal["JSON", "msgpack"]
    records: int
    kib: float
    encode_ms: float
    decode_ms: float


def measure(apps: int) -> tuple[Speed, Speed]:
    """CPU time to encode and decode: JSON with headers, checks and parts, msgpack bare."""
    return _json(frame(apps)), _msgpack(frame(apps))


def frame(apps: int) -> DomainObserved:
    """A frame with a number of its own in every place, so that nothing is shorter than usual."""
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
    work()
    seconds = []
    for _ in range(_REPEATS):
        began = time.process_time()
        work()
        seconds.append(time.process_time() - began)
    return statistics.median(seconds) * 1e3
