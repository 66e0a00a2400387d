"""Reads record batches that the client libraries refuse.

A broker accepts header names that are not UTF-8 and batches in any compression. aiokafka and
kafka-python raise on them before a consumer gets anything, at each attempt, so one such record
would block a partition permanently. Here every record is read: what is wrong with it is in its
headers, where `decode` and `EventReader` find it.
"""

import gzip
import io
import struct
from collections.abc import Iterator
from types import ModuleType
from typing import Any, Final, NamedTuple

from aiokafka.record.util import decode_varint

from schemas.cloudevents import UNREADABLE

BATCH: Final = f"{UNREADABLE}batch"
"""Name of the header that stands for a whole batch: its value says why it cannot be read."""
LARGEST_BATCH_BYTES: Final = 32 * 1024 * 1024
"""Inflated. A megabyte of gzip may hold a gigabyte; events have at most 512 KiB."""

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
"""Base offset, length, leader epoch, magic, CRC, attributes, last offset, first and last timestamp,
producer id and epoch, base sequence, number of records."""
_MAGIC: Final = 2
_CODEC, _GZIP, _APPEND_TIME = 0x07, 1, 0x08
_CODECS: Final = {2: "snappy", 3: "lz4", 4: "zstd"}


class WireRecord(NamedTuple):
    """A record with the attributes that both libraries look for."""

    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    size_in_bytes: int
    checksum: None = None

    def validate_crc(self) -> bool:
        """The batch has the checksum, not the record."""
        return True


class _Unreadable(Exception):  # noqa: N818  the batch is
    """Why no record of a batch can be read."""


class _Cursor:
    """Reads the fields of records one after another."""

    def __init__(self, data: bytes | memoryview) -> None:
        self._data, self.position = bytearray(data), 0

    def number(self) -> int:
        value: int
        value, self.position = decode_varint(self._data, self.position)
        return value

    def field(self) -> bytes | None:
        """Bytes with their length before them; None for a negative length."""
        length = self.number()
        if length < 0:
            return None
        begin, self.position = self.position, self.position + length
        if self.position > len(self._data):
            raise _Unreadable("a record ends after its batch")
        return bytes(self._data[begin : self.position])


class TolerantBatch:
    """A library's batch, whose records can always be read."""

    def __init__(self, batch: Any, raw: memoryview) -> None:
        self._batch, self._raw = batch, raw

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    def __next__(self) -> Any:
        return next(self._batch)

    def __iter__(self) -> Iterator[Any]:
        attributes = _HEADER.unpack_from(self._raw)[5]
        if not attributes & _CODEC:
            try:
                # Nearly always: in C, and all before the first is used.
                return iter(list(self._batch))
            except Exception:  # noqa: BLE001, S110  no content may stop a service
                pass
        # Compressed batches only here: the libraries inflate without a limit.
        return iter(records_of(self._raw))


def records_of(raw: memoryview) -> list[WireRecord]:
    """The records of a batch; one that stands for all of them, if they cannot be read."""
    base, *_, attributes, last, first, newest, _, _, _, count = _HEADER.unpack_from(raw)
    fixed = newest if attributes & _APPEND_TIME else None
    kind = int(fixed is not None)
    try:
        cursor = _Cursor(_inflated(raw[_HEADER.size :], attributes & _CODEC))
        return [_record(cursor, base, first, fixed) for _ in range(count)]
    # Any exception, foreseen or not: the consumer has to get past this offset.
    except Exception as error:  # noqa: BLE001  in the dead letter
        reason = f"{count} records up to offset {base + last}: {error}"
        headers: list[tuple[str, bytes | None]] = [(BATCH, reason.encode())]
        # No value: a dead letter gets none of what it may inflate to.
        return [WireRecord(base, newest, kind, None, None, headers, len(raw))]


def _record(cursor: _Cursor, base: int, first: int, fixed: int | None) -> WireRecord:
    length = cursor.number()
    begin = cursor.position
    cursor.number()  # attributes, unused
    later, offset = cursor.number(), cursor.number()
    key, value = cursor.field(), cursor.field()
    headers = [_header(cursor) for _ in range(cursor.number())]
    if cursor.position != begin + length:
        raise _Unreadable("a record has another length than it says")
    timestamp = first + later if fixed is None else fixed
    kind = int(fixed is not None)
    return WireRecord(base + offset, timestamp, kind, key, value, headers, length)


def _header(cursor: _Cursor) -> tuple[str, bytes | None]:
    name = cursor.field() or b""
    return name.decode(errors="replace"), cursor.field()


def _inflated(body: memoryview, codec: int) -> bytes | memoryview:
    if not codec:
        return body
    if codec != _GZIP:
        name = _CODECS.get(codec, f"codec {codec}")
        raise _Unreadable(f"expected gzip or no compression, got {name}")
    with gzip.GzipFile(fileobj=io.BytesIO(body)) as file:
        data = file.read(LARGEST_BATCH_BYTES + 1)
    if len(data) > LARGEST_BATCH_BYTES:
        raise _Unreadable(f"expected at most {LARGEST_BATCH_BYTES:,} bytes inflated, got more")
    return data


def tolerate(fetcher: ModuleType, records: type[Any]) -> None:
    """Let all consumers of a library read every batch.

    `fetcher` is the module that splits fetched bytes into batches, `records` the class that it
    does this with. There is no argument for it, so it is replaced in the module.
    """
    if issubclass(fetcher.MemoryRecords, _Tolerant):
        return

    class Records(_Tolerant, records):  # type: ignore[misc]  # a class of either library
        pass

    fetcher.MemoryRecords = Records  # type: ignore[attr-defined]


class _Tolerant:
    """Wraps the batches of a library."""

    _next_slice: memoryview | None

    def next_batch(self) -> Any:
        """The next batch; None at the end."""
        raw = self._next_slice
        batch = super().next_batch()  # type: ignore[misc]  # of the library's class
        if raw is None or batch.magic != _MAGIC:
            return batch
        return TolerantBatch(batch, raw)
