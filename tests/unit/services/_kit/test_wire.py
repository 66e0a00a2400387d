"""Both libraries read every batch that a broker accepts."""

import gzip
import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import aiokafka.consumer.fetcher as aio
import kafka.consumer.fetcher as kp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record import memory_records
from kafka.record.default_records import DefaultRecordBatchBuilder

from schemas.codec import Malformed, decode
from services._kit import wire
from services._kit.records import Delivery, EventReader
from tests.hostile_record_helpers import NAME, RawName, with_snappy

TOPIC = "hirl.metrics-sampled.v1"
Header = tuple[str, bytes | None]
Content = tuple[bytes | None, bytes | None, list[Header]]
"""Key, value and headers."""
GZIP, SNAPPY = 1, 2


def batch(contents: Sequence[Content], codec: int = 0, base: int = 0) -> bytes:
    """What a broker sends of a producer's batch."""
    builder = DefaultRecordBatchBuilder(2, codec, False, -1, -1, -1, 1 << 30)
    for number, (key, value, headers) in enumerate(contents):
        assert builder.append(number, 1000 + number, key, value, headers) is not None
    data = builder.build()
    # A broker assigns the offset; it is not part of the checksum.
    return base.to_bytes(8, "big") + bytes(data[8:])


@pytest.fixture(params=["aiokafka", "kafka-python"])
def records_of(request: pytest.FixtureRequest) -> Callable[[bytes], list[Any]]:
    """Reads fetched bytes as the consumers of a library do."""
    # Importing the kit's clients and the tools' makes the libraries tolerant.
    importlib.import_module("services._kit.kafka")
    importlib.import_module("services.admin.reader")
    library: Any = aio if request.param == "aiokafka" else kp

    def read(data: bytes) -> list[Any]:
        return list(_all(library.MemoryRecords(data)))

    return read


def _all(records: Any) -> Iterator[Any]:
    while records.has_next():
        found = records.next_batch()
        assert found.validate_crc()
        yield from found


def good(number: int = 0) -> Content:
    return b"k", b"v%d" % number, [("name", b"x"), ("empty", None)]


BAD: Content = (b"k", b"v", [(RawName(NAME), b"x")])


def test_a_name_that_is_not_utf8_hides_no_other_record(
    records_of: Callable[[bytes], list[Any]],
) -> None:
    data = batch([good(0), BAD, good(2)]) + batch([good(3)], base=3)
    found = records_of(data)
    assert [one.offset for one in found] == [0, 1, 2, 3]
    assert [one.value for one in found] == [b"v0", b"v", b"v2", b"v3"]
    assert [one.timestamp for one in found] == [1000, 1001, 1002, 1000]
    assert list(map(tuple, found[2].headers)) == [("name", b"x"), ("empty", None)]
    with pytest.raises(Malformed) as refused:
        decode(TOPIC, found[1].value, found[1].headers)
    assert refused.value.kind == "headers"


@pytest.mark.parametrize("codec", [0, GZIP])
def test_valid_records_are_read_as_before(
    codec: int, records_of: Callable[[bytes], list[Any]]
) -> None:
    contents: list[Content] = [(None, None, []), good(1), (b"", b"x" * 5000, [])]
    found = records_of(batch(contents, codec, base=7))
    assert [one.offset for one in found] == [7, 8, 9]
    assert [(one.key, one.value) for one in found] == [(key, value) for key, value, _ in contents]


@pytest.mark.parametrize("kind", ["snappy", "bomb"])
def test_a_batch_that_cannot_be_inflated_is_one_record_and_the_next_batch_follows(
    kind: str, records_of: Callable[[bytes], list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "LARGEST_BATCH_BYTES", 100_000)
    padded: Content = (b"k", b" " * 200_000, [])
    with with_snappy():
        refused = batch([padded, good(1)], SNAPPY if kind == "snappy" else GZIP)
    found = records_of(refused + batch([good(2)], base=2))
    assert [one.offset for one in found] == [0, 2]
    delivery = Delivery(TOPIC, 0, 0, b"", found[0].value, found[0].headers, 1.0)
    with pytest.raises(Malformed) as error:
        EventReader().read(delivery)
    assert error.value.kind == "batch"
    assert "2 records up to offset 1" in error.value.detail
    assert ("snappy" if kind == "snappy" else "inflated") in error.value.detail


def test_consumers_continue_after_a_batch_that_cannot_be_read() -> None:
    with with_snappy():
        refused = batch([(b"k", b" " * 5000, []), good(1)], SNAPPY, base=4)
    records = aio.MemoryRecords(refused)
    found = aio.PartitionRecords("t", records, [], 4, None, None, True, 0)
    assert [one.offset for one in _consumed(found)] == [4]
    assert found.next_fetch_offset == 6


def _consumed(found: Any) -> Iterator[Any]:
    found._tp = type("Partition", (), {"topic": TOPIC, "partition": 0})
    return iter(list(found))


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.none() | st.binary(max_size=20),
            st.none() | st.binary(max_size=200),
            st.lists(
                st.tuples(st.binary(max_size=8), st.none() | st.binary(max_size=8)), max_size=3
            ),
        ),
        min_size=1,
        max_size=5,
    ),
    st.sampled_from([0, GZIP]),
)
def test_any_records_of_a_producer_are_all_read(
    contents: list[tuple[bytes | None, bytes | None, list[tuple[bytes, bytes | None]]]], codec: int
) -> None:
    sent: list[Content] = [
        (key, value, [(RawName(name), text) for name, text in headers])
        for key, value, headers in contents
    ]
    data = batch(sent, codec)
    for records in (aio.MemoryRecords(data), kp.MemoryRecords(data)):
        found = list(_all(records))
        assert [(one.key, one.value) for one in found] == [(key, value) for key, value, _ in sent]
        for one, (_, _, headers) in zip(found, contents, strict=True):
            expected = [(name.decode(errors="replace"), text) for name, text in headers]
            assert list(map(tuple, one.headers)) == expected


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300), st.sampled_from([0, GZIP]))
def test_no_content_of_a_batch_raises(body: bytes, codec: int) -> None:
    """A broker would refuse most of these; a reader has to get past them all the same."""
    head = bytearray(batch([good()])[:61])
    head[21:23] = codec.to_bytes(2, "big")
    data = bytes(head) + (gzip.compress(body) if codec else body)
    (first, *_) = wire.records_of(memoryview(data))
    assert first.offset >= 0 or first.headers


def test_tolerating_twice_changes_nothing() -> None:
    before = kp.MemoryRecords
    wire.tolerate(kp, memory_records.MemoryRecords)
    assert kp.MemoryRecords is before
