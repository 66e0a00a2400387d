import asyncio
import base64
from collections.abc import Sequence
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas import codec
from schemas.codec import Malformed, Record, decode, encode
from schemas.rejected import Rejected
from schemas.scale_applied import ScaleApplied
from services._kit.clock import ManualClock
from services._kit.errors import Refused
from services._kit.handler import Service
from services._kit.records import (
    MOST_WAITING,
    BusWriter,
    Delivery,
    EventReader,
    Publisher,
    Received,
    Rejection,
    dead_letter,
)
from services._kit.telemetry import Telemetry
from tests.kit_example_helpers import TIME, Example, ExampleSettings, sampled


def applied(tick: int, apps: int) -> ScaleApplied:
    return ScaleApplied(
        domain="a",
        tick=tick,
        time=TIME,
        decision_id=f"a:{tick}",
        epoch=0,
        apps=[f"app-{index}" for index in range(apps)],
        outcomes=["applied"] * apps,
        reasons=["need"] * apps,
        replicas=[1] * apps,
        cpu_request=[1] * apps,
        memory_request=[1] * apps,
        replicas_before=[1] * apps,
    )


def deliveries(event: ScaleApplied, first_offset: int) -> list[Delivery]:
    return [
        Delivery(record.topic, 3, offset, record.key, record.value, record.headers, 0.0)
        for offset, record in enumerate(encode(event, "test"), first_offset)
    ]


@pytest.fixture
def _small_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "LIMIT_BYTES", 2000)


@pytest.mark.usefixtures("_small_records")
def test_an_event_in_parts_arrives_once_with_all_its_records() -> None:
    event = applied(1, 60)
    parts = deliveries(event, 10)
    assert len(parts) > 1
    reader = EventReader()
    found = [reader.read(part) for part in parts]
    assert found[:-1] == [None] * (len(parts) - 1)
    # Acknowledging needs no values, so only the last record keeps its own.
    earlier = (part._replace(value=None) for part in parts[:-1])
    assert found[-1] == Received(event, (*earlier, parts[-1]))


@pytest.mark.usefixtures("_small_records")
def test_orphaned_parts_are_acknowledged_with_the_next_event_of_their_key() -> None:
    reader = EventReader()
    orphan = deliveries(applied(1, 60), 10)[0]
    assert reader.read(orphan) is None
    (whole,) = deliveries(applied(2, 1), 20)
    received = reader.read(whole)
    assert received is not None
    assert received.deliveries == (orphan._replace(value=None), whole)
    assert received.last is whole


@pytest.mark.usefixtures("_small_records")
def test_of_too_many_parts_the_oldest_are_given_up() -> None:
    given_up: list[Delivery] = []
    reader = EventReader(give_up=given_up.append)
    orphans = [deliveries(applied(tick, 60), tick)[0] for tick in range(1, MOST_WAITING + 11)]
    assert [reader.read(orphan) for orphan in orphans] == [None] * len(orphans)
    assert [one.offset for one in given_up] == list(range(1, 11))
    assert reader.take_dropped() > 0
    (whole,) = deliveries(applied(9999, 1), 9999)
    received = reader.read(whole)
    assert received is not None
    assert len(received.deliveries) == MOST_WAITING + 1
    assert reader.read(orphans[0]) is None
    assert len(given_up) == 10


def test_invalid_json_is_malformed() -> None:
    with pytest.raises(Malformed):
        EventReader().read(Delivery("hirl.metrics-sampled.v1", 0, 0, b"a", b"{", (), 0.0))


def test_a_dead_letter_has_the_position_of_the_record_and_the_error() -> None:
    (record,) = encode(sampled("a", 1), "test")
    delivery = Delivery(record.topic, 3, 7, b"a", b"\xff" * 100_000, [("h", b"\xfe")], 0.0)
    letter = dead_letter("soldier", delivery, Refused("late", "too late"), "late", ManualClock(1.5))
    assert (letter.service, letter.partition, letter.offset) == ("soldier", 3, 7)
    assert (letter.error, letter.detail) == ("late", "too late")
    assert letter.rejected_at == "1970-01-01T00:00:01.500Z"
    assert len(base64.b64decode(letter.value_base64)) == 64 * 1024
    encode(letter, "test")


def test_a_dead_letter_names_an_unexpected_error() -> None:
    delivery = Delivery("t", 0, 0, b"", None, (), 0.0)
    letter = dead_letter("soldier", delivery, ZeroDivisionError("no"), "poison", ManualClock())
    assert letter.detail == "ZeroDivisionError('no')"


@given(
    st.binary(max_size=20_000),
    st.lists(st.tuples(st.text(), st.none() | st.binary() | st.just(b"\x00" * 100_000))),
    st.text(st.characters()),
)
@settings(deadline=None)
def test_a_dead_letter_of_anything_fits_in_one_record(
    key: bytes, headers: list[tuple[str, bytes | None]], detail: str
) -> None:
    delivery = Delivery("t", 0, 0, key, b"\xff" * 1_000_000, headers, 0.0)
    letter = dead_letter("soldier", delivery, Refused("late", detail), "late", ManualClock())
    assert len(encode(letter, "test")) == 1


def test_a_dead_letter_says_how_many_headers_it_lacks() -> None:
    headers = [(f"h{number}", b"x") for number in range(40)]
    delivery = Delivery("t", 0, 0, b"", None, headers, 0.0)
    letter = dead_letter("soldier", delivery, Refused("late", ""), "late", ManualClock())
    assert letter.headers["..."] == "8 more headers"


class Unprintable(Exception):  # noqa: N818  it stands for a bug
    def __repr__(self) -> str:
        raise ZeroDivisionError("repr")


def test_a_record_whose_error_cannot_be_described_gets_a_minimal_dead_letter() -> None:
    published: list[Record] = []

    class Writer:
        async def publish(self, records: Sequence[Record]) -> None:
            published.extend(records)

    clock = ManualClock()
    publisher = Publisher(
        Service(Example(ExampleSettings())), cast(BusWriter, Writer()), clock,
        Telemetry("example", clock),
    )  # fmt: skip
    delivery = Delivery("hirl.metrics-sampled.v1", 3, 7, b"a", b"{", (), 0.0)
    asyncio.run(publisher.reject(Rejection(delivery, Unprintable(), "poison")))
    (record,) = published
    letter = decode(record.topic, record.value, record.headers)
    assert isinstance(letter, Rejected)
    assert (letter.partition, letter.offset, letter.error) == (3, 7, "poison")
