"""Encode events to Kafka records and decode them: every service uses this, and nothing else.

A value is JSON, with CloudEvents attributes in the headers. Decoding ignores unknown fields and
refuses values out of range, so no reader has to check a decoded event again.
"""

import re
from hashlib import blake2s
from typing import Any, Final, NamedTuple

import msgspec

from schemas import cloudevents, columns
from schemas.breaker_changed import BreakerChanged
from schemas.errors import Malformed, Oversized
from schemas.fields import Event, TickEvent, text_problem, time_problem
from schemas.metrics_sampled import MetricsSampled
from schemas.parts import Assembler, join_parts, most_parts, part_of, split
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
"""Largest value: half of a broker's default limit, to leave room for headers and batching."""

_TIMES: Final = ("time", "promoted_at", "rejected_at")
"""Fields that hold the time of an event."""
_MANY_PER_TICK: Final = (MetricsSampled, BreakerChanged)
"""Events that one key may send several times in a tick."""

_ENCODER: Final = msgspec.json.Encoder()
# Built once: msgspec analyses the type when a decoder is made.
_DECODERS: Final = {topic.name: msgspec.json.Decoder(topic.event) for topic in TOPICS}


class Record(NamedTuple):
    """A record as a producer passes it to Kafka."""

    topic: str
    key: bytes
    value: bytes
    headers: tuple[tuple[str, bytes], ...]


def encode(event: Event, source: str) -> list[Record]:
    """Encode an event as one record, or as several parts if it is large.

    JSON has no NaN and no infinity, so they become null; readers refuse a null that the schema
    doesn't allow.
    """
    topic = topic_of(event)
    # Checked by the producer, too, or every reader would dead-letter its event.
    _check(event)
    value = _ENCODER.encode(event)
    if len(value) <= LIMIT_BYTES:
        return [_record(topic, event, value, source)]
    return [_record(topic, part, value, source) for part, value in _fitting_parts(event, value)]


def decode(topic: str, value: bytes | None, headers: cloudevents.Headers = ()) -> Event | None:
    """Decode a record; None for a tombstone, which removes its key from a compacted topic.

    Raises Malformed if the record cannot be used. Parts of a large event are returned one by one:
    pass them to an Assembler.
    """
    decoder = _DECODERS.get(topic)
    if decoder is None:
        raise Malformed("topic", f"expected a topic of schemas/topics.py, got `{topic:.80}`")
    cloudevents.check_names(headers)
    if not value:
        _check_tombstone(BY_NAME[topic])
        return None
    data = cloudevents.data_of(topic, value, headers)
    try:
        event = decoder.decode(data)
    except msgspec.ValidationError as error:
        # Must come before DecodeError, its base class: JSON of the wrong form is not invalid JSON.
        raise Malformed("schema", _with_received(str(error), data)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed("json", f"expected JSON, got {data[:60]!r} ({error})") from None
    _check(event)
    return event


def _fitting_parts(event: Event, value: bytes) -> list[tuple[Event, bytes]]:
    """Split into as few parts as fit the limit. Entries differ in size, so this is a search."""
    most = most_parts(event)
    # The fewest that could fit; each part also repeats the fields that aren't columns.
    count = -(-len(value) // LIMIT_BYTES)
    while count <= most:
        parts = [(part, _ENCODER.encode(part)) for part in split(event, count)]
        if all(len(encoded) <= LIMIT_BYTES for _, encoded in parts):
            return parts
        # Try 25 % more parts each time, up to one part per app.
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
    # `ce_time` is optional: the inventory and overrides have no time of their own.
    for field in _TIMES:
        if time := getattr(event, field, ""):
            headers["ce_time"] = time
    encoded = tuple((name, text.encode()) for name, text in headers.items())
    return Record(topic.name, key.encode(), value, encoded)


def _identity(event: Event, key: str, value: bytes) -> str:
    """An id that stays the same when an event is sent again, so readers can drop duplicates."""
    words = [key] if key else []
    words += [str(getattr(event, name)) for name in ("tick", "epoch") if hasattr(event, name)]
    part = part_of(event)
    if part.of > 1:
        words.append(f"{part.number}/{part.of}")
    # Key, tick and epoch don't tell these apart, so their content does.
    if not isinstance(event, TickEvent) or isinstance(event, _MANY_PER_TICK):
        words.append(blake2s(value, digest_size=8).hexdigest())
    return ":".join(words)


def _check_tombstone(topic: Topic) -> None:
    if topic.cleanup != "compact":
        raise Malformed("tombstone", f"expected a value, got none: {topic.name} is not compacted")


def _check(event: Event) -> None:
    """Check what the types and ranges of single fields don't cover."""
    if problem := columns.problem_of(event):
        raise Malformed("columns", problem)
    if problem := time_problem(event) or text_problem(event):
        raise Malformed("schema", problem)
    part = part_of(event)
    if part.number > part.of:
        raise Malformed("part", f"expected a number up to {part.of}, got {part.number}")


def _with_received(message: str, data: bytes) -> str:
    """Add the received value to a message of msgspec that only names the expected one."""
    path = re.search(r"at `\$([^`]*)`$", message)
    if path is None or ", got " in message:
        return message
    # Decode again without types, to look the value up: slow, but only errors get here.
    try:
        found = _found(msgspec.json.decode(data), path[1])
    except (LookupError, TypeError, ValueError, RecursionError):
        # For a dict, the path doesn't name the key, or the key itself is wrong.
        return message
    return f"{message}, got {found!r:.80}"


def _found(document: Any, path: str) -> Any:
    for name, index in re.findall(r"\.(\w+)|\[(\d+|\.\.\.)\]", path):
        document = document[name] if name else document[int(index)]
    return document
