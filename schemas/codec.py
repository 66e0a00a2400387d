"""Events to records and back: the only way on to the bus and off it.

JSON with CloudEvents attributes in the headers. Readers ignore unknown fields and refuse what is
out of range; no reader needs to check again what `decode` returned.
"""

import re
from collections.abc import Sequence
from hashlib import blake2s
from typing import Any, Final, NamedTuple

import msgspec

from schemas import cloudevents, columns, moments
from schemas.breaker_changed import BreakerChanged
from schemas.errors import Malformed, Oversized
from schemas.fields import Event, TickEvent
from schemas.metrics_sampled import MetricsSampled
from schemas.parts import Assembler, join_parts, part_of, places_to_split, split
from schemas.topics import BY_NAME, TOPICS, Topic, key_of, topic_of

__all__ = [
    "LIMIT_BYTES",
    "Assembler",
    "Malformed",
    "Oversized",
    "Record",
    "decode",
    "encode",
    "join_parts",
]

LIMIT_BYTES: Final = 512 * 1024
"""Of a value. Half of what a broker takes by default, so that headers and batching have room."""

_TIMES: Final = ("time", "promoted_at", "rejected_at")
"""Fields that say when an event happened."""
_MANY_PER_TICK: Final = (MetricsSampled, BreakerChanged)
"""Events of which one key can have several in a tick."""

_ENCODER: Final = msgspec.json.Encoder()
_DECODERS: Final = {topic.name: msgspec.json.Decoder(topic.event) for topic in TOPICS}


class Record(NamedTuple):
    """What a producer hands to Kafka."""

    topic: str
    key: bytes
    value: bytes
    headers: tuple[tuple[str, bytes], ...]


def encode(event: Event, source: str) -> list[Record]:
    """An event as the records that carry it: one, or several parts when it is large.

    NaN and infinity become null, as JSON has neither: where null is not allowed, readers refuse it.
    """
    topic = topic_of(event)
    _check(event)
    value = _ENCODER.encode(event)
    if len(value) <= LIMIT_BYTES:
        return [_record(topic, event, value, source)]
    return [_record(topic, part, value, source) for part, value in _fitting_parts(event, value)]


def decode(
    topic: str, value: bytes | None, headers: Sequence[tuple[str, bytes]] = ()
) -> Event | None:
    """The event of a record, or None for a tombstone: the key of a compacted topic is gone.

    Whatever else is wrong raises Malformed. A part of a large event comes as a part: Assembler.
    """
    decoder = _DECODERS.get(topic)
    if decoder is None:
        raise Malformed("topic", f"expected a topic of schemas/topics.py, got `{topic:.80}`")
    if not value:
        _check_tombstone(BY_NAME[topic])
        return None
    data = cloudevents.data_of(topic, value, headers)
    try:
        event = decoder.decode(data)
    except msgspec.ValidationError as error:
        raise Malformed("schema", _with_what_came(str(error), data)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed("json", f"expected JSON, got {data[:60]!r} ({error})") from None
    _check(event)
    return event


def _fitting_parts(event: Event, value: bytes) -> list[tuple[Event, bytes]]:
    """Parts that are small enough, as few as possible; places differ in size, so try."""
    most = places_to_split(event)
    count = -(-len(value) // LIMIT_BYTES)
    while count <= most:
        parts = [(part, _ENCODER.encode(part)) for part in split(event, count)]
        if all(len(encoded) <= LIMIT_BYTES for _, encoded in parts):
            return parts
        # A quarter more at a time, and at last a part for each place.
        count = max(count + 1, min(most, count * 5 // 4))
    raise Oversized(topic_of(event).name, key_of(event), len(value), LIMIT_BYTES)


def _record(topic: Topic, event: Event, value: bytes, source: str) -> Record:
    key = key_of(event)
    headers = {
        "ce_specversion": cloudevents.SPECVERSION,
        "ce_type": topic.name,
        "ce_source": f"/hirl/{source}",
        "ce_id": _identity(event, key, value),
        "content-type": cloudevents.JSON_TYPE,
    }
    if key:
        headers["ce_partitionkey"] = key
    for field in _TIMES:
        if time := getattr(event, field, ""):
            headers["ce_time"] = time
    encoded = tuple((name, text.encode()) for name, text in headers.items())
    return Record(topic.name, key.encode(), value, encoded)


def _identity(event: Event, key: str, value: bytes) -> str:
    """The same whenever the same is said again, so that readers can drop duplicates by it."""
    words = [key] if key else []
    words += [str(getattr(event, name)) for name in ("tick", "epoch") if hasattr(event, name)]
    part = part_of(event)
    if part.of > 1:
        words.append(f"{part.number}/{part.of}")
    if not isinstance(event, TickEvent) or isinstance(event, _MANY_PER_TICK):
        words.append(blake2s(value, digest_size=8).hexdigest())
    return ":".join(words)


def _check_tombstone(topic: Topic) -> None:
    if topic.cleanup != "compact":
        raise Malformed("tombstone", f"expected a value, got none: {topic.name} is not compacted")


def _check(event: Event) -> None:
    """What types and ranges of single fields do not say."""
    if problem := columns.misfit(event):
        raise Malformed("columns", problem)
    if problem := moments.misfit(event):
        raise Malformed("schema", problem)
    part = part_of(event)
    if part.number > part.of:
        raise Malformed("part", f"expected a number up to {part.of}, got {part.number}")


def _with_what_came(message: str, data: bytes) -> str:
    """Messages on ranges and patterns say what was expected; look up what came instead."""
    path = re.search(r"at `\$([^`]*)`$", message)
    if path is None or ", got " in message:
        return message
    try:
        found = _found(msgspec.json.decode(data), path[1])
    except (LookupError, TypeError, ValueError, RecursionError):
        # In a dict the path names no key, or it is a key that is wrong.
        return message
    return f"{message}, got {found!r:.80}"


def _found(document: Any, path: str) -> Any:
    for name, place in re.findall(r"\.(\w+)|\[(\d+|\.\.\.)\]", path):
        document = document[name] if name else document[int(place)]
    return document
