"""CloudEvents 1.0 on Kafka: attributes in headers (binary mode) or around the data (structured).

https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/bindings/kafka-protocol-binding.md
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from schemas.errors import Malformed

SPECVERSION: Final = "1.0"
JSON_TYPE: Final = "application/json"
STRUCTURED_TYPE: Final = "application/cloudevents+json"

UNREADABLE: Final = "\ufffd"
"""In a header's name: bytes that are not UTF-8, as decoders replace them."""

Headers = Sequence[tuple[str, bytes | None]]
"""Of a record; Kafka allows a header without a value."""


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """The attributes of structured mode that a reader needs."""

    specversion: str
    type: str
    data: msgspec.Raw
    datacontenttype: str = JSON_TYPE


_ENVELOPE: Final = msgspec.json.Decoder(Envelope)


def check_names(headers: Headers) -> None:
    """Refuse names that are not text: some clients cannot read such a record at all."""
    for name, _ in headers:
        if UNREADABLE in name:
            raise Malformed("headers", f"expected header names in UTF-8, got {name!r:.80}")


def data_of(topic: str, value: bytes, headers: Headers) -> bytes:
    """Extract the event's JSON from a record in either mode, or from plain JSON without headers."""
    attributes = _attributes(headers) if headers else {}
    content_type = _media_type(attributes.get("content-type", JSON_TYPE))
    if content_type == STRUCTURED_TYPE:
        return _unwrapped(topic, value)
    _check_content(content_type, f"{JSON_TYPE} or {STRUCTURED_TYPE}")
    # Accept a producer without any CloudEvents attribute; refuse one that sends only some.
    if "ce_specversion" in attributes or "ce_type" in attributes:
        _check(topic, attributes.get("ce_specversion"), attributes.get("ce_type"))
    return value


def _attributes(headers: Headers) -> Mapping[str, str]:
    # Other headers, for example of tracing, may hold any bytes.
    return {
        name: _text(name, value)
        for name, value in headers
        if name in {"content-type", "ce_specversion", "ce_type"}
    }


def _text(name: str, value: bytes | None) -> str:
    try:
        return (value or b"").decode()
    except UnicodeDecodeError:
        raise Malformed("envelope", f"header {name}: expected UTF-8, got {value!r:.80}") from None


def _unwrapped(topic: str, value: bytes) -> bytes:
    try:
        envelope = _ENVELOPE.decode(value)
    # Anyone may write to a topic: no bytes may stop a reader, so catch all that decoding raises.
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed("envelope", f"structured mode: {error}; got {value!r:.80}") from None
    _check(topic, envelope.specversion, envelope.type)
    _check_content(_media_type(envelope.datacontenttype), JSON_TYPE)
    return bytes(envelope.data)


def _check(topic: str, specversion: str | None, kind: str | None) -> None:
    for name, expected, got in (("specversion", SPECVERSION, specversion), ("type", topic, kind)):
        if got != expected:
            # Cut to 80 characters: the text ends in a dead letter and in the log.
            received = "none" if got is None else f"`{got:.80}`"
            raise Malformed("envelope", f"expected CloudEvents {name} `{expected}`, got {received}")


def _check_content(content_type: str, expected: str) -> None:
    if content_type != JSON_TYPE:
        raise Malformed("envelope", f"expected content type {expected}, got `{content_type:.80}`")


def _media_type(content_type: str) -> str:
    """Drop parameters such as the character set."""
    return content_type.partition(";")[0].strip().lower()
