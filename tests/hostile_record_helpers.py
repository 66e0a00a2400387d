"""Records that a broker accepts and that clients' libraries refuse to decode."""

import re
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Self

import pytest

from services._kit.kafka_python import KafkaProducer

BOMB_BYTES: Final = 40 * 1024 * 1024
NAME: Final = b"caf\xe9"
"""Latin-1."""
HOSTILE: Final = ("name", "snappy", "bomb")


class RawName(str):  # noqa: SLOT000  mypy does not know slots of a str
    """A header's name that is sent as these bytes."""

    _raw: bytes

    def __new__(cls, raw: bytes) -> Self:
        made = super().__new__(cls, raw.decode("latin-1"))
        made._raw = raw
        return made

    def encode(self, *_: Any) -> bytes:
        return self._raw


def snappy(data: bytes) -> bytes:
    """Xerial's framing of one block, in which only runs of a byte are compressed."""
    block = bytearray()
    size = len(data)
    while size >= 0x80:
        block.append(size & 0x7F | 0x80)
        size >>= 7
    block.append(size)
    for run in re.finditer(rb"(?s)(.)\1*", data):
        block += b"\x00" + run[1]
        left = len(run[0]) - 1
        while left:
            length = min(left, 64)
            block += bytes([(length - 1) << 2 | 2]) + struct.pack("<H", 1)
            left -= length
    return b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, len(block)) + bytes(block)


@contextmanager
def with_snappy() -> Iterator[None]:
    """Let kafka-python send what it could not read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kafka.codec.has_snappy", lambda: True)
        patch.setitem(KafkaProducer._COMPRESSORS, "snappy", (lambda: True, 2))
        patch.setattr("kafka.record.default_records.snappy_encode", snappy)
        yield


def send(
    options: dict[str, Any],
    topic: str,
    key: bytes,
    value: bytes,
    headers: Sequence[tuple[str, bytes]] = (),
    codec: str | None = None,
) -> tuple[int, int]:
    """Write one record; its partition and offset."""
    with (
        with_snappy(),
        KafkaProducer(
            **options, acks="all", compression_type=codec, max_request_size=2 * BOMB_BYTES
        ) as producer,
    ):
        sent = producer.send(topic, key=key, value=value, headers=list(headers)).get(30)
    return sent.partition, sent.offset


def send_hostile(
    options: dict[str, Any], kind: str, topic: str, key: bytes, value: bytes = b"{}"
) -> tuple[int, int]:
    """Write a record of this kind; its partition and offset."""
    if kind == "name":
        return send(options, topic, key, value, [(RawName(NAME), b"x")])
    if kind == "snappy":
        # kafka-python compresses only what gets smaller by it.
        return send(options, topic, key, value + b" " * 1000, codec="snappy")
    return send(options, topic, key, b"0" * BOMB_BYTES, codec="gzip")
